package fenced_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/internal/faults"
)

// tenure is one acquisition.
func (w *faultWorker) tenure(ctx context.Context, r *rand.Rand) {
	o := w.begin(faults.Op{Kind: faults.Acquire, Resource: w.Resources[r.IntN(len(w.Resources))]})
	within, cancel := context.WithTimeout(ctx, acquireWithin)
	defer cancel()
	lock, err := w.locker.Acquire(within, o.Resource, nil)
	if err == nil {
		o.Fence, o.Holder = lock.Fence().ID, digest(lock.Fence().Holder)
	}
	w.end(o, err)
	if err != nil {
		pause(ctx)
		return
	}
	release := func() {
		o := w.begin(faults.Op{Kind: faults.Release, Resource: o.Resource, Fence: o.Fence, Holder: o.Holder})
		w.end(o, lock.Release(ctx))
	}
	work, stop := lock.Context(context.WithoutCancel(ctx))
	defer stop()
	switch r.IntN(4) {
	case 0: // it ends with its lock
	case 1: // it goes on, and the store still knows when the lease ends
		work = context.WithoutCancel(work)
	default: // the store knows nothing but the fence
		work = context.WithoutCancel(ctx)
	}
	if r.IntN(2) == 0 {
		w.work(work, r, lock.Fence())
		release()
		return
	}
	// The lock goes while the work goes on, as it does for a holder that does not
	// know what has become of it.
	var gone sync.WaitGroup
	after := time.Duration(r.Int64N(int64(faultTTL / 4)))
	gone.Go(func() {
		rest(ctx, after)
		release()
	})
	w.work(work, r, lock.Fence())
	gone.Wait()
}

// work reads, and then writes a few times. It ends at the first error.
func (w *faultWorker) work(ctx context.Context, r *rand.Rand, f fencedstore.Fence) {
	of := faults.Op{Resource: f.Resource, Fence: f.ID, Holder: digest(f.Holder)}
	of.Kind = faults.Read
	o := w.begin(of)
	within, cancel := context.WithTimeout(ctx, writeWithin)
	saw, err := w.store.read(within, f)
	cancel()
	o.Value = saw
	w.end(o, err)
	for n := 1 + r.IntN(3); n > 0 && err == nil; n-- {
		if r.IntN(2) == 0 && !rest(ctx, time.Duration(r.Int64N(int64(faultTTL/4)))) {
			return
		}
		of.Kind, of.Saw, of.Value = faults.Write, saw, fmt.Sprint(w.Name, "/", w.values.Add(1))
		o := w.begin(of)
		err = w.write(ctx, f, o)
		w.end(o, err)
		saw = o.Value
	}
}

// write repeats a write whose outcome is unknown, with the same fence. What a
// later attempt says about itself says nothing about the first.
func (w *faultWorker) write(ctx context.Context, f fencedstore.Fence, o *faults.Op) error {
	giveUp := time.Now().Add(settleWithin)
	for unknown := false; ; {
		within, cancel := context.WithTimeout(ctx, writeWithin)
		err := w.store.write(within, f, o.Saw, o.Value, unknown)
		cancel()
		result := resultOf(err)
		if result == faults.Done || result != faults.Unknown && !unknown {
			return err
		}
		unknown = true
		if result == faults.Refused || time.Now().After(giveUp) || !pause(ctx) {
			return &fencedstore.UnknownOutcomeError{Op: "write", Fence: f, Err: err}
		}
	}
}

// rest waits for d, and reports false when ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
