package fencedlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedlock/locktest"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
)

type tenant struct{}

// events notes what hooks are called, and that each sees the caller's values.
type events struct {
	t    *testing.T
	mu   sync.Mutex
	seen map[string]int
}

func (e *events) note(ctx context.Context, what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen[what]++
	if ctx.Value(tenant{}) != "acme" || ctx.Err() != nil {
		e.t.Errorf("%s: the context has tenant %v and ended with %v", what, ctx.Value(tenant{}), ctx.Err())
	}
}

func (e *events) hooks() *fencedlock.Hooks {
	return &fencedlock.Hooks{
		Acquired: func(ctx context.Context, f fencedstore.Fence, a fencedlock.Acquisition) {
			if a.Attempts < 1 || a.Waited < 0 || f.Validate() != nil {
				e.t.Errorf("acquired %v: %+v", f, a)
			}
			e.note(ctx, "acquired")
		},
		Contended: func(ctx context.Context, _ *fencedlock.HeldError) { e.note(ctx, "contended") },
		Claimed:   func(ctx context.Context, _ fencedstore.Fence, _ int, _ time.Duration) { e.note(ctx, "claimed") },
		Refused:   func(ctx context.Context, _ fencedstore.Fence, _ int, _ error) { e.note(ctx, "refused") },
		Healed: func(ctx context.Context, f fencedstore.Fence, mark int64) {
			if f.ID <= mark {
				e.t.Errorf("healed by fence %d, the mark is %d", f.ID, mark)
			}
			e.note(ctx, "healed")
		},
		Released: func(ctx context.Context, _ fencedstore.Fence, _ time.Duration) { e.note(ctx, "released") },
		Lost:     func(ctx context.Context, _ *fencedlock.LostError) { e.note(ctx, "lost") },
		Renewed: func(ctx context.Context, _ fencedstore.Fence, left time.Duration) {
			if left <= 0 || left > time.Second {
				e.t.Errorf("renewed for %v", left)
			}
			e.note(ctx, "renewed")
		},
		RenewFailed: func(ctx context.Context, _ fencedstore.Fence, _ error) { e.note(ctx, "failed") },
	}
}

func (e *events) all() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.seen)
}

// lines is a log in memory that notes the tenant of each line.
type lines struct {
	slog.Handler
	mu  *sync.Mutex
	buf *strings.Builder
}

func newLines() *lines {
	l := &lines{mu: &sync.Mutex{}, buf: &strings.Builder{}}
	l.Handler = slog.NewTextHandler(l.buf, &slog.HandlerOptions{Level: slog.LevelDebug})
	return l
}

func (l *lines) Handle(ctx context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.AddAttrs(slog.Any("tenant", ctx.Value(tenant{})))
	return l.Handler.Handle(ctx, r)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func TestEveryEventReachesItsHookAndTheLogWithTheValuesOfTheCaller(t *testing.T) {
	t.Parallel()
	srv := locktest.Start(t)
	store := memstore.New()
	e, log, faults := &events{t: t, seen: map[string]int{}}, newLines(), locktest.NewFaults()
	l := srv.Locker(t, &fencedlock.Options{
		TTL: time.Second, RenewEvery: 20 * time.Millisecond, Label: "worker 7", Hooks: e.hooks(),
		Stores: []fencedstore.Claimer{store}, Logger: slog.New(log),
	}, faults)
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), tenant{}, "acme"))
	defer cancel()
	ahead := fencedstore.Fence{Resource: "r", ID: time.Now().Add(time.Hour).UnixMicro(), Holder: "other"}
	if err := store.Claim(ctx, ahead); err != nil {
		t.Fatal(err)
	}
	k, err := l.Acquire(ctx, "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.TryAcquire(ctx, "r", nil); !errors.Is(err, fencedlock.ErrHeld) {
		t.Errorf("TryAcquire: %v", err)
	}
	faults.Only(locktest.Renew).FailNext(1, nil)
	eventually(t, func() bool { s := e.all(); return s["renewed"] > 0 && s["failed"] > 0 })
	if err := k.Release(ctx); err != nil {
		t.Error(err)
	}
	k2, err := l.Acquire(ctx, "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // the request is over, the lock goes on
	srv.Expire("r")
	eventually(t, func() bool { return e.all()["lost"] > 0 })
	got := slices.Sorted(maps.Keys(e.all()))
	if want := []string{"acquired", "claimed", "contended", "failed", "healed", "lost", "refused", "released", "renewed"}; !slices.Equal(got, want) {
		t.Errorf("saw %v, want %v", got, want)
	}
	text := log.text()
	for line := range strings.Lines(text) {
		for _, want := range []string{"fence.resource=r", "fence.id=", `label="worker 7"`, "tenant=acme"} {
			if !strings.Contains(line, want) {
				t.Errorf("no %s in %s", want, line)
			}
		}
	}
	for _, want := range []string{"acquired", "contended", "claimed", "refused", "took a fence above", "renewed", "renewal failed", "released", "lost"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not logged", want)
		}
	}
	for _, f := range []fencedstore.Fence{k.Fence(), k2.Fence()} {
		if strings.Contains(text, f.Holder) {
			t.Error("the log has a holder")
		}
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("not in time")
		}
	}
}

func TestLabelNamesHostAndProcessByDefault(t *testing.T) {
	t.Parallel()
	l := locktest.Start(t).Locker(t, nil)
	acquire(t, l, "r")
	s, err := l.Inspect(t.Context(), "r")
	if want := fmt.Sprint("/", os.Getpid()); err != nil || !strings.HasSuffix(s.Label, want) || len(s.Label) == len(want) {
		t.Errorf("label %q, %v", s.Label, err)
	}
}
