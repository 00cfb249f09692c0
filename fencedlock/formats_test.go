package fencedlock_test

import (
	"errors"
	"testing"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/internal/testenv"
)

// Later versions of what is in Redis begin with a colon: docs/formats.md. This
// one refuses such a lock, and skips such an entry in the queue.

func TestLockOfALaterFormatIsRefusedAndKept(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), nil)
	for _, value := range []string{":2:holder:7:label", ":2", ":2:7:x", ":{}"} {
		srv.Do(t, "FLUSHALL")
		srv.Do(t, "SET", lockKey, value)
		before := dump(t, srv)
		_, tried := l.TryAcquire(t.Context(), "r", nil)
		_, inspected := l.Inspect(t.Context(), "r")
		for what, err := range map[string]error{"acquire": tried, "inspect": inspected, "force": l.ForceRelease(t.Context(), "r", 7)} {
			if !errors.Is(err, fencedlock.ErrConfig) {
				t.Errorf("%s, %q: got %v, want ErrConfig", what, value, err)
			}
		}
		if after := dump(t, srv); after != before {
			t.Errorf("%q: the keys changed from\n%sto\n%s", value, before, after)
		}
	}
}

func TestQueueEntryOfALaterFormatIsSkipped(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), nil)
	k, err := l.Acquire(t.Context(), "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range []string{":2:holder:waker:1000:label", "holder", "", ":2"} {
		srv.Do(t, "RPUSH", queueKey, entry)
	}
	if err := k.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := l.TryAcquire(t.Context(), "r", nil)
	if err != nil || next.Fence().ID <= k.Fence().ID {
		t.Fatalf("got %v, %v, want the lock with a higher fence", next, err)
	}
	if err := next.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
