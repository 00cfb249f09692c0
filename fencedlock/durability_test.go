package fencedlock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/internal/testenv"
)

func TestLockIsReplicatedWhenAcquireReturns(t *testing.T) {
	t.Parallel()
	g := testenv.NewSentinels(t, 2, 1)
	rdb := client(t, g.Master.Addr())
	for name, d := range map[string]fencedlock.Durability{
		"one": {Replicas: 1}, "two": {Replicas: 2}, "all": {AllReplicas: true},
	} {
		l := locker(t, rdb, &fencedlock.Options{Durability: d})
		for i := range 20 {
			k := acquireReplicated(t, l, name)
			have := 0
			for _, r := range g.Replicas {
				if v, _ := r.Do(t, "GET", "fenced:{"+name+"}:lock").(string); strings.HasPrefix(v, k.Fence().Holder) {
					have++
				}
			}
			if want := map[string]int{"one": 1, "two": 2, "all": 2}[name]; have < want {
				t.Errorf("%s, round %d: %d replicas have it, want %d", name, i, have, want)
			}
			if err := k.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// acquireReplicated tries again when a busy machine was too slow to replicate.
func acquireReplicated(t *testing.T, l *fencedlock.Locker, resource string) (k *fencedlock.Lock) {
	t.Helper()
	testenv.Eventually(t, patience, "the replicas have it in time", func() bool {
		var err error
		k, err = l.Acquire(t.Context(), resource, nil)
		if err != nil && !errors.Is(err, fencedlock.ErrNotReplicated) {
			t.Fatal(err)
		}
		return err == nil
	})
	return k
}

func TestShortfallOfReplicasGivesTheLockBack(t *testing.T) {
	t.Parallel()
	g := testenv.NewSentinels(t, 1, 1)
	rdb := client(t, g.Master.Addr())
	for name, c := range map[string]struct {
		d         fencedlock.Durability
		want, got int
		paused    bool
	}{
		"more than there are": {fencedlock.Durability{Replicas: 2, Timeout: 50 * time.Millisecond}, 2, 1, false},
		"one that is stuck":   {fencedlock.Durability{Replicas: 1, Timeout: 50 * time.Millisecond}, 1, 0, true},
		"all, with one stuck": {fencedlock.Durability{AllReplicas: true, Timeout: 50 * time.Millisecond}, 1, 0, true},
	} {
		if c.paused {
			g.Replicas[0].Pause(t)
		}
		l := locker(t, rdb, &fencedlock.Options{Durability: c.d})
		k, err := l.Acquire(t.Context(), "r", nil)
		var short *fencedlock.NotReplicatedError
		if k != nil || !errors.As(err, &short) || !errors.Is(err, fencedlock.ErrNotReplicated) || short.Want != c.want || short.Got > c.got {
			t.Errorf("%s: %v, %v", name, k, err)
		}
		testenv.Eventually(t, patience, "the lock is given back", func() bool { return g.Master.Do(t, "EXISTS", lockKey) == int64(0) })
		if c.paused {
			g.Replicas[0].Resume(t)
		}
	}
}

func TestAllReplicasOfNoneIsAShortfall(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), &fencedlock.Options{Durability: fencedlock.Durability{AllReplicas: true, Timeout: time.Millisecond}})
	if _, err := l.Acquire(t.Context(), "r", nil); !errors.Is(err, fencedlock.ErrNotReplicated) {
		t.Errorf("got %v", err)
	}
}

func TestServerThatCannotSyncIsNotSetUp(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t) // Redis 7.0 has no WAITAOF; newer ones refuse it without appendonly
	l := locker(t, client(t, srv.Addr()), &fencedlock.Options{Durability: fencedlock.Durability{Local: true}})
	k, err := l.Acquire(t.Context(), "r", nil)
	var config *fencedlock.ConfigError
	if k != nil || !errors.As(err, &config) || !strings.Contains(config.Need, "7.2") {
		t.Errorf("got %v, %v", k, err)
	}
	testenv.Eventually(t, patience, "the lock is given back", func() bool { return srv.Do(t, "EXISTS", lockKey) == int64(0) })
}

func TestAnswerOfWaitAOFIsCounted(t *testing.T) {
	t.Parallel()
	for reply, ok := range map[string]bool{
		"*2\r\n:1\r\n:1\r\n": true, "*2\r\n:1\r\n:2\r\n": true, "*2\r\n:0\r\n:1\r\n": false, "*2\r\n:1\r\n:0\r\n": false,
	} {
		f := newFakeServer(t, func(args []string) string {
			switch {
			case args[0] == "waitaof" && strings.Join(args[1:], " ") == "1 1 500":
				return reply
			case args[0] == "evalsha" && len(args) > 8: // acquire
				return bulk("granted 42")
			}
			return bulk("released")
		})
		l := locker(t, client(t, f.addr), &fencedlock.Options{Durability: fencedlock.Durability{Replicas: 1, Local: true}})
		k, err := l.Acquire(t.Context(), "r", nil)
		if ok != (err == nil) || ok != (k != nil) || !ok && !errors.Is(err, fencedlock.ErrNotReplicated) {
			t.Errorf("%q: %v, %v", reply, k, err)
		}
	}
}

func TestImpossibleDurabilityIsRefused(t *testing.T) {
	t.Parallel()
	rdb := client(t, "127.0.0.1:1")
	for _, d := range []fencedlock.Durability{
		{Replicas: -1}, {Replicas: 1, Timeout: time.Microsecond}, {Replicas: 1, Timeout: time.Second}, {Timeout: -1},
	} {
		if _, err := fencedlock.New(rdb, &fencedlock.Options{Durability: d}); !errors.Is(err, fencedlock.ErrInvalidArgument) {
			t.Errorf("%+v: %v", d, err)
		}
	}
	ring := redis.NewRing(&redis.RingOptions{})
	defer func() { _ = ring.Close() }()
	if _, err := fencedlock.New(ring, &fencedlock.Options{Durability: fencedlock.Durability{Replicas: 1}}); !errors.Is(err, fencedlock.ErrInvalidArgument) {
		t.Errorf("a client that may send WAIT elsewhere: %v", err)
	}
}
