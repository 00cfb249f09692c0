package fencedlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/internal/testenv"
)

// holderEnv makes the test binary a holder that never releases.
const holderEnv = "FENCEDLOCK_TEST_HOLD"

func TestMain(m *testing.M) {
	if addr := os.Getenv(holderEnv); addr != "" {
		hold(addr)
	}
	redis.SetLogger(quiet{}) // it reports every connection that a test refuses
	testenv.Main(m)
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

const (
	lockKey    = "fenced:{r}:lock"
	counterKey = "fenced:{r}:fence"
	patience   = 20 * time.Second // of a test, on a busy machine
)

// client returns a go-redis client with default options, as callers make it.
func client(tb testing.TB, addr string, with ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	o := &redis.Options{Addr: addr}
	for _, w := range with {
		w(o)
	}
	rdb := redis.NewClient(o)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func locker(tb testing.TB, rdb redis.UniversalClient, opts *fencedlock.Options) *fencedlock.Locker {
	tb.Helper()
	l, err := fencedlock.New(rdb, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

func acquire(tb testing.TB, l *fencedlock.Locker, resource string) *fencedlock.Lock {
	tb.Helper()
	k, err := l.Acquire(tb.Context(), resource, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func reason(err error) fencedlock.Reason {
	if lost, ok := errors.AsType[*fencedlock.LostError](err); ok {
		return lost.Reason
	}
	return 0
}

// dump is every key with its value, for telling that nothing changed.
func dump(tb testing.TB, r *testenv.Redis) string {
	tb.Helper()
	keys, _ := r.Do(tb, "KEYS", "*").([]any)
	var b strings.Builder
	for _, k := range keys {
		key, _ := k.(string)
		fmt.Fprintf(&b, "%s=%x\n", key, r.Do(tb, "DUMP", key))
	}
	return b.String()
}

func TestFenceIsExactWhereverTheCounterStands(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), nil)
	for _, start := range []int64{1<<53 - 1, 1 << 53, 1<<53 + 1, 9_999_999_999_999_999, 1<<62 - 5} {
		srv.Do(t, "SET", counterKey, strconv.FormatInt(start, 10))
		for i := range int64(3) {
			k := acquire(t, l, "r")
			if got, want := k.Fence().ID, start+1+i; got != want {
				t.Errorf("counter at %d: fence %d, want %d", start, got, want)
			}
			if err := k.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestBrokenKeysAreRefusedBeforeAnyWrite(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), nil)
	set := func(key, value string) []string { return []string{"SET", key, value} }
	for name, break_ := range map[string][]string{
		"counter at the bound":     set(counterKey, "4611686018427387903"),
		"counter above the bound":  set(counterKey, "4611686018427387904"),
		"counter before the end":   set(counterKey, "9223372036854775806"),
		"counter at the end":       set(counterKey, "9223372036854775807"),
		"counter beyond an int64":  set(counterKey, "92233720368547758070"),
		"counter of letters":       set(counterKey, "abc"),
		"counter empty":            set(counterKey, ""),
		"counter negative":         set(counterKey, "-5"),
		"counter with zeros":       set(counterKey, "007"),
		"counter with a fraction":  set(counterKey, "1.5"),
		"counter with an exponent": set(counterKey, "1e3"),
		"counter with a space":     set(counterKey, "1 "),
		"counter a list":           {"RPUSH", counterKey, "1"},
		"lock a list":              {"RPUSH", lockKey, "1"},
		"lock of somebody else":    set(lockKey, "taken by another program"),
		"lock without a fence":     set(lockKey, "holder::label"),
		"lock with fence 0":        set(lockKey, "holder:0:label"),
	} {
		srv.Do(t, "FLUSHALL")
		srv.Do(t, break_...)
		before := dump(t, srv)
		_, err := l.Acquire(t.Context(), "r", nil)
		var config *fencedlock.ConfigError
		if !errors.As(err, &config) || !errors.Is(err, fencedlock.ErrConfig) || errors.Is(err, fencedlock.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if after := dump(t, srv); after != before {
			t.Errorf("%s: the keys changed from\n%sto\n%s", name, before, after)
		}
	}
}

func TestFlushedRedisStillIssuesHigherFences(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), &fencedlock.Options{TTL: 2 * time.Second})
	first := acquire(t, l, "r")
	srv.Do(t, "FLUSHALL")
	second := acquire(t, l, "r")
	if second.Fence().ID <= first.Fence().ID {
		t.Errorf("fence %d after %d", second.Fence().ID, first.Fence().ID)
	}
	<-first.Done()
	if got := reason(first.Err()); got != fencedlock.Taken {
		t.Errorf("the first holder was told %v", first.Err())
	}
	if err := first.Release(t.Context()); !errors.Is(err, fencedlock.ErrLost) {
		t.Errorf("Release: %v", err)
	}
	if err := second.Renew(t.Context()); err != nil {
		t.Errorf("the release of the first holder ended the second: %v", err)
	}
}

func TestDeletedKeyIsALossWhateverTheProtocol(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	for _, protocol := range []int{2, 3} {
		l := locker(t, client(t, srv.Addr(), func(o *redis.Options) { o.Protocol = protocol }), nil)
		renewed, released := acquire(t, l, "a"), acquire(t, l, "b")
		srv.Do(t, "DEL", "fenced:{a}:lock", "fenced:{b}:lock")
		if err := renewed.Renew(t.Context()); reason(err) != fencedlock.Expired {
			t.Errorf("RESP%d: Renew: %v", protocol, err)
		}
		if err := released.Release(t.Context()); reason(err) != fencedlock.Expired {
			t.Errorf("RESP%d: Release: %v", protocol, err)
		}
		if srv.Do(t, "EXISTS", "fenced:{a}:lock", "fenced:{b}:lock") != int64(0) {
			t.Errorf("RESP%d: a key was created again", protocol)
		}
		k := acquire(t, l, "c")
		if _, err := l.TryAcquire(t.Context(), "c", nil); !errors.Is(err, fencedlock.ErrHeld) || errors.Is(err, redis.Nil) {
			t.Errorf("RESP%d: held: %v", protocol, err)
		}
		if err := k.Renew(t.Context()); err != nil {
			t.Errorf("RESP%d: Renew: %v", protocol, err)
		}
		if err := k.Release(t.Context()); err != nil {
			t.Errorf("RESP%d: Release: %v", protocol, err)
		}
	}
}

func TestScriptsWorkWithAnEmptyScriptCache(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), &fencedlock.Options{TTL: 10 * time.Second, RenewEvery: time.Second})
	flush := func() { srv.Do(t, "SCRIPT", "FLUSH") }
	flush()
	k := acquire(t, l, "r")
	flush()
	if err := k.Renew(t.Context()); err != nil {
		t.Errorf("Renew: %v", err)
	}
	flush()
	if err := k.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	var locks []*fencedlock.Lock
	for i := range 20 {
		locks = append(locks, acquire(t, l, strconv.Itoa(i)))
	}
	flush()
	begun := time.Now()
	counted := make(map[string]bool)
	testenv.Eventually(t, patience, "every lock is renewed by a pipeline", func() bool {
		for _, k := range locks {
			if k.Err() != nil {
				t.Fatal(k.Err())
			}
			if ms, _ := srv.Do(t, "PTTL", "fenced:{"+k.Fence().Resource+"}:lock").(int64); ms > 9500 && time.Since(begun) > time.Second {
				counted[k.Fence().Resource] = true
			}
		}
		return len(counted) == len(locks) && scripts(t, srv) > 0
	})
	flush()
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if keys, _ := srv.Do(t, "KEYS", "*:lock").([]any); len(keys) != 0 {
		t.Errorf("left after Close: %v", keys)
	}
}

// scripts is how many scripts the server has cached.
func scripts(tb testing.TB, srv *testenv.Redis) int {
	tb.Helper()
	info, _ := srv.Do(tb, "INFO", "memory").(string)
	for line := range strings.Lines(info) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "number_of_cached_scripts:"); ok {
			count, _ := strconv.Atoi(n)
			return count
		}
	}
	return 0
}

