package fencedlock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/internal/testenv"
)

// TestScriptsAgreeWithTheModel takes random steps on a real server and on the
// model that the tests in synthetic time use, and compares every answer, every
// wake-up and every key.
func TestScriptsAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	rdb := redis.NewClient(&redis.Options{Addr: srv.DirectAddr(), ReadTimeout: time.Minute})
	defer func() { _ = rdb.Close() }()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := &walk{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), rdb: rdb, model: newShelf(),
		redis: &redisBackend{rdb: rdb, own: true},
	}
	w.sub = rdb.Subscribe(t.Context(), "walk:wake:alive")
	defer func() { _ = w.sub.Close() }()
	if _, err := w.sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.model.ears["walk:wake:alive"] = make(chan string, 10)
	for i := range 3 {
		name := fmt.Sprintf("walk:{%d}:wake:alive", i)
		if err := w.sub.SSubscribe(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if _, err := w.sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.model.ears[name] = w.model.ears["walk:wake:alive"]
	}
	for step := range 12_000 {
		if w.step(step); t.Failed() {
			return
		}
	}
	t.Logf("answers %v, wake-ups %d, grants to a holder that asked %d", w.verdicts, w.wakes, w.polled)
	for _, v := range []verdict{granted, held, queued, renewed, released, absent, taken} {
		if w.verdicts[v] < 50 {
			t.Errorf("only %d answers of kind %d", w.verdicts[v], v)
		}
	}
	if w.wakes < 100 || w.polled < 3 {
		t.Errorf("only %d wake-ups, %d grants to a holder that asked", w.wakes, w.polled)
	}
}

type walk struct {
	t        *testing.T
	rnd      *rand.Rand
	redis    *redisBackend
	rdb      *redis.Client
	sub      *redis.PubSub
	model    shelf
	last     *call         // for a replay
	left     time.Duration // of the lock, right after the question
	verdicts [taken + 1]int
	wakes    int
	polled   int // grants out of the queue without a wake-up
}

func (w *walk) step(n int) {
	key := newKeys("walk:", fmt.Sprint(w.rnd.IntN(3)))
	if w.rnd.IntN(10) == 0 {
		w.harm(key)
	}
	c := w.last
	if c == nil || w.rnd.IntN(10) > 0 { // else its answer was lost, and it is asked again
		c = w.question(key)
	}
	w.last, key = c, c.keys
	want, wantErr := w.model.ask(0, c)
	w.ask(c)
	got := c.answer
	if d := got.ttl - want.ttl; d < 5*time.Second && d > -5*time.Second {
		got.ttl = want.ttl // real time passes
	}
	if got != want || (c.err == nil) != (wantErr == nil) || c.err != nil && !errors.Is(c.err, ErrConfig) {
		w.t.Errorf("step %d: %v of %+v: got %+v, %v; want %+v, %v", n, c.op, *c, got, c.err, want, wantErr)
	}
	w.verdicts[c.answer.verdict]++
	if c.answer.spare > 0 {
		w.polled++
	}
	w.compareWakeUps(n)
	w.compare(n, key)
}

// ask runs c on the server, and stops the clock of the lock in the same instant.
func (w *walk) ask(c *call) {
	ctx := w.t.Context()
	for _, source := range []bool{false, true} {
		p := w.rdb.TxPipeline()
		reply := redis.NewStringCmd(ctx, c.command(source)...)
		_ = p.Process(ctx, reply)
		left := p.PTTL(ctx, c.keys.lock)
		p.Persist(ctx, c.keys.lock)
		_, _ = p.Exec(ctx)
		if text, err := reply.Result(); !noScript(err) {
			w.redis.settle(c, text, err)
			w.left = left.Val()
			return
		}
		w.rdb.PExpire(ctx, c.keys.lock, left.Val())
	}
	w.t.Fatal("the server does not take the script")
}

func (w *walk) compareWakeUps(n int) {
	ear := w.model.ears["walk:wake:alive"]
	for len(ear) > 0 {
		want := <-ear
		m, err := w.sub.ReceiveMessage(w.t.Context())
		if err != nil || m.Payload != want {
			w.t.Errorf("step %d: a wake-up %v, %v, want %q", n, m, err, want)
			return
		}
		w.wakes++
	}
}

