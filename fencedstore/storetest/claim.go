package storetest

import (
	"context"

	"github.com/fenced-go/fenced/fencedstore"
)

func claimCases() []Case {
	return []Case{
		{
			"claim-lower-is-stale",
			"A claim with an ID below the mark is refused as stale.",
			claimLower,
		},
		{
			"claim-equal-of-another-holder-is-reused",
			"A claim with the mark's ID by another holder is refused as reused: exactly one of the two goes on.",
			claimEqual,
		},
		{
			"claim-repeats",
			"A claim may be repeated by its holder; nothing changes.",
			claimRepeats,
		},
		{
			"claim-skips-ids",
			"A claim above the mark is accepted however far above it is: IDs are not dense.",
			claimSkips,
		},
		{
			"claim-refused-changes-nothing",
			"A refused claim changes neither the mark nor its holder.",
			claimRefused,
		},
	}
}

func claimLower(ctx context.Context, e Env) error {
	s := e.New()
	return first(
		accepted("claim 5", s.Claim(ctx, by(alice, 5))),
		refused("claim 4 after 5, another holder", s.Claim(ctx, by(bob, 4)), fencedstore.ErrStale),
		refused("claim 4 after 5, same holder", s.Claim(ctx, by(alice, 4)), fencedstore.ErrStale),
		refused("claim 1 after 5", s.Claim(ctx, by(bob, 1)), fencedstore.ErrStale),
	)
}

func claimEqual(ctx context.Context, e Env) error {
	s := e.New()
	return first(
		accepted("claim 5", s.Claim(ctx, by(alice, 5))),
		refused("claim 5, another holder", s.Claim(ctx, by(bob, 5)), fencedstore.ErrFenceReused),
		accepted("write 5", s.Write(ctx, by(alice, 5), key, []byte("a"))),
		refused("claim 5, another holder, after a write", s.Claim(ctx, by(bob, 5)), fencedstore.ErrFenceReused),
	)
}

func claimRepeats(ctx context.Context, e Env) error {
	s, f := e.New(), by(alice, 5)
	return first(
		accepted("claim 5", s.Claim(ctx, f)),
		accepted("claim 5 again", s.Claim(ctx, f)),
		accepted("write 5", s.Write(ctx, f, key, []byte("a"))),
		accepted("claim 5 after a write", s.Claim(ctx, f)),
		holds(ctx, s, key, "a"),
		accepted("write 5 after three claims", s.Write(ctx, f, key, []byte("b"))),
		refused("claim 4", s.Claim(ctx, by(bob, 4)), fencedstore.ErrStale),
		accepted("claim 6", s.Claim(ctx, by(bob, 6))),
	)
}

func claimSkips(ctx context.Context, e Env) error {
	s := e.New()
	return first(
		accepted("claim 3, the first ever", s.Claim(ctx, by(alice, 3))),
		accepted("claim 1 000 000", s.Claim(ctx, by(bob, 1_000_000))),
		accepted("claim 1 000 001, same holder", s.Claim(ctx, by(bob, 1_000_001))),
		accepted("write 1 000 001", s.Write(ctx, by(bob, 1_000_001), key, []byte("b"))),
	)
}

func claimRefused(ctx context.Context, e Env) error {
	s, f := e.New(), by(alice, 5)
	return first(
		accepted("claim 5", s.Claim(ctx, f)),
		accepted("write 5", s.Write(ctx, f, key, []byte("a"))),
		refused("claim 4", s.Claim(ctx, by(bob, 4)), fencedstore.ErrStale),
		refused("write 4 after its refused claim", s.Write(ctx, by(bob, 4), key, []byte("b")), fencedstore.ErrStale),
		accepted("write 5 after a refused claim of 4", s.Write(ctx, f, key, []byte("c"))),
		refused("claim 5, another holder", s.Claim(ctx, by(bob, 5)), fencedstore.ErrFenceReused),
		refused("write 5, another holder", s.Write(ctx, by(bob, 5), key, []byte("b")), fencedstore.ErrFenceReused),
		accepted("write 5 after a refused claim of 5", s.Write(ctx, f, key, []byte("d"))),
		accepted("claim 5 again", s.Claim(ctx, f)),
		holds(ctx, s, key, "d"),
	)
}
