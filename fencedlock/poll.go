package fencedlock

import (
	"context"
	"math"
	"time"
)

// reply is what one node said: to each call that it was asked, or why it was not.
type reply struct {
	n     *node
	calls []*call // copies, nil for those that were not asked
	err   error
}

// maxShare is which part of a lease one node may take to answer.
const maxShare = 5

// budget is how long a node may take: far less than the lease that runs meanwhile.
func budget(ttl int64) time.Duration {
	return min(callTimeout, max(time.Duration(ttl)*time.Millisecond/maxShare, time.Millisecond))
}

// ask sends copies of cs to every node, all at once. The answers come through the
// channel, one for each node; nobody has to wait for them.
func (b *quorumBackend) ask(ctx context.Context, limit time.Duration, cs []*call, wants func(i int, c *call) bool) <-chan reply {
	replies := make(chan reply, len(b.nodes))
	within := bounded(ctx, limit)
	within.free = true // an answer that nobody waits for is still wanted
	force := b.fewAreWell()
	copies := copiesOf(cs, len(b.nodes))
	for i, n := range b.nodes {
		r := reply{n: n, calls: copies[i*len(cs) : (i+1)*len(cs)]}
		asked := r.calls
		if wants != nil {
			asked = r.choose(wants)
		}
		switch {
		case len(asked) == 0:
			replies <- r
		case !n.breaker.enter(b.now().mono, force):
			r.err = &faultError{err: errAvoided}
			n.unasked(asked)
			replies <- r
		default:
			for _, c := range asked {
				c.voted(i)
			}
			if b.start() {
				go n.reply(within, asked, r, replies) //nolint:contextcheck // callContext is derived from ctx
			} else {
				n.run(within, asked) //nolint:contextcheck // callContext is derived from ctx
				replies <- r
			}
		}
	}
	return replies
}

// copiesOf are n copies of cs, one after the other: a call is used again while
// some of its copies are under way.
func copiesOf(cs []*call, n int) []*call {
	room, copies := make([]call, n*len(cs)), make([]*call, n*len(cs))
	for i := range room {
		c := &room[i]
		*c = *cs[i%len(cs)]
		c.answer, c.err, c.wrote = answer{}, nil, false
		if c.status != nil {
			c.status = &Status{}
		}
		copies[i] = c
	}
	return copies
}

// choose returns the calls that the node is wanted for, and leaves nil for the
// others.
func (r *reply) choose(wants func(i int, c *call) bool) (asked []*call) {
	for j, c := range r.calls {
		if wants(r.n.index, c) {
			asked = append(asked, c)
		} else {
			r.calls[j] = nil
		}
	}
	return asked
}

// reply runs calls and hands on the answers.
func (n *node) reply(ctx context.Context, asked []*call, r reply, replies chan<- reply) {
	defer n.b.work.Done()
	n.run(ctx, asked)
	replies <- r
}

// unasked has locks given back later at a node that is avoided.
func (n *node) unasked(calls []*call) {
	for _, c := range calls {
		if c.op == opRelease {
			n.owe(c, math.MaxInt64, true)
		}
	}
}

// voted notes that a question is under way that may put a lock into a node, or
// takes it out.
func (c *call) voted(i int) {
	switch {
	case c.ballot == nil:
	case c.op == opPropose, c.op == opForce, c.op == opMend:
		c.ballot.ask(i)
	case c.op == opRelease:
		c.ballot.askBack(i)
	}
}

// fewAreWell reports that too many nodes are avoided: then every one is asked.
func (b *quorumBackend) fewAreWell() bool {
	well, now := 0, b.now().mono
	for _, n := range b.nodes {
		if n.breaker.well(now) {
			well++
		}
	}
	return well < b.need
}

func (b *quorumBackend) do(ctx context.Context, c *call) {
	if c.op == opAcquire {
		b.acquire(ctx, c)
		return
	}
	b.batch(ctx, []*call{c})
}

// batch asks for renewals, releases and the like, and returns as soon as the
// answers to all of cs are certain.
func (b *quorumBackend) batch(ctx context.Context, cs []*call) {
	polls := make([]poll, len(cs))
	for i, c := range cs {
		polls[i] = newPoll(b, c)
	}
	limit := callTimeout
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end))
	}
	for _, c := range cs {
		if c.op == opRenew {
			limit = min(limit, budget(c.ttl))
		}
	}
	replies := b.ask(ctx, limit, cs, func(i int, c *call) bool { return c.isFor(i) })
	missing := len(b.nodes)
	for open := len(cs); open > 0; {
		select {
		case r := <-replies:
			missing--
			open -= count(polls, r, missing)
		case <-ctx.Done():
			for i := range polls {
				polls[i].abandon(ctx.Err())
			}
			open = 0
		}
	}
	b.mend(ctx, polls)
}

// isFor says that node i is to be asked: a lock is given back where it may be.
func (c *call) isFor(i int) bool {
	if c.ballot == nil || c.op != opRelease && c.op != opKeep {
		return true
	}
	may, _ := c.ballot.has(i)
	return may
}

// count takes r into all polls, and returns how many that has decided.
func count(polls []poll, r reply, missing int) (decided int) {
	for i := range polls {
		p := &polls[i]
		if p.done {
			continue
		}
		switch {
		case r.err != nil:
			p.fail(r.n, r.err)
		case r.calls[i] != nil:
			p.count(r.n, r.calls[i])
		}
		if p.decide(missing); p.done {
			decided++
		}
	}
	return decided
}
