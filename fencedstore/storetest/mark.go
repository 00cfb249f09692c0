package storetest

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/fenced-go/fenced/fencedstore"
)

func markCases() []Case {
	return []Case{
		{
			"mark-never-falls",
			"The mark never falls, whatever happens on this resource and on others.",
			markNeverFalls,
		},
		{
			"mark-outlives-data",
			"The mark outlives the deletion of the data.",
			markOutlivesData,
		},
		{
			"mark-per-resource",
			"There is one mark for a resource, not one for each key.",
			markPerResource,
		},
		{
			"resources-are-independent",
			"A claim on one resource changes nothing for another.",
			resourcesIndependent,
		},
		{
			"resource-names-are-exact",
			"Resource names are compared byte for byte, whatever bytes they have.",
			resourceNames,
		},
		{
			"holders-are-exact",
			"Holders are compared byte for byte, whatever bytes they have.",
			holderNames,
		},
		{
			"large-ids-are-exact",
			"IDs are exact over the whole range of a positive int64.",
			largeIDs,
		},
	}
}

func markNeverFalls(ctx context.Context, e Env) error {
	s, f := e.New(), by(alice, 5)
	if err := first(
		accepted("claim 5", s.Claim(ctx, f)),
		refused("claim 3", s.Claim(ctx, by(bob, 3)), fencedstore.ErrStale),
		refused("write 3", s.Write(ctx, by(bob, 3), key, []byte("b")), fencedstore.ErrStale),
		refused("claim 4", s.Claim(ctx, by(bob, 4)), fencedstore.ErrStale),
		accepted("claim 7", s.Claim(ctx, by(bob, 7))),
		refused("claim 5, which was the mark", s.Claim(ctx, f), fencedstore.ErrStale),
		refused("claim 6, never seen", s.Claim(ctx, by(alice, 6)), fencedstore.ErrStale),
	); err != nil {
		return err
	}
	for i := range 100 {
		other := on(fmt.Sprintf("other-%d", i), 1, alice)
		if err := accepted("claim on another resource", s.Claim(ctx, other)); err != nil {
			return err
		}
	}
	return first(
		refused("claim 6 after 100 other resources", s.Claim(ctx, by(alice, 6)), fencedstore.ErrStale),
		accepted("write 7 after 100 other resources", s.Write(ctx, by(bob, 7), key, []byte("b"))),
	)
}

func markOutlivesData(ctx context.Context, e Env) error {
	s, f := e.New(), by(bob, 5)
	return first(
		accepted("claim 4", s.Claim(ctx, by(alice, 4))),
		accepted("write 4", s.Write(ctx, by(alice, 4), key, []byte("a"))),
		accepted("claim 5", s.Claim(ctx, f)),
		accepted("delete 5", s.Write(ctx, f, key, nil)),
		absent(ctx, s, key),
		refused("write 4 after all data is gone", s.Write(ctx, by(alice, 4), key, []byte("a")), fencedstore.ErrStale),
		refused("claim 4 after all data is gone", s.Claim(ctx, by(alice, 4)), fencedstore.ErrStale),
		absent(ctx, s, key),
		accepted("write 5", s.Write(ctx, f, key, []byte("b"))),
	)
}

func markPerResource(ctx context.Context, e Env) error {
	s, old, newer := e.New(), by(alice, 4), by(bob, 5)
	return first(
		accepted("claim 4", s.Claim(ctx, old)),
		accepted("write 4", s.Write(ctx, old, "written by 4", []byte("a"))),
		accepted("claim 5", s.Claim(ctx, newer)),
		accepted("write 5", s.Write(ctx, newer, "written by 5", []byte("b"))),
		refused("write 4, a key that 5 wrote", s.Write(ctx, old, "written by 5", []byte("a")), fencedstore.ErrStale),
		refused("write 4, a key that only 4 wrote", s.Write(ctx, old, "written by 4", []byte("c")), fencedstore.ErrStale),
		refused("write 4, a key that nobody wrote", s.Write(ctx, old, "untouched", []byte("a")), fencedstore.ErrStale),
		refused("delete 4, a key that only 4 wrote", s.Write(ctx, old, "written by 4", nil), fencedstore.ErrStale),
		holds(ctx, s, "written by 4", "a"),
		absent(ctx, s, "untouched"),
	)
}

func resourcesIndependent(ctx context.Context, e Env) error {
	s, high, low := e.New(), on("east", 9, alice), on("west", 2, bob)
	return first(
		accepted("claim 9 on east", s.Claim(ctx, high)),
		refused("write 2 on west, not claimed there", s.Write(ctx, low, key, []byte("b")), fencedstore.ErrNotClaimed),
		refused("write 9 on west, claimed on east", s.Write(ctx, on("west", 9, alice), key, []byte("b")), fencedstore.ErrNotClaimed),
		accepted("claim 2 on west", s.Claim(ctx, low)),
		accepted("write 2 on west", s.Write(ctx, low, key, []byte("b"))),
		accepted("write 9 on east", s.Write(ctx, high, "other key", []byte("a"))),
		refused("claim 8 on east", s.Claim(ctx, on("east", 8, bob)), fencedstore.ErrStale),
		holds(ctx, s, key, "b"),
	)
}

