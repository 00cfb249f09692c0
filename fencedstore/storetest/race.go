package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/fenced-go/fenced/fencedstore"
)

func raceCases() []Case {
	return []Case{
		{
			"first-claims-race",
			"The first claims ever made on a resource race safely: the highest ID wins.",
			firstClaimsRace,
		},
		{
			"equal-claims-race",
			"Of two holders that claim one ID at once, exactly one is accepted, and only it writes.",
			equalClaimsRace,
		},
		{
			"many-claims-race",
			"However many claims race, the highest ID is accepted and is the only one that writes afterwards.",
			manyClaimsRace,
		},
		{
			"check-and-write-are-one-step",
			"Check and write are one atomic step: no older write lands on what a newer holder wrote.",
			oneStep,
		},
		{
			"claim-drains-older-writes",
			"When a claim has returned, every older write has finished or can no longer succeed: what is read then stays.",
			claimDrains,
		},
		{
			"writes-side-by-side",
			"Writes of one holder may run side by side.",
			writesSideBySide,
		},
	}
}

func firstClaimsRace(ctx context.Context, e Env) error {
	s := e.New()
	s2 := second(e, s)
	return rounds(func(i int) error {
		low, high := on(fmt.Sprint("r", i), 1, alice), on(fmt.Sprint("r", i), 2, bob)
		claimLow := func() error { return s.Claim(ctx, low) }
		claimHigh := func() error { return s2.Claim(ctx, high) }
		var lowErr, highErr error
		if i%2 == 0 {
			errs := together(claimLow, claimHigh)
			lowErr, highErr = errs[0], errs[1]
		} else {
			errs := together(claimHigh, claimLow)
			highErr, lowErr = errs[0], errs[1]
		}
		if lowErr != nil {
			if err := refused("claim 1 beside claim 2", lowErr, fencedstore.ErrStale); err != nil {
				return err
			}
		}
		k := fmt.Sprint("k", i)
		return first(
			accepted("claim 2 beside claim 1", highErr),
			refused("write 1", s.Write(ctx, low, k, []byte("low")), fencedstore.ErrStale),
			accepted("write 2", s.Write(ctx, high, k, []byte("high"))),
			refused("claim 1", s2.Claim(ctx, low), fencedstore.ErrStale),
			holds(ctx, s2, k, "high"),
		)
	})
}

func equalClaimsRace(ctx context.Context, e Env) error {
	s := e.New()
	s2 := second(e, s)
	return rounds(func(i int) error {
		winner, loser := on(fmt.Sprint("r", i), 5, alice), on(fmt.Sprint("r", i), 5, bob)
		errs := together(
			func() error { return s.Claim(ctx, winner) },
			func() error { return s2.Claim(ctx, loser) },
		)
		if errs[0] != nil {
			winner, loser = loser, winner
			errs[0], errs[1] = errs[1], errs[0]
		}
		k := fmt.Sprint("k", i)
		return first(
			accepted("one of two claims of 5", errs[0]),
			refused("the other one", errs[1], fencedstore.ErrFenceReused),
			refused("write of the one that was refused", s.Write(ctx, loser, k, []byte("loser")), fencedstore.ErrFenceReused),
			accepted("write of the one that was accepted", s2.Write(ctx, winner, k, []byte("winner"))),
			holds(ctx, s, k, "winner"),
		)
	})
}

