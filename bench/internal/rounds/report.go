package rounds

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// Report collects the figures that have a goal.
type Report struct{ lines []line }

type line struct {
	name  string
	value Spread
	op    string
	goal  float64
}

// AtMost adds a figure that should not be above goal.
func (r *Report) AtMost(name string, value Spread, goal float64) {
	r.lines = append(r.lines, line{name, value, "<=", goal})
}

// AtLeast adds a figure that should not be below goal.
func (r *Report) AtLeast(name string, value Spread, goal float64) {
	r.lines = append(r.lines, line{name, value, ">=", goal})
}

// Missed counts the figures that are, as printed, on the wrong side.
func (r *Report) Missed() int {
	n := 0
	for _, l := range r.lines {
		if l.missed() {
			n++
		}
	}
	return n
}

func (l line) missed() bool {
	value, _ := strconv.ParseFloat(l.text(), 64)
	return l.op == "<=" && value > l.goal || l.op == ">=" && value < l.goal
}

func (l line) text() string { return strconv.FormatFloat(l.value.Mid, 'f', 2, 64) }

// Write writes the middle half of every figure over the rounds, and then, for
// people and programs, one line for each:
//
//	ratio: NAME VALUE goal <= GOAL
func (r *Report) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(w, "\nhalf of the rounds were within\n\n")
	for _, l := range r.lines {
		_, _ = fmt.Fprintf(t, "%s\t%.2f – %.2f\n", l.name, l.value.Low, l.value.High)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(w)
	for _, l := range r.lines {
		_, err := fmt.Fprintf(w, "ratio: %s %s goal %s %s\n", l.name, l.text(), l.op, strconv.FormatFloat(l.goal, 'f', -1, 64))
		if err != nil {
			return err
		}
	}
	return nil
}
