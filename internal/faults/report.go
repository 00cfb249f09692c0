package faults

import (
	"fmt"
	"strings"
	"time"
)

// maxLines bounds what a report shows of a history.
const maxLines = 40

// Report is a violation for people: the rule, the operations that prove it, what
// else happened to the resource at that time, and the faults that were at work.
func (h *History) Report(v Violation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %s\n", v.Rule, v.Resource, v.Text)
	from, to := v.span()
	zero := h.began()
	if from.IsZero() {
		return b.String()
	}
	fmt.Fprintf(&b, "from %s to %s, > proves it:\n", since(zero, from), since(zero, to))
	for _, harm := range h.Harms() {
		if !harm.Began.After(to) && !harm.Ended.Before(from) {
			fmt.Fprintf(&b, "  %9v %9v   %s\n", since(zero, harm.Began), since(zero, harm.Ended), harm.Name)
		}
	}
	h.excerpt(&b, v, zero)
	return b.String()
}

// excerpt writes the operations on the resource between those that prove v.
func (h *History) excerpt(b *strings.Builder, v Violation, zero time.Time) {
	from, to := v.span()
	proof := make(map[opID]bool)
	for _, o := range v.Ops {
		proof[opID{o.Who, o.ID}] = true
	}
	lines, left := 0, 0
	for _, o := range h.Ops() {
		proves := proof[opID{o.Who, o.ID}]
		if o.Resource != v.Resource || !proves && !o.during(from, to) {
			continue
		}
		if lines++; lines > maxLines && !proves {
			left++
			continue
		}
		mark := " "
		if proves {
			mark = ">"
		}
		fmt.Fprintf(b, "%s %9v %9v %s\n", mark, since(zero, o.Began), since(zero, o.Ended), o)
	}
	if left > 0 {
		fmt.Fprintf(b, "  and %d more\n", left)
	}
}

// during says that o may have had an effect between two instants. What was never
// answered may have one at any time, if it is a write.
func (o *Op) during(from, to time.Time) bool {
	if o.Result == Never {
		return o.Kind == Write && !o.Began.After(to)
	}
	return !o.Began.After(to) && !o.Ended.Before(from)
}

// began is when the first operation or fault did.
func (h *History) began() time.Time {
	var first time.Time
	if ops := h.Ops(); len(ops) > 0 {
		first = ops[0].Began
	}
	if harms := h.Harms(); len(harms) > 0 && (first.IsZero() || harms[0].Began.Before(first)) {
		first = harms[0].Began
	}
	return first
}

// since is how long after zero something was, and nothing for never.
func since(zero, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Sub(zero).Round(100 * time.Microsecond).String()
}

// span is the time of the operations that prove a violation.
func (v Violation) span() (from, to time.Time) {
	for _, o := range v.Ops {
		if from.IsZero() || o.Began.Before(from) {
			from = o.Began
		}
		for _, t := range []time.Time{o.Began, o.Ended} {
			if t.After(to) {
				to = t
			}
		}
	}
	return from, to
}
