package rounds

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Sample is what one slice measured.
type Sample struct {
	// P50 and P99 are percentiles of the duration of an operation.
	P50, P99 time.Duration
	// PerSecond counts the operations of all workers together.
	PerSecond float64
	// Allocs is the number of objects allocated for an operation, by whatever
	// goroutine.
	Allocs float64
}

// Metric picks one figure of a sample.
type Metric func(Sample) float64

// The metrics.
var (
	P50       Metric = func(s Sample) float64 { return float64(s.P50) }
	P99       Metric = func(s Sample) float64 { return float64(s.P99) }
	PerSecond Metric = func(s Sample) float64 { return s.PerSecond }
	Allocs    Metric = func(s Sample) float64 { return s.Allocs }
)

// Result holds the samples of a finished plan.
type Result struct {
	plan    Plan
	names   []string
	samples [][]Sample // by variant, then by round
}

func newResult(p Plan, variants []Variant) *Result {
	r := &Result{plan: p, samples: make([][]Sample, len(variants))}
	for _, v := range variants {
		r.names = append(r.names, v.Name)
	}
	return r
}

// of are the figures of a variant, one for each round.
func (r *Result) of(m Metric, name string) []float64 {
	i := slices.Index(r.names, name)
	if i < 0 {
		panic("rounds: no variant " + name)
	}
	list := make([]float64, len(r.samples[i]))
	for round, s := range r.samples[i] {
		list[round] = m(s)
	}
	return list
}

// Median is the middle figure of a variant.
func (r *Result) Median(m Metric, name string) Spread { return spread(r.of(m, name)) }

// Ratio compares two variants round by round.
func (r *Result) Ratio(m Metric, name, base string) Spread {
	list, under := r.of(m, name), r.of(m, base)
	for i := range list {
		list[i] /= under[i]
	}
	return spread(list)
}

// Spread is the middle of a list of figures, and the quarters beside it.
type Spread struct{ Low, Mid, High float64 }

// SpreadOf is the spread of figures that a program has measured by itself.
func SpreadOf(list []float64) Spread { return spread(list) }

func spread(list []float64) Spread {
	list = slices.Clone(list)
	slices.Sort(list)
	return Spread{Low: quantile(list, 0.25), Mid: quantile(list, 0.5), High: quantile(list, 0.75)}
}

// quantile lies between two figures where no figure is in the place.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Quiet compares two variants by their p50 in the least disturbed rounds, the
// tenth percentile over the rounds. On a machine with nothing else to do a
// request ends with waking a sleeping CPU, most of the time, and a median hides
// much of what the request itself costs.
func (r *Result) Quiet(name, base string) float64 { return r.quiet(name) / r.quiet(base) }

func (r *Result) quiet(name string) float64 {
	list := r.of(P50, name)
	slices.Sort(list)
	return quantile(list, 0.1)
}

// WriteTable writes the medians of every variant, and the ratios of its p50 to
// that of the first one: round by round, and quiet.
func (r *Result) WriteTable(w io.Writer) error {
	p := r.plan
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(w, "\n%s: %d rounds of %v, workers: %d\n\n", p.Name, p.Rounds, p.Slice, p.Workers)
	_, _ = fmt.Fprintf(t, "p50 µs\tp99 µs\tper second\tallocs\tp50 ÷ %s\tquiet\t \n", r.names[0])
	for _, name := range r.names {
		_, _ = fmt.Fprintf(t, "%.0f\t%.0f\t%.0f\t%.1f\t%.2f\t%.2f\t %s\n",
			r.Median(P50, name).Mid/1e3, r.Median(P99, name).Mid/1e3,
			r.Median(PerSecond, name).Mid, r.Median(Allocs, name).Mid,
			r.Ratio(P50, name, r.names[0]).Mid, r.Quiet(name, r.names[0]), name)
	}
	return t.Flush()
}