func (w *walk) harm(key keys) {
	ctx := w.t.Context()
	switch w.rnd.IntN(7) {
	case 0, 1, 2: // the lease ends
		delete(w.model.locks, key.lock)
		w.rdb.Del(ctx, key.lock)
	case 3: // the counter is lost
		delete(w.model.counters, key.counter)
		w.rdb.Del(ctx, key.counter)
	case 4: // the counter moves
		v := w.number()
		w.model.counters[key.counter] = v
		w.rdb.Set(ctx, key.counter, v, 0)
	case 5: // the queue expires
		delete(w.model.queues, key.queue)
		w.rdb.Del(ctx, key.queue)
	case 6:
		w.rdb.ScriptFlush(ctx)
	}
}

// number draws fences of every length, with many near misses.
func (w *walk) number() int64 {
	switch w.rnd.IntN(6) {
	case 0:
		return w.rnd.Int64N(5)
	case 4: // equal when rounded, and not equally long
		return 1_000_000_000_000_000_000 - 3 + w.rnd.Int64N(6)
	case 1:
		return 1<<53 - 2 + w.rnd.Int64N(5)
	case 2:
		return 1_790_000_000_000_000 + w.rnd.Int64N(5)
	case 3:
		return 1<<62 - 1000 + w.rnd.Int64N(900)
	default:
		return w.rnd.Int64N(1 << w.rnd.IntN(61))
	}
}

func (w *walk) question(key keys) *call {
	holder := string("abcdefgh"[w.rnd.IntN(8)])
	c := &call{
		keys: key, holder: holder, label: "x:y", waker: wakers[holder], proposal: 1 + w.number(),
		ttl: 100_000 * int64(1+holder[0]%3),
	}
	if holder == "h" {
		c.ttl = 400 // shorter than a first lease
	}
	e, held := w.model.locks[key.lock]
	if held && w.rnd.IntN(2) == 0 {
		c.holder, c.waker = e.holder, wakers[e.holder]
	}
	switch w.rnd.IntN(5) {
	case 0:
		c.op, c.value = opRenew, e.value()
		if w.rnd.IntN(3) == 0 {
			c.value = lockValue(e.holder, e.fence+1, e.label)
		}
	case 1:
		c.op, c.waits = opRelease, w.rnd.IntN(3) == 0
	default:
		c.op, c.waits = opAcquire, w.rnd.IntN(2) == 0
		if w.rnd.IntN(4) == 0 && !c.waits {
			c.least = w.number()
			if held {
				c.least = max(e.fence+w.rnd.Int64N(3)-1, 0)
			}
		}
	}
	return c
}

// wakers are the holders that wait with a channel: some listen, of some it is
// known that nobody does, of some that this says nothing.
var wakers = map[string]string{"a": "!alive", "b": "!dead", "c": "dead", "d": "alive", "e": "#alive", "f": "!alive", "g": "#dead", "h": "!alive"}

func (w *walk) compare(n int, key keys) {
	ctx := w.t.Context()
	wantLock, wantCounter := "", ""
	e, held := w.model.locks[key.lock]
	if held {
		wantLock = e.value()
		if w.left > e.until || w.left < e.until-5*time.Second || w.left < e.until/2 {
			w.t.Errorf("step %d: the lock lasts for %v, want %v", n, w.left, e.until)
		}
		e.until = max(e.until, 100*time.Second) // it ends when harm says so
		w.model.locks[key.lock] = e
		w.rdb.PExpire(ctx, key.lock, e.until)
	}
	if v, ok := w.model.counters[key.counter]; ok {
		wantCounter = strconv.FormatInt(v, 10)
	}
	lock, counter := w.rdb.Get(ctx, key.lock).Val(), w.rdb.Get(ctx, key.counter).Val()
	if lock != wantLock || counter != wantCounter {
		w.t.Errorf("step %d: keys %q, %q, want %q, %q", n, lock, counter, wantLock, wantCounter)
	}
	var queue []string
	for _, p := range w.model.queues[key.queue] {
		queue = append(queue, strings.Join([]string{p.holder, p.waker, strconv.FormatInt(p.ttl, 10), p.label}, ":"))
	}
	got := w.rdb.LRange(ctx, key.queue, 0, -1).Val()
	if !slices.Equal(got, queue) {
		w.t.Errorf("step %d: queue %q, want %q", n, got, queue)
	}
	if left := w.rdb.PTTL(ctx, key.queue).Val(); len(got) > 0 && (left <= 0 || left > 30*time.Second) {
		w.t.Errorf("step %d: the queue lasts for %v", n, left)
	}
}
