package rounds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/pprof"
	"time"
)

// Variant is one way of doing the thing.
type Variant struct {
	// Name tells it apart in tables, ratios and profiles.
	Name string
	// Do is one operation by one of Plan.Workers, counted from 0. Its context
	// has neither a deadline nor an end, which some variants would pay for. An
	// error ends the comparison.
	Do func(ctx context.Context, worker int) error
	// Before and After come before and after each operation and are not part of
	// it; they may be nil.
	Before, After func(ctx context.Context, worker int) error
}

// once runs an operation and returns how long it took, and when it ended.
func (v Variant) once(ctx context.Context, worker int) (took time.Duration, end time.Time, err error) {
	if v.Before != nil {
		err = v.Before(ctx, worker)
	}
	began := time.Now()
	if err == nil {
		err = v.Do(ctx, worker)
	}
	end = time.Now()
	if err == nil && v.After != nil {
		err = v.After(ctx, worker)
	}
	return end.Sub(began), end, err
}

// Plan is how variants are compared.
type Plan struct {
	// Name is the heading of the table.
	Name string
	// Rounds is how often every variant gets a slice.
	Rounds int
	// Slice is how long one lasts; the operation under way is finished.
	Slice time.Duration
	// Workers is how many goroutines repeat the operation at once.
	Workers int
	// Rand draws the order.
	Rand *rand.Rand
}

// Run runs all rounds, after one that warms up and is not counted. It ends
// between two slices when ctx does.
//
// CPU profiles taken meanwhile carry the variant's name as the label
// "variant".
func (p Plan) Run(ctx context.Context, variants ...Variant) (*Result, error) {
	r := newResult(p, variants)
	w := newWorkers(p.Workers)
	for round := -1; round < p.Rounds; round++ {
		for _, i := range p.Rand.Perm(len(variants)) {
			s, err := w.labelled(ctx, p.Slice, variants[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", p.Name, variants[i].Name, err)
			}
			if round >= 0 {
				r.samples[i] = append(r.samples[i], s)
			}
		}
	}
	return r, nil
}

func (w *workers) labelled(ctx context.Context, length time.Duration, v Variant) (s Sample, err error) {
	if err := context.Cause(ctx); err != nil {
		return Sample{}, err
	}
	pprof.Do(context.WithoutCancel(ctx), pprof.Labels("variant", v.Name), func(ctx context.Context) {
		s, err = w.slice(ctx, length, v)
	})
	return s, err
}

// slice measures one slice of a variant. It begins with a collection, so that
// nobody pays for another's garbage.
func (w *workers) slice(ctx context.Context, length time.Duration, v Variant) (Sample, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	if err := w.run(ctx, began.Add(length), v); err != nil {
		return Sample{}, err
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	lat := w.latencies()
	n := float64(len(lat))
	return Sample{
		P50:       percentile(lat, 0.5),
		P99:       percentile(lat, 0.99),
		PerSecond: n / took.Seconds(),
		Allocs:    float64(after.Mallocs-before.Mallocs) / n,
	}, nil
}
