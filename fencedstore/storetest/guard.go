package storetest

import (
	"context"
	"fmt"

	"github.com/fenced-go/fenced/fencedstore"
)

func guardCases() []Case {
	return []Case{
		{
			"write-lower-is-stale",
			"Once a newer fence has been claimed, a write of an older one is refused as stale.",
			writeLower,
		},
		{
			"write-equal-of-another-holder-is-reused",
			"A write with the mark's ID by another holder is refused as reused.",
			writeEqual,
		},
		{
			"write-unclaimed-is-refused",
			"A write on a resource where nothing was claimed is refused as not claimed, and claims nothing.",
			writeUnclaimed,
		},
		{
			"write-above-the-mark-is-refused",
			"A write above the mark is refused as not claimed, and does not raise the mark.",
			writeAbove,
		},
		{
			"write-refused-changes-nothing",
			"A refused write has no effect at all: not on the value, not on its absence, not on the mark.",
			writeRefused,
		},
		{
			"write-again",
			"A holder writes as often as it likes with one fence.",
			writeAgain,
		},
	}
}

func writeLower(ctx context.Context, e Env) error {
	s, old := e.New(), by(alice, 4)
	return first(
		accepted("claim 4", s.Claim(ctx, old)),
		accepted("write 4", s.Write(ctx, old, key, []byte("a"))),
		accepted("claim 5", s.Claim(ctx, by(bob, 5))),
		refused("write 4 after 5 was claimed", s.Write(ctx, old, key, []byte("b")), fencedstore.ErrStale),
		accepted("write 5", s.Write(ctx, by(bob, 5), key, []byte("c"))),
		refused("write 4 after 5 has written", s.Write(ctx, old, key, []byte("d")), fencedstore.ErrStale),
		refused("write 3, never claimed", s.Write(ctx, by(alice, 3), key, []byte("e")), fencedstore.ErrStale),
		refused("write 4, the holder of 5", s.Write(ctx, by(bob, 4), key, []byte("f")), fencedstore.ErrStale),
	)
}

func writeEqual(ctx context.Context, e Env) error {
	s := e.New()
	return first(
		accepted("claim 5", s.Claim(ctx, by(alice, 5))),
		refused("write 5, another holder", s.Write(ctx, by(bob, 5), key, []byte("b")), fencedstore.ErrFenceReused),
		accepted("write 5", s.Write(ctx, by(alice, 5), key, []byte("a"))),
		refused("write 5, another holder, after a write", s.Write(ctx, by(bob, 5), key, []byte("b")), fencedstore.ErrFenceReused),
		holds(ctx, s, key, "a"),
	)
}

func writeUnclaimed(ctx context.Context, e Env) error {
	s := e.New()
	return first(
		refused("write 9, nothing claimed", s.Write(ctx, by(alice, 9), key, []byte("a")), fencedstore.ErrNotClaimed),
		refused("write 9 again", s.Write(ctx, by(alice, 9), key, []byte("a")), fencedstore.ErrNotClaimed),
		refused("delete 9, nothing claimed", s.Write(ctx, by(alice, 9), key, nil), fencedstore.ErrNotClaimed),
		absent(ctx, s, key),
		accepted("claim 3, below the refused write", s.Claim(ctx, by(bob, 3))),
		accepted("write 3", s.Write(ctx, by(bob, 3), key, []byte("b"))),
	)
}

func writeAbove(ctx context.Context, e Env) error {
	s, f := e.New(), by(alice, 5)
	return first(
		accepted("claim 5", s.Claim(ctx, f)),
		refused("write 9, another holder", s.Write(ctx, by(bob, 9), key, []byte("b")), fencedstore.ErrNotClaimed),
		refused("write 9, the holder of 5", s.Write(ctx, by(alice, 9), key, []byte("b")), fencedstore.ErrNotClaimed),
		absent(ctx, s, key),
		accepted("write 5 after the refused writes", s.Write(ctx, f, key, []byte("a"))),
		accepted("claim 6, below the refused writes", s.Claim(ctx, by(bob, 6))),
	)
}

func writeRefused(ctx context.Context, e Env) error {
	s := e.New()
	newest := by(bob, 5)
	if err := first(
		accepted("claim 4", s.Claim(ctx, by(alice, 4))),
		accepted("claim 5", s.Claim(ctx, newest)),
		accepted("write 5", s.Write(ctx, newest, key, []byte("kept"))),
	); err != nil {
		return err
	}
	for _, tt := range []struct {
		f     fencedstore.Fence
		class error
	}{
		{by(alice, 4), fencedstore.ErrStale},
		{by(alice, 5), fencedstore.ErrFenceReused},
		{by(alice, 6), fencedstore.ErrNotClaimed},
	} {
		what := fmt.Sprintf("write %d, to be refused", tt.f.ID)
		if err := first(
			refused(what, s.Write(ctx, tt.f, key, []byte("b")), tt.class),
			holds(ctx, s, key, "kept"),
			refused(what+", a delete", s.Write(ctx, tt.f, key, nil), tt.class),
			holds(ctx, s, key, "kept"),
			refused(what+", a new key", s.Write(ctx, tt.f, "absent", []byte("b")), tt.class),
			absent(ctx, s, "absent"),
			refused(what+", the same again", s.Write(ctx, tt.f, key, []byte("b")), tt.class),
			accepted("write 5 after it", s.Write(ctx, newest, key, []byte("kept"))),
		); err != nil {
			return err
		}
	}
	return nil
}

func writeAgain(ctx context.Context, e Env) error {
	s, f := e.New(), by(alice, 5)
	if err := accepted("claim 5", s.Claim(ctx, f)); err != nil {
		return err
	}
	for i := range 5 {
		value := fmt.Sprint("value ", i)
		if err := first(
			accepted(fmt.Sprint("write ", i), s.Write(ctx, f, key, []byte(value))),
			accepted(fmt.Sprint("the same write ", i), s.Write(ctx, f, key, []byte(value))),
			accepted(fmt.Sprint("write of another key ", i), s.Write(ctx, f, fmt.Sprint("key ", i), []byte(value))),
			holds(ctx, s, key, value),
		); err != nil {
			return err
		}
	}
	return nil
}