func TestLostReplyOfAnAcquireIsNotALostLock(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), nil)
	warm := acquire(t, l, "warm")
	if err := warm.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Proxy.CutReplies()
	type result struct {
		lock *fencedlock.Lock
		err  error
	}
	got := make(chan result)
	go func() {
		k, err := l.TryAcquire(t.Context(), "r", nil)
		got <- result{k, err}
	}()
	var first string
	testenv.Eventually(t, patience, "the acquire arrives", func() bool {
		first, _ = srv.Do(t, "GET", lockKey).(string)
		return first != ""
	})
	srv.Proxy.Reset() // what was answered is lost
	srv.Proxy.Heal()
	r := <-got
	if r.err != nil {
		t.Fatalf("a retry was refused because of its own key: %v", r.err)
	}
	f := r.lock.Fence()
	if want := fmt.Sprintf("%s:%d:", f.Holder, f.ID); !strings.HasPrefix(first, want) {
		t.Errorf("the retry got another fence: %q, then %q", first, want)
	}
}

func TestAcquireWhoseReplyNeverComesLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), &fencedlock.Options{TTL: time.Hour})
	if err := acquire(t, l, "warm").Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Proxy.CutReplies()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := l.Acquire(ctx, "r", nil)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, fencedlock.ErrUnavailable) {
		t.Errorf("Acquire: %v", err)
	}
	if !errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("nobody confirmed the release: %v", err)
	}
	if srv.Do(t, "EXISTS", counterKey) != int64(1) {
		t.Error("the acquire never arrived; the test shows nothing")
	}
	srv.Proxy.Heal()
	testenv.Eventually(t, patience, "the holder is released", func() bool {
		return srv.Do(t, "EXISTS", lockKey) == int64(0)
	})
}

