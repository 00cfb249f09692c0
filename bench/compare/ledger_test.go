package main

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

// ledger is an empty store and somebody who writes to it.
func ledger(t *testing.T) *world {
	t.Helper()
	w := &world{Postgres: testenv.Database(t)}
	if err := prepare(t.Context(), w.Postgres); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.pool, err = pgxpool.New(t.Context(), w.Postgres); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pool.Close)
	if w.store, err = postgres.New(w.pool, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

// begin reads account 1 as a tenure and returns what that would write.
func begin(t *testing.T, w *world, tenure int64) entry {
	t.Helper()
	value, err := w.read(t.Context(), 1, tenure)
	if err != nil {
		t.Fatal(err)
	}
	return entry{account: 1, tenure: tenure, value: value + 1}
}

func wantVerdict(t *testing.T, w *world, want verdict) {
	t.Helper()
	got, err := judge(t.Context(), w.Postgres)
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

// TestOracleCountsWhatWasLost replays the story: a sleeps, b and c write, a
// wakes up and writes what it had read before.
func TestOracleCountsWhatWasLost(t *testing.T) {
	t.Parallel()
	w := ledger(t)
	a := begin(t, w, 1)
	for tenure := int64(2); tenure <= 3; tenure++ {
		if err := writePlain(t.Context(), w, nil, begin(t, w, tenure)); err != nil {
			t.Fatal(err)
		}
	}
	wantVerdict(t, w, verdict{Committed: 2})
	if err := writePlain(t.Context(), w, nil, a); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, w, verdict{Committed: 3, Lost: 2, Stale: 1, Duplicates: 1})
}

// TestFenceByHandRefusesOnlyAfterAWrite is why a claim comes before the read.
func TestFenceByHandRefusesOnlyAfterAWrite(t *testing.T) {
	t.Parallel()
	w := ledger(t)
	with := func(id int64) *tenure { return &tenure{fence: fencedstore.Fence{ID: id}} }
	a, b := begin(t, w, 1), begin(t, w, 2)
	if err := writeByHand(t.Context(), w, with(41), a); err != nil {
		t.Fatalf("got %v: 41 is the newest that the resource has seen", err)
	}
	if err := writeByHand(t.Context(), w, with(42), b); err != nil {
		t.Fatal(err)
	}
	if err := writeByHand(t.Context(), w, with(41), a); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want a refusal after 42 has written", err)
	}
	wantVerdict(t, w, verdict{Committed: 2, Lost: 1, Stale: 1, Duplicates: 1})
}

func TestGuardRefusesAfterAClaim(t *testing.T) {
	t.Parallel()
	w := ledger(t)
	claimed := func(id int64) *tenure {
		f := fencedstore.Fence{Resource: "r", ID: id, Holder: fencedstore.NewHolder()}
		if err := w.store.Claim(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		return &tenure{fence: f}
	}
	first := claimed(41)
	a := begin(t, w, 1)
	second := claimed(42)
	b := begin(t, w, 2)
	if err := writeGuarded(t.Context(), w, first, a); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want a refusal although 42 has not written", err)
	}
	if err := writeGuarded(t.Context(), w, second, b); err != nil {
		t.Error(err)
	}
	wantVerdict(t, w, verdict{Committed: 1})
}

func TestAcknowledgedWritesMustBeThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		committed, acknowledged, unknown int
		ok                               bool
	}{{3, 3, 0, true}, {4, 3, 1, true}, {3, 3, 1, true}, {2, 3, 0, false}, {4, 3, 0, false}} {
		r := row{Acknowledged: c.acknowledged, Unknown: c.unknown, verdict: verdict{Committed: c.committed}}
		if err := r.consistent(); (err == nil) != c.ok {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}
