package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

func unknownCases() []Case {
	return []Case{
		{
			"unknown-write-converges",
			"A write whose answer is lost is reported as unknown, neither done nor refused, and may be repeated.",
			unknownWrite,
		},
		{
			"unknown-claim-converges",
			"A claim whose answer is lost is reported as unknown, neither done nor refused, and may be repeated.",
			unknownClaim,
		},
	}
}

func unknownWrite(ctx context.Context, e Env) error {
	s, f := e.New(), by(alice, 5)
	if err := accepted("claim 5", s.Claim(ctx, f)); err != nil {
		return err
	}
	lossy, ok := e.LoseReply(s)
	if !ok {
		return ErrSkip
	}
	return first(
		isUnknown("write 5, its answer lost", lossy.Write(ctx, f, key, []byte("a")), f),
		eventually(ctx, func() error { return holds(ctx, s, key, "a") }),
		accepted("the same write again", lossy.Write(ctx, f, key, []byte("a"))),
		holds(ctx, s, key, "a"),
		accepted("another write", lossy.Write(ctx, f, key, []byte("b"))),
		holds(ctx, s, key, "b"),
		refused("write 4", s.Write(ctx, by(bob, 4), key, []byte("c")), fencedstore.ErrStale),
	)
}

func unknownClaim(ctx context.Context, e Env) error {
	s, old, f := e.New(), by(alice, 4), by(bob, 5)
	if err := accepted("claim 4", s.Claim(ctx, old)); err != nil {
		return err
	}
	lossy, ok := e.LoseReply(s)
	if !ok {
		return ErrSkip
	}
	return first(
		isUnknown("claim 5, its answer lost", lossy.Claim(ctx, f), f),
		eventually(ctx, func() error {
			return refused("claim 4 after it", s.Claim(ctx, old), fencedstore.ErrStale)
		}),
		accepted("the same claim again", lossy.Claim(ctx, f)),
		accepted("write 5", lossy.Write(ctx, f, key, []byte("b"))),
		refused("write 4", s.Write(ctx, old, key, []byte("a")), fencedstore.ErrStale),
		holds(ctx, s, key, "b"),
	)
}

// eventually repeats check for five seconds: a server may still be at work on
// a call whose connection is gone.
func eventually(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the call whose answer was lost never took effect: %w", err)
		case <-poll.C:
		}
	}
}