// hold is the child process: it acquires, says so, and stops for ever.
func hold(addr string) {
	l, err := fencedlock.New(redis.NewClient(&redis.Options{Addr: addr}), &fencedlock.Options{TTL: 2 * time.Second, Label: "child"})
	if err == nil {
		var k *fencedlock.Lock
		if k, err = l.Acquire(context.Background(), "r", nil); err == nil {
			_, _ = fmt.Fprintln(os.Stdout, "fence", k.Fence().ID)
			select {}
		}
	}
	_, _ = fmt.Fprintln(os.Stdout, err)
	os.Exit(1)
}

func TestKilledHolderBlocksForOneTTL(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), holderEnv+"="+srv.DirectAddr())
	child := testenv.Start(t, cmd)
	var fence int64
	testenv.Eventually(t, patience, "the child holds the lock", func() bool {
		_, err := fmt.Sscanf(child.Output(), "fence %d", &fence)
		return err == nil
	})
	l := locker(t, client(t, srv.Addr()), nil)
	_, err := l.TryAcquire(t.Context(), "r", nil)
	var held *fencedlock.HeldError
	if !errors.As(err, &held) || held.FenceID != fence || held.Label != "child" || held.TTL > 2*time.Second {
		t.Fatalf("TryAcquire: %v", err)
	}
	child.Kill(t)
	left, _ := srv.Do(t, "PTTL", lockKey).(int64)
	start := time.Now()
	k := acquire(t, l, "r")
	t.Logf("acquired %v after the kill, with %d ms left then", time.Since(start), left)
	if k.Fence().ID <= fence {
		t.Errorf("fence %d after %d", k.Fence().ID, fence)
	}
	if waited := time.Since(start); waited < time.Duration(left)*time.Millisecond/2 {
		t.Errorf("acquired after %v, the lease had %d ms left", waited, left)
	}
}