// Names that some layer folds, trims, splits, escapes or cuts.
var oddNames = []string{
	"a", "A", "á", "a\u0301", "\u00e1b", "a\u0301b", "a ", " a", "a\t", "a\n", "a\x00", "a\x00b", "\x00", "\x00a", "\xff", "\xff\xfe",
	"\xc0\xaf", "a/b", "a//b", "/a", "a/", ".", "..", "a/../b", "b", `a\b`, `a\\b`, "a\\", "{a}", "a{b}c", "a}b{c",
	"{}", "%", "%41", "%2541", "a%", "%s", "_", "a_b", "a%b", "*", "?", "[a]", "a:b", "a::b", ":", "a'b", `a"b`, "a''b",
	"a;b", "--", "$1", "null", "NULL", "0", "00", "1", "+1", "1e0", "é", "e\u0301", "ß", "ss", "SS", "ı", "i", "I", "İ", "ﬀ", "ff",
	"\u200b", "a\u200b", "\ufeffa", "日本", "🔒", "\xf0\x9f",
	strings.Repeat("x", fencedstore.MaxResource), strings.Repeat("x", fencedstore.MaxResource-1),
	strings.Repeat("x", fencedstore.MaxResource-1) + "y", strings.Repeat("\x00", fencedstore.MaxResource),
}

// resourceNames claims with falling IDs: two names that are taken for one
// make the second claim stale.
func resourceNames(ctx context.Context, e Env) error {
	s := e.New()
	fence := func(i int) fencedstore.Fence { return on(oddNames[i], int64(len(oddNames)-i), alice) }
	for i, name := range oddNames {
		if err := accepted(fmt.Sprintf("claim on %q, a name not used before", name), s.Claim(ctx, fence(i))); err != nil {
			return err
		}
	}
	for i, name := range oddNames {
		if err := first(
			accepted(fmt.Sprintf("write on %q", name), s.Write(ctx, fence(i), fmt.Sprint("key ", i), []byte(name))),
			holds(ctx, s, fmt.Sprint("key ", i), name),
		); err != nil {
			return err
		}
	}
	return nil
}

func holderNames(ctx context.Context, e Env) error {
	s := e.New()
	long := strings.Repeat("h", fencedstore.MaxHolder-1)
	for i, pair := range [][2]string{
		{"a", "A"},
		{"a", "a "},
		{"a", " a"},
		{"a", "a\x00"},
		{"a", "a\n"},
		{"\xff", "\xfe"},
		{"\xff", "\ufffd"},
		{"é", "e\u0301"},
		{"1", "01"},
		{"a", "%61"},
		{"a:b", "a"},
		{"a'b", "a''b"},
		{"null", "NULL"},
		{long + "1", long + "2"},
		{long, long + "1"},
	} {
		r := fmt.Sprint("resource ", i)
		mine, other := on(r, 5, pair[0]), on(r, 5, pair[1])
		what := fmt.Sprintf("claimed by %.20q", pair[0])
		if err := first(
			accepted("claim, to be "+what, s.Claim(ctx, mine)),
			refused(fmt.Sprintf("claim by %.20q, %s", pair[1], what), s.Claim(ctx, other), fencedstore.ErrFenceReused),
			refused(fmt.Sprintf("write by %.20q, %s", pair[1], what), s.Write(ctx, other, key, []byte("b")), fencedstore.ErrFenceReused),
			accepted("write, "+what, s.Write(ctx, mine, key, []byte("a"))),
		); err != nil {
			return err
		}
	}
	return nil
}

func largeIDs(ctx context.Context, e Env) error {
	s := e.New()
	ids := []int64{
		1, 1<<31 - 1, 1 << 31, 1 << 32, 1<<32 + 1, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<53 + 2,
		1e18, 1 << 62, 1<<62 + 1, math.MaxInt64 - 1, math.MaxInt64,
	}
	for i, id := range ids {
		f := on(resource, id, fmt.Sprint("holder ", i))
		if err := first(
			accepted(fmt.Sprint("claim ", id), s.Claim(ctx, f)),
			accepted(fmt.Sprint("write ", id), s.Write(ctx, f, key, []byte("a"))),
		); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		old := on(resource, ids[i-1], fmt.Sprint("holder ", i-1))
		what := fmt.Sprintf("%d after %d", old.ID, id)
		if err := first(
			isStale("claim "+what, s.Claim(ctx, old), old, id),
			isStale("write "+what, s.Write(ctx, old, key, []byte("b")), old, id),
		); err != nil {
			return err
		}
	}
	return nil
}
