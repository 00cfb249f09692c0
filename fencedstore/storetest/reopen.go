package storetest

import (
	"context"

	"github.com/fenced-go/fenced/fencedstore"
)

func reopenCases() []Case {
	return []Case{
		{
			"reopen-keeps-marks",
			"The mark and its holder are kept for whoever opens the store next.",
			reopenMarks,
		},
		{
			"reopen-keeps-values",
			"Values are kept for whoever opens the store next, and what another handle wrote is seen.",
			reopenValues,
		},
	}
}

func reopenMarks(ctx context.Context, e Env) error {
	s, old, newest := e.New(), by(alice, 4), by(bob, 5)
	if err := first(
		accepted("claim 4", s.Claim(ctx, old)),
		accepted("claim 5", s.Claim(ctx, newest)),
	); err != nil {
		return err
	}
	next, ok := e.Reopen(s)
	if !ok {
		return ErrSkip
	}
	return first(
		refused("claim 4 after reopening", next.Claim(ctx, old), fencedstore.ErrStale),
		refused("write 4 after reopening", next.Write(ctx, old, key, []byte("a")), fencedstore.ErrStale),
		refused("claim 5, another holder, after reopening", next.Claim(ctx, by(alice, 5)), fencedstore.ErrFenceReused),
		refused("write 6 after reopening", next.Write(ctx, by(alice, 6), key, []byte("a")), fencedstore.ErrNotClaimed),
		accepted("write 5 after reopening", next.Write(ctx, newest, key, []byte("b"))),
		accepted("claim 6 at the new handle", next.Claim(ctx, by(alice, 6))),
		refused("write 5 at the old handle", s.Write(ctx, newest, key, []byte("c")), fencedstore.ErrStale),
	)
}

func reopenValues(ctx context.Context, e Env) error {
	s, f := e.New(), by(alice, 5)
	if err := first(
		accepted("claim 5", s.Claim(ctx, f)),
		accepted("write", s.Write(ctx, f, key, []byte("a"))),
		accepted("write an empty value", s.Write(ctx, f, "empty", []byte{})),
		accepted("write what is deleted next", s.Write(ctx, f, "deleted", []byte("b"))),
		accepted("delete", s.Write(ctx, f, "deleted", nil)),
	); err != nil {
		return err
	}
	next, ok := e.Reopen(s)
	if !ok {
		return ErrSkip
	}
	return first(
		holds(ctx, next, key, "a"),
		holds(ctx, next, "empty", ""),
		absent(ctx, next, "deleted"),
		accepted("write at the new handle", next.Write(ctx, f, key, []byte("c"))),
		holds(ctx, s, key, "c"),
	)
}