func TestLateReleaseDoesNotTouchTheSuccessor(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	a := locker(t, client(t, srv.Addr()), nil)
	b := locker(t, client(t, srv.Addr()), nil)
	first := acquire(t, a, "r")
	srv.Do(t, "DEL", lockKey) // its lease has ended
	second := acquire(t, b, "r")
	value := srv.Do(t, "GET", lockKey)
	if err := first.Release(t.Context()); reason(err) != fencedlock.Taken {
		t.Errorf("Release: %v", err)
	}
	if now := srv.Do(t, "GET", lockKey); now != value {
		t.Errorf("the key was %v, is %v", value, now)
	}
	if _, err := a.TryAcquire(t.Context(), "r", nil); !errors.Is(err, fencedlock.ErrHeld) {
		t.Errorf("a third acquire: %v", err)
	}
	if err := second.Renew(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStuckRedisDoesNotHoldUpAnybody(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), &fencedlock.Options{TTL: time.Second})
	k := acquire(t, l, "r")
	ctx, cancel := k.Context(t.Context())
	defer cancel()
	srv.Pause(t)
	defer srv.Resume(t)
	begun := time.Now()
	<-ctx.Done()
	if lost := time.Since(begun); lost > 10*time.Second || reason(context.Cause(ctx)) != fencedlock.RenewFailed {
		t.Errorf("lost %v after the pause began: %v", time.Since(begun), context.Cause(ctx))
	}
	short, cancelShort := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancelShort()
	begun = time.Now()
	_, err := l.Acquire(short, "r", nil)
	if waited := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || waited > 2*time.Second {
		t.Errorf("Acquire: %v after %v, its deadline was 200 ms", err, waited)
	}
	begun = time.Now()
	if err := k.Release(t.Context()); !errors.Is(err, fencedlock.ErrLost) || time.Since(begun) > 10*time.Second {
		t.Errorf("Release: %v after %v", err, time.Since(begun))
	}
}

func TestRedisThatRefusesConnectionsIsUnavailable(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), &fencedlock.Options{TTL: 5 * time.Second})
	k := acquire(t, l, "r")
	srv.Proxy.Refuse()
	_, err := l.Acquire(t.Context(), "other", nil)
	if !errors.Is(err, fencedlock.ErrUnavailable) || strings.Count(err.Error(), "acquire") != 1 {
		t.Errorf("Acquire: %v", err)
	}
	if err := k.Release(t.Context()); !errors.Is(err, fencedlock.ErrUnavailable) || !strings.Contains(err.Error(), "ms or less") {
		t.Errorf("Release: %v", err)
	}
	srv.Proxy.Heal()
	if err := k.Release(t.Context()); err != nil {
		t.Errorf("second Release: %v", err)
	}
}

func TestServersThatRefuseForAWhileAreUnavailable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ harm, heal []string }{
		"out of memory": {[]string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}},
		"no replicas":   {[]string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{"CONFIG", "SET", "min-replicas-to-write", "0"}},
		"read-only":     {[]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.NewRedis(t)
			l := locker(t, client(t, srv.Addr()), nil)
			k := acquire(t, l, "r")
			srv.Do(t, c.harm...)
			before := dump(t, srv)
			_, err := l.Acquire(t.Context(), "other", nil)
			if !errors.Is(err, fencedlock.ErrUnavailable) || errors.Is(err, fencedstore.ErrUnknownOutcome) {
				t.Errorf("Acquire: %v", err)
			}
			if now := dump(t, srv); now != before {
				t.Errorf("the keys changed from\n%sto\n%s", before, now)
			}
			if name != "out of memory" { // which allows deleting
				if err := k.Release(t.Context()); !errors.Is(err, fencedlock.ErrUnavailable) {
					t.Errorf("Release: %v", err)
				}
			}
			srv.Do(t, c.heal...)
			if err := k.Release(t.Context()); err != nil {
				t.Errorf("Release: %v", err)
			}
			acquire(t, l, "other")
		})
	}
}

