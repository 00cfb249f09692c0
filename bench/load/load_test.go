package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestLoadIsHeldWithoutErrorsOrGrowth is the program in short.
func TestLoadIsHeldWithoutErrorsOrGrowth(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := run(t.Context(), &out, testenv.NewRedis(t).DirectAddr(), testenv.Database(t), 6*time.Second)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Log(out.String())
	for _, want := range []string{"free", "guarded", "waiting", "goroutines", "live heap"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing is said about %s", want)
		}
	}
}

// TestLostHeldLockIsFound shows that the end of a run looks at all locks.
func TestLostHeldLockIsFound(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	l := &load{}
	defer func() { _ = l.close() }()
	if err := l.open(t.Context(), r.DirectAddr(), testenv.Database(t)); err != nil {
		t.Fatal(err)
	}
	if n := len(l.held); n != heldLocks {
		t.Fatalf("%d locks are held, want %d", n, heldLocks)
	}
	l.commits.Add(1) // of a write that is not there
	r.Do(t, "FLUSHALL")
	err := l.settle(t.Context())
	if err == nil || !strings.Contains(err.Error(), "1 writes were acknowledged, 0 are there") {
		t.Errorf("got %v, want the missing write", err)
	}
	if err == nil || !strings.Contains(err.Error(), "held/999") {
		t.Errorf("got %v, want the lost locks", err)
	}
}

// TestLockLostTooSoonIsAnError takes a lock away from under its holder at once,
// and then from one who has it for longer than a first lease.
func TestLockLostTooSoonIsAnError(t *testing.T) {
	t.Parallel()
	r := testenv.NewRedis(t)
	l := &load{}
	if err := l.open(t.Context(), r.DirectAddr(), testenv.Database(t)); err != nil {
		t.Fatal(errors.Join(err, l.close()))
	}
	defer func() { _ = l.close() }()
	began := time.Now()
	l.inside = func() { r.Do(t, "FLUSHALL") }
	err := l.takeContended(t.Context(), 0)
	if time.Since(began) < firstLease && (!errors.Is(err, fencedlock.ErrLost) || l.stalls.Load() != 0) {
		t.Errorf("lost at once: got %v, %d counted apart; want an error", err, l.stalls.Load())
	}
	l.stalls.Store(0)
	l.inside = func() { r.Do(t, "FLUSHALL"); <-time.After(firstLease) }
	if err := l.takeContended(t.Context(), 1); err != nil || l.stalls.Load() != 1 {
		t.Errorf("lost after half a second: got %v, %d counted apart; want 1", err, l.stalls.Load())
	}
}

func TestOverlapIsFound(t *testing.T) {
	t.Parallel()
	l := &load{}
	if err := l.open(t.Context(), testenv.NewRedis(t).DirectAddr(), testenv.Database(t)); err != nil {
		t.Fatal(errors.Join(err, l.close()))
	}
	defer func() { _ = l.close() }()
	if err := l.takeContended(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	l.places[0].inside.Add(1)
	if err := l.takeContended(t.Context(), 0); !errors.Is(err, errOrder) {
		t.Errorf("somebody is inside: got %v", err)
	}
	l.places[0].inside.Store(0)
	l.places[0].newest.Store(1 << 61)
	if err := l.takeContended(t.Context(), 0); !errors.Is(err, errOrder) {
		t.Errorf("the fence is below the last one: got %v", err)
	}
}
