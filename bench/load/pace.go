package main

import (
	"context"
	"sync"
	"time"
)

// kind is one sort of work.
type kind struct {
	name    string
	workers int
	do      func(ctx context.Context, worker int) error
}

// tally is what one kind has done.
type tally struct {
	histogram
	errors int
	err    error // one of them
	took   time.Duration
}

// perSecond is the rate of what was done.
func (t *tally) perSecond() float64 { return float64(t.n) / t.took.Seconds() }

func (t *tally) merge(other *tally) {
	t.histogram.merge(&other.histogram)
	t.errors += other.errors
	if t.err == nil {
		t.err = other.err
	}
	t.took = max(t.took, other.took)
}

// drive has all workers of all kinds work for d, and returns a tally for each
// kind. rates are operations a second, by kind; nil means as fast as possible.
func drive(ctx context.Context, kinds []kind, rates []float64, d time.Duration) []tally {
	tallies := make([]tally, len(kinds))
	var all sync.WaitGroup
	var mu sync.Mutex
	for i, k := range kinds {
		interval := time.Duration(0)
		if rates != nil {
			interval = time.Duration(float64(k.workers) / rates[i] * float64(time.Second))
		}
		for n := range k.workers {
			all.Go(func() {
				first := interval * time.Duration(n) / time.Duration(k.workers)
				t := repeat(ctx, k, n, first, interval, d)
				mu.Lock()
				defer mu.Unlock()
				tallies[i].merge(t)
			})
		}
	}
	all.Wait()
	return tallies
}

// repeat works at first, and then every interval, until d has passed. What is due
// is done, however late.
func repeat(ctx context.Context, k kind, worker int, first, interval, d time.Duration) *tally {
	t := &tally{}
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for due := first; due < d && ctx.Err() == nil; due += interval {
		if early := due - time.Since(began); early > 0 {
			timer.Reset(early)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if interval == 0 {
			due = time.Since(began)
			if due >= d {
				break
			}
		}
		if err := k.do(ctx, worker); err != nil {
			t.errors++
			t.err = err
		}
		t.add(time.Since(began) - due)
	}
	t.took = max(time.Since(began), d)
	return t
}
