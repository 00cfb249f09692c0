package fencedlock_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/internal/testenv"
)

const queueKey = "fenced:{r}:queue"

// queued is how many wait in the queue of Redis.
func queued(tb testing.TB, srv *testenv.Redis) int64 {
	tb.Helper()
	n, _ := srv.Do(tb, "LLEN", queueKey).(int64)
	return n
}

type acquired struct {
	lock *fencedlock.Lock
	err  error
	at   time.Time
}

// wait starts an Acquire and returns when it has queued.
func wait(t *testing.T, srv *testenv.Redis, l *fencedlock.Locker) <-chan acquired {
	t.Helper()
	before := queued(t, srv)
	got := make(chan acquired, 1)
	go func() {
		k, err := l.Acquire(t.Context(), "r", nil)
		got <- acquired{k, err, time.Now()}
	}()
	testenv.Eventually(t, patience, "it queues", func() bool { return queued(t, srv) > before })
	return got
}

func release(tb testing.TB, k *fencedlock.Lock) {
	tb.Helper()
	if err := k.Release(tb.Context()); err != nil {
		tb.Errorf("Release: %v", err)
	}
}

// serve waits for each in turn and releases, and checks that fences rise.
func serve(t *testing.T, last *fencedlock.Lock, waits ...<-chan acquired) {
	t.Helper()
	for i, w := range waits {
		a := <-w
		if a.err != nil {
			t.Fatalf("waiter %d: %v", i, a.err)
		}
		if last != nil && a.lock.Fence().ID <= last.Fence().ID {
			t.Errorf("waiter %d: fence %d after %d", i, a.lock.Fence().ID, last.Fence().ID)
		}
		last = a.lock
		release(t, last)
	}
}

func TestRedisServesWaitersInOrder(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	k := acquire(t, locker(t, client(t, srv.Addr()), nil), "r")
	var waits []<-chan acquired
	for range 10 {
		waits = append(waits, wait(t, srv, locker(t, client(t, srv.Addr()), nil)))
	}
	release(t, k)
	serve(t, k, waits...) // each releases before the next is looked at
	if n := srv.Do(t, "EXISTS", lockKey, queueKey); n != int64(0) {
		t.Errorf("%v keys left", n)
	}
}

func TestLastOfTheQueueIsServedWhenTheConnectionForWakeUpsBreaks(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	holder := locker(t, client(t, srv.DirectAddr()), nil)
	k := acquire(t, holder, "r")
	w := wait(t, srv, locker(t, client(t, srv.Addr()), nil))
	for range 3 {
		srv.Proxy.Reset()
	}
	release(t, k)
	serve(t, k, w)
	k = acquire(t, holder, "r")
	w = wait(t, srv, locker(t, client(t, srv.Addr()), nil))
	srv.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	release(t, k)
	serve(t, k, w)
}

func TestWaitersOutliveARestartOfRedis(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	k := acquire(t, locker(t, client(t, srv.Addr()), nil), "r")
	w1 := wait(t, srv, locker(t, client(t, srv.Addr()), nil))
	w2 := wait(t, srv, locker(t, client(t, srv.Addr()), nil))
	srv.Kill(t)
	srv.Start(t)  // without its data
	for range 2 { // in any order: that was in the data
		var a acquired
		select {
		case a = <-w1:
		case a = <-w2:
		case <-time.After(patience):
			t.Fatal("a waiter is stuck")
		}
		if a.err != nil || a.lock.Fence().ID <= k.Fence().ID {
			t.Fatalf("got %v, %v", a.lock, a.err)
		}
		release(t, a.lock)
	}
}

func TestWaiterWithoutTheRightToListenAsks(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	k := acquire(t, locker(t, client(t, srv.Addr()), nil), "r")
	srv.Do(t, "ACL", "SETUSER", "worker", "on", ">secret", "~fenced:*", "resetchannels", "+@all")
	login := minimal(t, srv, "deaf", "fenced:*", "subscribe")
	w := wait(t, srv, locker(t, client(t, srv.Addr(), login), nil))
	release(t, k)
	serve(t, k, w)
	// One who may not publish still passes the lock on.
	mute := locker(t, client(t, srv.Addr(), minimal(t, srv, "mute", "fenced:*", "publish")), nil)
	k = acquire(t, mute, "r")
	w = wait(t, srv, locker(t, client(t, srv.Addr()), nil))
	release(t, k)
	serve(t, k, w)
}

// TestStoppedAndKilledProcessesAheadAreOvercome has a real process wait ahead,
// stopped and then killed.
func TestStoppedAndKilledProcessesAheadAreOvercome(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"stopped": syscall.SIGSTOP, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.NewRedis(t)
			k := acquire(t, locker(t, client(t, srv.Addr()), nil), "r")
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
			child.Env = append(os.Environ(), holderEnv+"="+srv.DirectAddr())
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = child.Wait() }()
			defer func() { _ = child.Process.Kill() }()
			go func() { _, _ = bufio.NewReader(out).ReadString('\n') }()
			testenv.Eventually(t, patience, "the child queues", func() bool { return queued(t, srv) == 1 })
			w := wait(t, srv, locker(t, client(t, srv.Addr()), nil))
			if err := child.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if sig == syscall.SIGKILL {
				testenv.Eventually(t, patience, "its connections are gone", func() bool {
					n, _ := srv.Do(t, "PUBSUB", "CHANNELS", "fenced:wake:*").([]any)
					return len(n) == 1
				})
			}
			release(t, k)
			select {
			case a := <-w:
				if a.err != nil || a.lock.Fence().ID <= k.Fence().ID {
					t.Fatalf("got %v, %v", a.lock, a.err)
				}
				release(t, a.lock)
			case <-time.After(patience):
				t.Fatal("the waiter behind is stuck")
			}
		})
	}
}

// TestProcessesShareFairly has eight Lockers with eight waiters each take the
// lock again and again.
func TestProcessesShareFairly(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var inside, last atomic.Int64
	turns := make([]atomic.Int64, 8)
	var wg sync.WaitGroup
	for i := range turns {
		l := locker(t, client(t, srv.DirectAddr()), nil)
		for range 8 {
			wg.Go(func() {
				for ctx.Err() == nil {
					k, err := l.Acquire(ctx, "r", nil)
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("Acquire: %v", err)
						}
						return
					}
					if inside.Add(1) != 1 || last.Swap(k.Fence().ID) >= k.Fence().ID {
						t.Errorf("two inside, or fence %d is not the newest", k.Fence().ID)
					}
					turns[i].Add(1)
					inside.Add(-1)
					release(t, k) //nolint:contextcheck // the release outlives the wait
				}
			})
		}
	}
	wg.Wait()
	var sum, squares float64
	for i := range turns {
		n := float64(turns[i].Load())
		sum, squares = sum+n, squares+n*n
	}
	jain := sum * sum / (8 * squares)
	t.Logf("%v turns, Jain %.4f", sum, jain)
	if sum < 200 || jain < 0.9 {
		t.Errorf("%v turns, Jain %.4f", sum, jain)
	}
	testenv.Eventually(t, patience, "the queue is empty", func() bool { return queued(t, srv) == 0 })
	// what was granted to a waiter that gave up is given back behind its caller
	testenv.Eventually(t, patience, "the lock is free", func() bool { return srv.Do(t, "EXISTS", lockKey) == int64(0) })
}
