package fencedlock

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// maxRounds is how often one question is proposed anew, because the clock was
	// behind a counter or votes were split.
	maxRounds = 8
	// turnsReserved is how many fences a waiting caller reserves, for those of its
	// process who wait behind it.
	turnsReserved = 7
	// minPause and maxPause bound the pause after split votes.
	minPause = 200 * time.Microsecond
	maxPause = 50 * time.Millisecond
)

// acquire proposes one fence to all nodes. A node accepts it if it is above all
// that it has accepted before, and the lock is free; once a majority has accepted
// the same, it is this holder's, and nobody else's ever: two majorities share a
// node, which accepts no fence twice, and lower ones not after higher ones. On
// refusal a higher one is proposed to all nodes, and counted from zero.
func (b *quorumBackend) acquire(ctx context.Context, c *call) {
	c.answer, c.err, c.wrote = answer{}, nil, false
	for n := 1; ; n++ {
		r := b.propose(ctx, c)
		switch r.verdict(b) {
		case granted:
			c.answer, c.sent = answer{verdict: granted, fence: r.fence, spare: int(r.newest - r.fence)}, r.sent
			c.ballot.won(r.newest)
			b.known.learn(c.keys.counter, r.newest, r.behind > 0)
			return
		case behind:
			b.known.learn(c.keys.counter, c.seen, true)
			if n == maxRounds {
				c.err = &faultError{err: errOvertaken, ran: true}
				return
			}
			continue
		case held:
			if n < maxRounds && r.leads() && b.rest(ctx, r.pause(n)) {
				continue
			}
			b.giveBack(c, r.newest)
			c.answer = r.inTheWay(b)
			return
		default:
			c.err, c.wrote = r.err, r.granted > 0 || r.ran
			return
		}
	}
}

// errOvertaken is why a fence was not accepted although nobody is in the way.
var errOvertaken = fmt.Errorf("overtaken by others in each of %d rounds", maxRounds)

// rest waits for others to withdraw, and reports whether there is time to ask
// again.
func (b *quorumBackend) rest(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	case <-b.stop:
		return false
	}
}

// round is one proposal, and what the nodes said to it.
type round struct {
	fence, newest int64   // what was proposed, and the last one it reserves
	sent          instant // before the first question
	took          time.Duration

	granted, behind int
	ran             bool
	held            []answer
	errs            []NodeError
	err             error
}

// propose asks all nodes once, and returns as soon as it is certain what comes of
// it.
func (b *quorumBackend) propose(ctx context.Context, c *call) *round {
	r := &round{sent: b.now()}
	least, more := max(r.sent.proposal(), c.proposal, c.least, c.seen+1, b.known.of(c.keys.counter)+1), int64(0)
	if c.waits {
		more = turnsReserved
	}
	r.fence, r.newest = c.ballot.next(least, more)
	if r.newest >= maxFence {
		r.err = &ConfigError{Need: needFence}
		return r
	}
	q := *c
	q.op, q.proposal, q.newest = opPropose, r.fence, r.newest
	replies := b.ask(ctx, budget(c.ttl), []*call{&q}, nil)
	for missing := len(b.nodes); missing > 0 && !r.certain(b, missing); missing-- {
		select {
		case x := <-replies:
			r.count(c, x)
		case <-ctx.Done():
			r.err = &faultError{err: ctx.Err(), ran: true}
			return r
		}
	}
	r.took = b.now().mono - r.sent.mono
	return r
}

// voted is how many nodes have answered.
func (r *round) voted() int { return r.granted + r.behind + len(r.held) }

// certain says that the other nodes need not be waited for.
func (r *round) certain(b *quorumBackend, missing int) bool {
	_, top := r.top()
	return r.granted >= b.need || top >= b.need ||
		r.behind > 0 && r.voted() >= b.need && (r.behind > b.spare() || missing <= b.spare())
}

// verdict is what came of it: granted, behind a counter, held by somebody or
// split, or 0 with an error.
func (r *round) verdict(b *quorumBackend) verdict {
	_, top := r.top()
	switch {
	case r.granted >= b.need:
		return granted
	case r.err != nil:
		return 0
	case r.voted() < b.need:
		r.err = b.failed(r.errs, r.granted > 0 || r.ran)
		return 0
	case r.behind > 0 && len(r.held) <= b.spare() && top < b.need:
		return behind
	}
	return held
}

// top is the tenure that most nodes name, of equals the lowest, and how many do.
func (r *round) top() (fence int64, votes int) {
	for _, a := range r.held {
		n := 0
		for _, o := range r.held {
			if o.fence == a.fence {
				n++
			}
		}
		if n > votes || n == votes && a.fence < fence {
			fence, votes = a.fence, n
		}
	}
	return fence, votes
}

func (r *round) count(c *call, x reply) {
	err := x.err
	if err == nil {
		err = x.calls[0].err
	}
	if err != nil {
		r.errs = append(r.errs, NodeError{Node: x.n.name, Err: err})
		fault := asFault(err)
		r.ran = r.ran || fault != nil && fault.ran || x.calls[0] != nil && x.calls[0].wrote
		return
	}
	a := x.calls[0].answer
	if a.fence > maxFence-2*turnsReserved { // nothing could follow it
		r.errs = append(r.errs, NodeError{Node: x.n.name, Err: c.broken("counter")})
		return
	}
	c.seen = max(c.seen, a.fence)
	switch a.verdict {
	case granted:
		r.granted++
	case behind:
		r.behind++
	default:
		r.held = append(r.held, a)
	}
}

// leads says who goes on when several have got some nodes and none a majority:
// the one with the most, of equals the one that proposed less, and of those who
// proposed the same one by chance. All see the same split, so that all but one withdraw. Nobody who could have a majority, with the
// nodes that have not answered, is competed with.
func (r *round) leads() bool {
	fence, votes := r.top()
	if r.granted == votes && r.fence == fence {
		return rand.N(2) == 0
	}
	return r.granted > votes || r.granted == votes && r.fence < fence
}

// pause is for how long the others are given to withdraw: some round trips, at
// random.
func (r *round) pause(n int) time.Duration {
	d := min(max(r.took, minPause)<<min(n, 6), maxPause)
	return d/2 + jitter(d/2)
}

// inTheWay is the tenure that most nodes name, and when enough of all that is in
// the way will be gone, unless it is renewed.
func (r *round) inTheWay(b *quorumBackend) answer {
	fence, _ := r.top()
	i := slices.IndexFunc(r.held, func(a answer) bool { return a.fence == fence })
	best := r.held[i]
	slices.SortFunc(r.held, func(x, y answer) int { return cmp.Compare(x.ttl, y.ttl) })
	best.ttl = r.held[max(len(r.held)-b.spare()-1, 0)].ttl
	return best
}

// giveBack has the nodes take back what they may have accepted of c up to the
// given fence.
func (b *quorumBackend) giveBack(c *call, upTo int64) {
	back, unsure := c.ballot.giveUp(upTo)
	for _, i := range back {
		b.nodes[i].owe(c, upTo, false)
	}
	for _, i := range unsure {
		b.nodes[i].owe(c, upTo, true)
	}
}
