package fencedlock

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/internal/testenv"
)

func TestScriptsUseDeclaredKeysOnly(t *testing.T) {
	t.Parallel()
	calls := regexp.MustCompile(`redis\.p?call\(([^)]*)`)
	operand := regexp.MustCompile(`^'[A-Z]+', (KEYS\[[123]\]|(channel|shard) \.\. waker)(,|$)`)
	for name, source := range map[string]string{
		"acquire": acquireLua, "renew": renewLua, "release": releaseLua, "grant": grantLua,
		"force": forceLua, "inspect": inspectLua, "keep": keepLua, "why": whyLua,
		"propose": proposeLua, "withdraw": withdrawLua, "mend": mendLua,
	} {
		found := calls.FindAllStringSubmatch(source, -1)
		if len(found) == 0 || len(found) != strings.Count(source, "redis.") {
			t.Errorf("%s: %d calls read of %d uses of redis", name, len(found), strings.Count(source, "redis."))
		}
		for _, m := range found {
			if !operand.MatchString(m[1]) {
				t.Errorf("%s: the key of %q is not literally KEYS[n]", name, m[0])
			}
			for _, banned := range []string{"TIME", "CONFIG", "CLIENT", "EVAL", "RANDOMKEY"} {
				if strings.Contains(m[1], "'"+banned+"'") {
					t.Errorf("%s: %s, which some servers refuse in scripts", name, m[0])
				}
			}
		}
	}
}

func TestBackendsDecodeTheSameGrant(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]answer{
		"granted 42":          {verdict: granted, fence: 42},
		"held 7 1500 a b":     {verdict: held, fence: 7, ttl: 1500 * time.Millisecond, label: "a b"},
		"held 7 -1 ":          {verdict: held, fence: 7, ttl: -time.Millisecond},
		"granted 2147483648":  {verdict: granted, fence: 1 << 31},
		"granted 42 7":        {verdict: granted, fence: 42, spare: 7},
		"queued 7 1500 3 a b": {verdict: queued, fence: 7, ttl: 1500 * time.Millisecond, label: "a b", place: 3},
	} {
		c := &call{op: opAcquire, waits: true}
		if c.decode(reply); c.err != nil || c.answer != want {
			t.Errorf("%q: got %+v, %v", reply, c.answer, c.err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"", " ", "granted", "granted ", "granted 0", "granted -1", "granted 01", "granted 9223372036854775808", "granted 1 ",
		"held", "held 1", "held 1 2", "held 0 5 x", "held 1 -2 x", "held 1 999999999999999999 x", "held 1 1e3 x",
		"granted 1 -1", "granted 1 7 ", "granted 1 99999", "queued", "queued 1 2 3", "queued 1 2 -3 x", "queued 1 2 3 x", "queued 1 2 x 3",
		"broken", "broken glass", "broken lock", "renewed", "renewed ", "released", "absent", "taken", "ABSENT", "OK",
		"forced", "free", "free 0 0", "free -1 0", "free 3 1700000000000000", "held 1 2 3 4 a label", "held 1 2 3 4", "held 0 2 3 4 x", "held 1 -2 3 4 x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		for _, o := range []op{opAcquire, opRenew, opRelease, opKeep, opWhy, opForce, opInspect} {
			status := new(Status)
			c := &call{op: o, waits: len(reply)%2 == 0, status: status}
			c.decode(reply)
			if c.err == nil && status.Held && (status.FenceID <= 0 || status.TTL < -time.Millisecond || status.Queued < 0) {
				t.Fatalf("%q became %+v", reply, status)
			}
			if o == opForce || o == opInspect {
				continue // they have answers without a verdict
			}
			if (c.err == nil) != (c.answer.verdict != 0 && c.answer.fence >= 0) && c.err == nil {
				t.Fatalf("%v: %q became %+v", o, reply, c.answer)
			}
			if c.err == nil && c.answer.verdict == granted && c.answer.fence <= 0 {
				t.Fatalf("%q granted fence %d", reply, c.answer.fence)
			}
			if c.err != nil && !errors.Is(c.err, ErrUnexpectedReply) && !errors.Is(c.err, ErrConfig) {
				t.Fatalf("%q: %v", reply, c.err)
			}
		}
	})
}

// A wake-up comes from whoever may publish: it wakes the waiter that it names,
// with a fence that can be one, or nobody.
func FuzzWakeUp(f *testing.F) {
	for _, s := range []string{
		"", " ", "h", "h ", "h 0", "h 1", "h -1", "h 1 7", "h 1 1001", "h 1 -1", "h 9223372036854775807", "other 5", "h 5 ", "h  5", "hh 5",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w := &waiter{woken: make(chan answer, 1)}
		e := &ear{waiting: map[string]*waiter{"h": w}}
		e.deliver(text)
		select {
		case g := <-w.woken:
			if !strings.HasPrefix(text, "h ") || g.verdict != granted || g.fence < 1 || g.spare < 0 || g.spare > maxSpare {
				t.Fatalf("%q became %+v", text, g)
			}
		default:
		}
	})
}

// TestClocksOfClientsNeverMatter has clients whose clocks are minutes apart and
// jump while they contend for one lock.
func TestClocksOfClientsNeverMatter(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	defer func() { _ = rdb.Close() }()
	var inside, last, turns atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	for i, ahead := range []time.Duration{-3 * time.Minute, 0, 3 * time.Minute} {
		o, err := (&Options{TTL: 2 * time.Second}).complete()
		if err != nil {
			t.Fatal(err)
		}
		s := newSkewed()
		s.step(ahead)
		l := newLocker(newRedisBackend(rdb), o, s.now)
		wg.Go(func() {
			defer func() { _ = l.Close() }() //nolint:contextcheck // Close has no context
			for turn := 1; ctx.Err() == nil; turn++ {
				k, err := l.Acquire(ctx, "r", nil)
				if err != nil {
					continue
				}
				if inside.Add(1) != 1 {
					t.Error("two holders at once")
				}
				if prev := last.Swap(k.Fence().ID); prev >= k.Fence().ID {
					t.Errorf("fence %d after %d", k.Fence().ID, prev)
				}
				turns.Add(1)
				if turn%10 == i {
					s.step([]time.Duration{10 * time.Minute, -10 * time.Minute}[turn%2])
				}
				if err := k.Renew(context.WithoutCancel(ctx)); err != nil {
					t.Errorf("Renew: %v", err)
				}
				inside.Add(-1)
				if err := k.Release(ctx); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if turns.Load() < 20 {
		t.Errorf("only %d turns", turns.Load())
	}
}
