package fencedlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
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
	operand := regexp.MustCompile(`^'[A-Z]+', KEYS\[[12]\](,|$)`)
	for name, source := range map[string]string{"acquire": acquireLua, "renew": renewLua, "release": releaseLua} {
		found := calls.FindAllStringSubmatch(source, -1)
		if len(found) < 2 || len(found) != strings.Count(source, "redis.") {
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

// TestScriptsAgreeWithTheModel takes random steps on a real server and on the
// model that the tests in synthetic time use, and compares every answer and
// every key.
func TestScriptsAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), ReadTimeout: time.Minute})
	defer func() { _ = rdb.Close() }()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := &walk{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), redis: &redisBackend{rdb: rdb, own: true}, rdb: rdb, model: newShelf()}
	for step := range 6000 {
		if w.step(step); t.Failed() {
			return
		}
	}
	for o, n := range w.verdicts {
		t.Logf("%v: %d", o, n)
	}
	for _, v := range []verdict{granted, held, renewed, released, absent, taken} {
		if w.verdicts[v] < 50 {
			t.Errorf("only %d answers of kind %d", w.verdicts[v], v)
		}
	}
}

type walk struct {
	t        *testing.T
	rnd      *rand.Rand
	redis    *redisBackend
	rdb      *redis.Client
	model    shelf
	verdicts [taken + 1]int
}

func (w *walk) step(n int) {
	key := newKeys("walk:", fmt.Sprint(w.rnd.IntN(3)))
	if w.rnd.IntN(10) == 0 {
		w.harm(key)
	}
	c := w.question(key)
	want, wantErr := w.model.ask(0, c)
	w.redis.do(w.t.Context(), c)
	got := c.answer
	if d := got.ttl - want.ttl; d < 5*time.Second && d > -5*time.Second {
		got.ttl = want.ttl // real time passes
	}
	if got != want || (c.err == nil) != (wantErr == nil) || c.err != nil && !errors.Is(c.err, ErrConfig) {
		w.t.Errorf("step %d: %v of %+v: got %+v, %v; want %+v, %v", n, c.op, *c, got, c.err, want, wantErr)
	}
	w.verdicts[c.answer.verdict]++
	w.compare(n, key)
}

func (w *walk) harm(key keys) {
	switch w.rnd.IntN(4) {
	case 0: // the lease ends
		delete(w.model.locks, key.lock)
		w.rdb.Del(w.t.Context(), key.lock)
	case 1: // the counter is lost
		delete(w.model.counters, key.counter)
		w.rdb.Del(w.t.Context(), key.counter)
	case 2: // the counter moves
		v := w.number()
		w.model.counters[key.counter] = v
		w.rdb.Set(w.t.Context(), key.counter, v, 0)
	case 3:
		w.rdb.ScriptFlush(w.t.Context())
	}
}

// number draws fences of every length, with many near misses.
func (w *walk) number() int64 {
	switch w.rnd.IntN(5) {
	case 0:
		return w.rnd.Int64N(5)
	case 3: // equal when rounded, and not equally long
		return 1_000_000_000_000_000_000 - 3 + w.rnd.Int64N(6)
	case 1:
		return 1<<53 - 2 + w.rnd.Int64N(5)
	case 2:
		return 1_790_000_000_000_000 + w.rnd.Int64N(5)
	default:
		return w.rnd.Int64N(1 << w.rnd.IntN(61))
	}
}

func (w *walk) question(key keys) *call {
	c := &call{
		keys: key, holder: string("abc"[w.rnd.IntN(3)]), label: "x:y",
		ttl: int64(100_000 * (1 + w.rnd.IntN(5))), proposal: 1 + w.number(),
	}
	e, held := w.model.locks[key.lock]
	if held && w.rnd.IntN(2) == 0 {
		c.holder = e.holder
	}
	switch w.rnd.IntN(4) {
	case 0:
		c.op, c.value = opRenew, e.value()
		if w.rnd.IntN(3) == 0 {
			c.value = lockValue(e.holder, e.fence+1, e.label)
		}
	case 1:
		c.op = opRelease
	default:
		c.op = opAcquire
		if w.rnd.IntN(4) == 0 {
			c.least = w.number()
			if held {
				c.least = e.fence + w.rnd.Int64N(3) - 1
			}
		}
	}
	return c
}

func (w *walk) compare(n int, key keys) {
	ctx := w.t.Context()
	wantLock, wantCounter := "", ""
	e, held := w.model.locks[key.lock]
	if held {
		wantLock = e.value()
	}
	if v, ok := w.model.counters[key.counter]; ok {
		wantCounter = strconv.FormatInt(v, 10)
	}
	lock, counter := w.rdb.Get(ctx, key.lock).Val(), w.rdb.Get(ctx, key.counter).Val()
	if lock != wantLock || counter != wantCounter {
		w.t.Errorf("step %d: keys %q, %q, want %q, %q", n, lock, counter, wantLock, wantCounter)
	}
	if left := w.rdb.PTTL(ctx, key.lock).Val(); held && (left > e.until || left < e.until-60*time.Second) {
		w.t.Errorf("step %d: %v left, want %v", n, left, e.until)
	}
}

func TestFencesBeyondTheBoundAreNotIssued(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	defer func() { _ = rdb.Close() }()
	b := newRedisBackend(rdb)
	for i, c := range []*call{
		{op: opAcquire, proposal: maxFence},
		{op: opAcquire, proposal: 1<<63 - 1},
		{op: opAcquire, proposal: 1, least: maxFence},
		{op: opAcquire, proposal: maxFence - 1},
	} {
		c.keys, c.holder, c.ttl = newKeys("bound:", fmt.Sprint(i)), "a", 1000
		b.do(t.Context(), c)
		if ok := c.proposal == maxFence-1; ok != (c.err == nil) || !ok && !errors.Is(c.err, ErrConfig) {
			t.Errorf("proposal %d, least %d: %+v, %v", c.proposal, c.least, c.answer, c.err)
		}
		if n := rdb.Exists(t.Context(), c.keys.lock, c.keys.counter).Val(); (n == 0) != (c.err != nil) {
			t.Errorf("proposal %d, least %d: %d keys", c.proposal, c.least, n)
		}
	}
}

func TestBackendsDecodeTheSameGrant(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]answer{
		"granted 42":         {verdict: granted, fence: 42},
		"held 7 1500 a b":    {verdict: held, fence: 7, ttl: 1500 * time.Millisecond, label: "a b"},
		"held 7 -1 ":         {verdict: held, fence: 7, ttl: -time.Millisecond},
		"granted 2147483648": {verdict: granted, fence: 1 << 31},
	} {
		c := &call{op: opAcquire}
		if c.decode(reply); c.err != nil || c.answer != want {
			t.Errorf("%q: got %+v, %v", reply, c.answer, c.err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"", " ", "granted", "granted ", "granted 0", "granted -1", "granted 01", "granted 9223372036854775808", "granted 1 ",
		"held", "held 1", "held 1 2", "held 0 5 x", "held 1 -2 x", "held 1 999999999999999999 x", "held 1 1e3 x",
		"broken", "broken glass", "broken lock", "renewed", "renewed ", "released", "absent", "taken", "ABSENT", "OK",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		for _, o := range []op{opAcquire, opRenew, opRelease} {
			c := &call{op: o}
			c.decode(reply)
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