func TestNewPrimaryBehindTheSameAddressIsUsed(t *testing.T) {
	t.Parallel()
	old, next := testenv.NewRedis(t), testenv.NewRedis(t)
	target := make(chan string, 1)
	target <- old.DirectAddr()
	l := locker(t, client(t, old.DirectAddr(), switched(target)), nil)
	k := acquire(t, l, "r")
	old.Do(t, "REPLICAOF", "127.0.0.1", "1")
	<-target
	target <- next.DirectAddr()
	successor := acquire(t, l, "after")
	if next.Do(t, "EXISTS", "fenced:{after}:lock") != int64(1) {
		t.Error("the lock is not at the new primary")
	}
	if err := successor.Renew(t.Context()); err != nil {
		t.Errorf("Renew: %v", err)
	}
	if err := k.Renew(t.Context()); reason(err) != fencedlock.Expired {
		t.Errorf("a lock that the new primary never had: %v", err)
	}
}

func TestEveryKeyOfManyOneOffNamesExpires(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), nil)
	const names = 10_000
	work := make(chan int)
	errs := make(chan error, 32)
	for range cap(errs) {
		go func() {
			var err error
			for i := range work {
				var k *fencedlock.Lock
				if k, err = l.Acquire(t.Context(), fmt.Sprint("order:", i), nil); err == nil {
					err = k.Release(t.Context())
				}
				if err != nil {
					break
				}
			}
			for range work { // so that the sender never waits
			}
			errs <- err
		}()
	}
	for i := range names {
		work <- i
	}
	close(work)
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	const check = `local n, without = 0, 0
		for _, k in ipairs(redis.call('KEYS', '*')) do
			n = n + 1
			local left = redis.call('PTTL', k)
			if left <= 0 or left > 604800000 then without = without + 1 end
		end
		return n .. ' keys, ' .. without .. ' without a bound'`
	if got, want := srv.Do(t, "EVAL", check, "0"), fmt.Sprint(names, " keys, 0 without a bound"); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLabelAndFenceAreInTheLock(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), &fencedlock.Options{Label: "a: b, c"})
	k := acquire(t, l, "r")
	f := k.Fence()
	if got, want := srv.Do(t, "GET", lockKey), fmt.Sprintf("%s:%d:a: b, c", f.Holder, f.ID); got != want {
		t.Errorf("lock is %q, want %q", got, want)
	}
	if got, want := srv.Do(t, "GET", counterKey), strconv.FormatInt(f.ID, 10); got != want {
		t.Errorf("counter is %v, want %v", got, want)
	}
	if err := k.Renew(t.Context()); err != nil {
		t.Errorf("Renew: %v", err)
	}
	var held *fencedlock.HeldError
	if _, err := l.TryAcquire(t.Context(), "r", nil); !errors.As(err, &held) || held.Label != "a: b, c" {
		t.Errorf("TryAcquire: %v", err)
	}
}

func TestCounterExpiresWhicheverWayItRises(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), nil)
	srv.Do(t, "SET", "fenced:{ahead}:fence", "9000000000000000") // by hand, without an end
	for _, resource := range []string{"ahead", "fresh"} {
		acquire(t, l, resource)
		left, _ := srv.Do(t, "PTTL", "fenced:{"+resource+"}:fence").(int64)
		week := (7 * 24 * time.Hour).Milliseconds()
		if left <= week-time.Minute.Milliseconds() || left > week {
			t.Errorf("%s: the counter has %d ms left, want a week", resource, left)
		}
	}
}

func TestLockWithoutAnEndIsHeld(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), nil)
	srv.Do(t, "SET", lockKey, "somebody:7:by hand")
	_, err := l.TryAcquire(t.Context(), "r", nil)
	var held *fencedlock.HeldError
	if !errors.As(err, &held) || held.TTL >= 0 || held.FenceID != 7 {
		t.Errorf("TryAcquire: %v", err)
	}
}

