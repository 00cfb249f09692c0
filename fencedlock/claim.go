package fencedlock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fenced-go/fenced/fencedstore"
)

const (
	// claimRounds is how often a fence is replaced because a store knows a
	// newer one. One is enough unless others do the same at the same time.
	claimRounds = 3
	// claimTries is how often a claim is repeated whose outcome is unknown.
	claimTries = 3
)

// claim has every store claim the fence. A store that knows a newer one has
// outlived the data of Redis: then the fence is replaced by one above it, and
// every store claims again. The lease is watched and renewed meanwhile.
func (l *Locker) claim(ctx context.Context, k *Lock) error {
	for round := 0; ; round++ {
		mark, err := k.claimAll(ctx)
		if err == nil {
			return nil
		}
		if mark == 0 || round == claimRounds {
			return err
		}
		if err := l.refence(ctx, k, mark); err != nil {
			return err
		}
	}
}

// claimAll claims once everywhere. mark is the newest fence that a store
// reported, when that is all that went wrong.
func (k *Lock) claimAll(ctx context.Context) (mark int64, err error) {
	ctx, cancel := k.Context(ctx)
	defer cancel()
	errs := make([]error, len(k.terms.stores))
	var wg sync.WaitGroup
	for i, s := range k.terms.stores[1:] {
		wg.Go(func() { errs[i+1] = k.claimOne(ctx, i+1, s) })
	}
	errs[0] = k.claimOne(ctx, 0, k.terms.stores[0])
	wg.Wait()
	for i, e := range errs {
		if e == nil {
			continue
		}
		m := markOf(e)
		if err == nil || m == 0 {
			err = fmt.Errorf("fencedlock: acquire %q: store %d (%T): %w", k.fence.Resource, i, k.terms.stores[i], e)
		}
		if m == 0 {
			return 0, err
		}
		k.tellRefused(i, e) //nolint:contextcheck // it is the lock's, and derived from ctx
		mark = max(mark, m)
	}
	return mark, err
}

func (k *Lock) claimOne(ctx context.Context, i int, s fencedstore.Claimer) error {
	began := k.l.now().mono
	for try := 1; ; try++ {
		err := s.Claim(ctx, k.fence)
		if err == nil {
			k.tellClaimed(i, k.l.now().mono-began) //nolint:contextcheck // it is the lock's, and derived from ctx
			return nil
		}
		if !errors.Is(err, fencedstore.ErrUnknownOutcome) || try == claimTries {
			return err
		}
		if err2 := k.l.wait(ctx, backoff(try)); err2 != nil {
			return errors.Join(err, err2)
		}
	}
}

// markOf is the high-water mark that a refusal reports, 0 for other errors.
func markOf(err error) int64 {
	var stale *fencedstore.StaleError
	var reused *fencedstore.FenceReusedError
	switch {
	case errors.As(err, &stale):
		return stale.Newest
	case errors.As(err, &reused):
		return reused.Fence.ID
	}
	return 0
}

// maxFence is the bound of fence IDs: a poisoned store must not use them up.
const maxFence = 1 << 62

// refence replaces the fence by one above mark, without letting go of the lock.
func (l *Locker) refence(ctx context.Context, k *Lock, mark int64) error {
	if mark >= maxFence-1 {
		return l.failure("acquire", k.fence.Resource, &ConfigError{Need: needFence})
	}
	s := &l.scheduler
	s.Lock()
	k.paused, k.answerBy = true, 0 // renewals of the old fence would find it taken
	k.attempt++
	s.ready.remove(k)
	s.Unlock()
	k.ask.least = mark + 1
	held, err := l.obtain(ctx, k)
	if held == nil {
		if err == nil {
			k.tellHealed(mark) //nolint:contextcheck // it is the lock's, and derived from ctx
		}
		return err
	}
	s.Lock()
	defer s.Unlock()
	if k.err == nil {
		k.end(k.lost(Taken))
	}
	return k.err
}
