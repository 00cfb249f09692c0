package rounds

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// workers repeat an operation and note how long each took. Their room is kept
// from slice to slice, so that measuring allocates little itself.
type workers struct {
	lat [][]time.Duration // by worker
	all []time.Duration
}

func newWorkers(n int) *workers {
	w := &workers{lat: make([][]time.Duration, n)}
	for i := range w.lat {
		w.lat[i] = make([]time.Duration, 0, 4096)
	}
	return w
}

// run has every worker repeat v until the deadline, at least once.
func (w *workers) run(ctx context.Context, deadline time.Time, v Variant) error {
	if len(w.lat) == 1 {
		return w.repeat(ctx, 0, deadline, v)
	}
	errs := make([]error, len(w.lat))
	var wg sync.WaitGroup
	for i := range w.lat {
		wg.Go(func() { errs[i] = w.repeat(ctx, i, deadline, v) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (w *workers) repeat(ctx context.Context, worker int, deadline time.Time, v Variant) error {
	lat := w.lat[worker][:0]
	for {
		took, end, err := v.once(ctx, worker)
		if err != nil {
			return err
		}
		lat = append(lat, took)
		w.lat[worker] = lat
		if !end.Before(deadline) {
			return nil
		}
	}
}

// latencies are those of the last slice, sorted.
func (w *workers) latencies() []time.Duration {
	w.all = w.all[:0]
	for _, lat := range w.lat {
		w.all = append(w.all, lat...)
	}
	slices.Sort(w.all)
	return w.all
}

func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[int(p*float64(len(sorted)-1))]
}