func TestOtherClientsWorkAndCanBeLeft(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"only": srv.Addr()}})
	t.Cleanup(func() { _ = ring.Close() })
	l := locker(t, ring, &fencedlock.Options{TTL: time.Second})
	k := acquire(t, l, "r")
	begun := time.Now()
	testenv.Eventually(t, patience, "three TTLs pass", func() bool { return time.Since(begun) > 3*time.Second })
	if err := k.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	srv.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun = time.Now()
	if _, err := l.Acquire(ctx, "r", nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 2*time.Second {
		t.Errorf("Acquire: %v after %v", err, time.Since(begun))
	}
	srv.Resume(t)
}

func TestHostThatNeverAnswersIsLeft(t *testing.T) {
	t.Parallel()
	dead := func(o *redis.Options) {
		o.DialTimeout = time.Minute
		o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done() // as when packets are dropped
			return nil, ctx.Err()
		}
	}
	l := locker(t, client(t, "127.0.0.1:1", dead), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := l.Acquire(ctx, "r", nil)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fencedstore.ErrUnknownOutcome) || time.Since(start) > 5*time.Second {
		t.Errorf("Acquire: %v after %v", err, time.Since(start))
	}
	start = time.Now()
	if _, err := l.TryAcquire(context.WithoutCancel(ctx), "r", nil); !errors.Is(err, fencedlock.ErrUnavailable) || time.Since(start) > 20*time.Second {
		t.Errorf("TryAcquire: %v after %v", err, time.Since(start))
	}
}

// TestCloseLeavesNoGoroutine is not parallel: it counts.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	srv := testenv.NewRedis(t)
	rdb := client(t, srv.DirectAddr())
	before := runtime.NumGoroutine()
	for range 3 {
		l, err := fencedlock.New(rdb, &fencedlock.Options{TTL: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			k := acquire(t, l, strconv.Itoa(i))
			if i%2 == 0 {
				if err := k.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := l.TryAcquire(t.Context(), "1", nil); !errors.Is(err, fencedlock.ErrHeld) {
			t.Errorf("TryAcquire: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	testenv.Eventually(t, patience, "the goroutines are gone", func() bool {
		return runtime.NumGoroutine() <= before
	})
	if keys, _ := srv.Do(t, "KEYS", "*:lock").([]any); len(keys) != 0 {
		t.Errorf("left: %v", keys)
	}
}

// TestReleasesThatRaceRenewalsLeaveNoKey is not parallel: it counts goroutines.
func TestReleasesThatRaceRenewalsLeaveNoKey(t *testing.T) {
	srv := testenv.NewRedis(t)
	const lease = 300 * time.Millisecond
	l := locker(t, client(t, srv.DirectAddr()), &fencedlock.Options{TTL: lease})
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for worker := range 20 {
		wg.Go(func() {
			for i := range 50 {
				k, err := l.Acquire(t.Context(), fmt.Sprint(worker, "/", i), nil)
				if err != nil {
					continue // a slow machine; what counts is what is left
				}
				<-time.After(lease/4 + time.Duration(i)*time.Millisecond) // around the first renewal
				if err := k.Release(t.Context()); err != nil && !errors.Is(err, fencedlock.ErrLost) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	testenv.Eventually(t, patience, "the keys are gone", func() bool {
		keys, _ := srv.Do(t, "KEYS", "*:lock").([]any)
		return len(keys) == 0
	})
	calls := func() string {
		stats, _ := srv.Do(t, "INFO", "commandstats").(string)
		_, pexpire, _ := strings.Cut(stats, "cmdstat_pexpire:")
		pexpire, _, _ = strings.Cut(pexpire, ",")
		return pexpire
	}
	renewals := calls()
	testenv.Eventually(t, patience, "the scheduler ends by itself", func() bool {
		return runtime.NumGoroutine() <= before
	})
	begun := time.Now()
	testenv.Eventually(t, patience, "two TTLs pass", func() bool { return time.Since(begun) > 2*lease })
	if now := calls(); now != renewals || renewals == "" {
		t.Errorf("renewed after the releases: %s, then %s", renewals, now)
	}
}
