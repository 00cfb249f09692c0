package storetest

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

func inputCases() []Case {
	return []Case{
		{
			"invalid-fence-is-refused",
			"A malformed fence is refused as invalid before any effect.",
			invalidFence,
		},
		{
			"done-context-has-no-effect",
			"A call whose context is already done has no effect and returns the context's error.",
			doneContext,
		},
	}
}

func invalidFence(ctx context.Context, e Env) error {
	s := e.New()
	if err := accepted("claim 5", s.Claim(ctx, by(alice, 5))); err != nil {
		return err
	}
	for name, f := range map[string]fencedstore.Fence{
		"the zero fence":            {},
		"no resource":               {ID: 5, Holder: alice},
		"a resource of 513 bytes":   {Resource: strings.Repeat("r", fencedstore.MaxResource+1), ID: 5, Holder: alice},
		"ID 0":                      by(alice, 0),
		"ID 0 on a new resource":    on("new", 0, alice),
		"ID -1":                     by(alice, -1),
		"ID -1 on a new resource":   on("new", -1, alice),
		"the smallest int64":        by(alice, math.MinInt64),
		"no holder":                 by("", 5),
		"no holder, a new ID":       by("", 6),
		"a holder of 129 bytes":     by(strings.Repeat("h", fencedstore.MaxHolder+1), 6),
		"no holder, a new resource": on("new", 6, ""),
	} {
		if err := first(
			refused("claim with "+name, s.Claim(ctx, f), fencedstore.ErrInvalidFence),
			refused("write with "+name, s.Write(ctx, f, key, []byte("b")), fencedstore.ErrInvalidFence),
			absent(ctx, s, key),
			accepted("write 5 after it", s.Write(ctx, by(alice, 5), "other", []byte("a"))),
		); err != nil {
			return err
		}
	}
	return first(
		accepted("claim 6", s.Claim(ctx, by(alice, 6))),
		accepted("claim 1 on the new resource", s.Claim(ctx, on("new", 1, alice))),
	)
}

func doneContext(ctx context.Context, e Env) error {
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	late, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
	defer cancel()
	s, f := e.New(), by(alice, 5)
	return first(
		accepted("claim 5", s.Claim(ctx, f)),
		accepted("write 5", s.Write(ctx, f, key, []byte("kept"))),
		callsEnd(cancelled, s, f),
		holds(ctx, s, key, "kept"),
		callsEnd(late, s, f),
		holds(ctx, s, key, "kept"),
		accepted("write 5 after a claim that was too late", s.Write(ctx, f, key, []byte("kept"))),
		accepted("claim 8, below the one that was too late", s.Claim(ctx, by(bob, 8))),
	)
}

// callsEnd wants every call with done to end with done's error.
func callsEnd(done context.Context, s fencedstore.Store, f fencedstore.Fence) error {
	_, readErr := s.Read(done, key)
	return first(
		ended(done, "claim 9", s.Claim(done, by(bob, 9))),
		ended(done, "write 5", s.Write(done, f, key, []byte("b"))),
		ended(done, "delete 5", s.Write(done, f, key, nil)),
		ended(done, "read", readErr),
	)
}

func ended(done context.Context, what string, err error) error {
	return refused(what+" with a context that is done", err, done.Err())
}
