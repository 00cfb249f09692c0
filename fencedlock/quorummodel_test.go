package fencedlock

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/internal/testenv"
)

// TestNodeScriptsAgreeWithTheModel takes random steps on a real server and on the
// model that the tests of quorums in synthetic time use.
func TestNodeScriptsAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	rdb := redis.NewClient(&redis.Options{Addr: srv.DirectAddr(), ReadTimeout: time.Minute})
	defer func() { _ = rdb.Close() }()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := &nodeWalk{walk: walk{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), rdb: rdb, model: newShelf(),
		redis: &redisBackend{rdb: rdb, own: true},
	}}
	for step := range 12_000 {
		if w.step(step); t.Failed() {
			return
		}
	}
	t.Logf("answers %v", w.answers)
	for o, verdicts := range map[op][]verdict{
		opPropose: {granted, held, behind}, opWithdraw: {released, absent, taken}, opMend: {renewed, taken},
	} {
		for _, v := range verdicts {
			if w.answers[nodeAnswer{o, v}] < 50 {
				t.Errorf("only %d answers of kind %d to %d", w.answers[nodeAnswer{o, v}], v, o)
			}
		}
	}
	if w.broken < 20 {
		t.Errorf("only %d fences refused at the bound", w.broken)
	}
}

type nodeAnswer struct {
	op      op
	verdict verdict
}

type nodeWalk struct {
	walk
	answers map[nodeAnswer]int
	broken  int
}

func (w *nodeWalk) step(n int) {
	key := newKeys("walk:", fmt.Sprint(w.rnd.IntN(3)))
	if w.rnd.IntN(10) == 0 {
		w.harm(key)
	}
	c := w.last
	if c == nil || w.rnd.IntN(10) > 0 { // else its answer was lost, and it comes again
		c = w.proposal(key)
	}
	w.last, key = c, c.keys
	want, wantErr := w.model.ask(0, c)
	w.ask(c)
	got := c.answer
	if d := got.ttl - want.ttl; d < 5*time.Second && d > -5*time.Second {
		got.ttl = want.ttl // real time passes
	}
	if got != want || (c.err == nil) != (wantErr == nil) || c.err != nil && !errors.Is(c.err, ErrConfig) {
		w.t.Errorf("step %d: %d of %+v: got %+v, %v; want %+v, %v", n, c.op, *c, got, c.err, want, wantErr)
	}
	if w.answers == nil {
		w.answers = map[nodeAnswer]int{}
	}
	w.answers[nodeAnswer{c.op, c.answer.verdict}]++
	if c.err != nil {
		w.broken++
	}
	w.compare(n, key)
}

// proposal draws a question, near what the node has.
func (w *nodeWalk) proposal(key keys) *call {
	holder := string("abc"[w.rnd.IntN(3)])
	c := &call{op: opPropose, keys: key, holder: holder, label: "x:y", ttl: 100_000 * int64(1+holder[0]%3)}
	e, held := w.model.locks[key.lock]
	if held && w.rnd.IntN(2) == 0 {
		c.holder = e.holder
	}
	near := []int64{w.model.counters[key.counter], e.fence, w.number()}[w.rnd.IntN(3)]
	c.proposal = max(near+w.rnd.Int64N(5)-2, 1)
	c.newest = c.proposal + 7*w.rnd.Int64N(2)
	if w.rnd.IntN(30) == 0 {
		c.proposal = maxFence - 3 + w.rnd.Int64N(5)
		c.newest = c.proposal + 7*w.rnd.Int64N(2)
	}
	switch w.rnd.IntN(4) {
	case 0:
		c.op, c.newest = opWithdraw, max(e.fence+w.rnd.Int64N(3)-1, 1)
		if w.rnd.IntN(3) == 0 {
			c.newest = math.MaxInt64
		}
	case 1:
		c.op, c.value = opMend, lockValue(c.holder, c.proposal, c.label)
		c.newest = min(c.newest, maxFence-1)
	}
	return c
}