func manyClaimsRace(ctx context.Context, e Env) error {
	const n = 8
	s := e.New()
	handles := []fencedstore.Store{s, second(e, s)}
	return rounds(func(i int) error {
		fence := func(id int) fencedstore.Fence { return on(fmt.Sprint("r", i), int64(id), fmt.Sprint("holder ", id)) }
		claims := make([]func() error, n)
		for c := range n {
			claims[c] = func() error { return handles[c%2].Claim(ctx, fence((c+i)%n+1)) }
		}
		for c, err := range together(claims...) {
			id := (c+i)%n + 1
			if err == nil {
				continue
			}
			if err := refused(fmt.Sprint("claim ", id), err, fencedstore.ErrStale); err != nil || id == n {
				return errors.Join(err, fmt.Errorf("claim %d of %d at once was refused", id, n))
			}
		}
		for id := 1; id < n; id++ {
			if err := refused(fmt.Sprint("write ", id), s.Write(ctx, fence(id), "k", []byte("low")), fencedstore.ErrStale); err != nil {
				return err
			}
		}
		return accepted("write of the highest", s.Write(ctx, fence(n), "k", []byte("high")))
	})
}

func oneStep(ctx context.Context, e Env) error {
	return takeovers(ctx, e, func(s fencedstore.Store, f fencedstore.Fence, k string) ([]byte, error) {
		value := []byte("of the newer holder")
		return value, accepted("write 2", s.Write(ctx, f, k, value))
	})
}

func claimDrains(ctx context.Context, e Env) error {
	return takeovers(ctx, e, func(s fencedstore.Store, _ fencedstore.Fence, k string) ([]byte, error) {
		value, err := s.Read(ctx, k)
		return value, accepted("read after claim 2", err)
	})
}

// takeovers lets a newer holder claim in the middle of an older one's writes.
// What next returns must still be there when the last of them has ended.
func takeovers(ctx context.Context, e Env, next func(s fencedstore.Store, f fencedstore.Fence, key string) ([]byte, error)) error {
	s := e.New()
	s2 := second(e, s)
	return rounds(func(i int) error {
		old, newer, k := on(fmt.Sprint("r", i), 1, alice), on(fmt.Sprint("r", i), 2, bob), fmt.Sprint("k", i)
		if err := accepted("claim 1", s.Claim(ctx, old)); err != nil {
			return err
		}
		writing := make(chan struct{})
		var value []byte
		errs := together(
			func() (err error) {
				<-writing
				if err := accepted("claim 2", s2.Claim(ctx, newer)); err != nil {
					return err
				}
				value, err = next(s2, newer, k)
				return err
			},
			writeUntilRefused(ctx, []fencedstore.Store{s, s2, s}, old, k, writing),
		)
		return first(errs[0], errs[1], holds(ctx, s, k, string(value)))
	})
}

// writeUntilRefused writes through all stores at once, each time a new value,
// until each has refused as stale. It closes writing after the first write.
func writeUntilRefused(ctx context.Context, stores []fencedstore.Store, f fencedstore.Fence, key string, writing chan<- struct{}) func() error {
	var begun atomic.Bool
	begin := func() {
		if begun.CompareAndSwap(false, true) {
			close(writing)
		}
	}
	writers := make([]func() error, len(stores))
	for w, s := range stores {
		writers[w] = func() error {
			defer begin() // also after a failure, so that nobody waits
			for n := range 100_000 {
				if err := s.Write(ctx, f, key, fmt.Appendf(nil, "writer %d, value %d", w, n)); err != nil {
					return refused("write 1 beside claim 2", err, fencedstore.ErrStale)
				}
				begin()
			}
			return errors.New("write 1 was never refused")
		}
	}
	return func() error { return first(together(writers...)...) }
}

func writesSideBySide(ctx context.Context, e Env) error {
	const n = 8
	s := e.New()
	handles := []fencedstore.Store{s, second(e, s)}
	return rounds(func(i int) error {
		f := on(fmt.Sprint("r", i), 5, alice)
		if err := accepted("claim 5", s.Claim(ctx, f)); err != nil {
			return err
		}
		writes := make([]func() error, n)
		for w := range n {
			writes[w] = func() error {
				k := fmt.Sprintf("k%d.%d", i, w)
				return first(
					accepted("write beside others of the holder", handles[w%2].Write(ctx, f, k, []byte(k))),
					holds(ctx, handles[w/2%2], k, k),
				)
			}
		}
		return first(together(writes...)...)
	})
}
