package fencedlock

import (
	"cmp"
	"slices"
)

// poll counts the answers of the nodes to one call.
type poll struct {
	b *quorumBackend
	c *call

	yes    int // it is as the call wants it
	absent int
	taken  int
	errs   []NodeError
	ran    bool
	other  answer       // held: the newest that is in the way
	gone   []*node      // renew: where the lock is not
	seen   []NodeStatus // inspect
	done   bool
}

func newPoll(b *quorumBackend, c *call) poll {
	c.answer, c.err, c.wrote = answer{}, nil, false
	p := poll{b: b, c: c}
	if c.op == opForce {
		c.newest = c.fence
	}
	if c.ballot != nil && (c.op == opRelease || c.op == opKeep) {
		c.ballot.release()
		for i := range b.nodes {
			if _, gaveUp := c.ballot.has(i); gaveUp {
				p.yes++ // it has said so before
			}
		}
	}
	return p
}

func (p *poll) fail(n *node, err error) {
	p.errs = append(p.errs, NodeError{Node: n.name, Err: err})
	if fault := asFault(err); fault != nil {
		p.ran = p.ran || fault.ran
	}
}

// count takes the answer of one node.
func (p *poll) count(n *node, c *call) {
	if c.op == opInspect {
		p.see(n, c)
	}
	if c.err != nil {
		p.fail(n, c.err)
		return
	}
	switch c.answer.verdict {
	case absent:
		p.absent++
		p.gone = append(p.gone, n)
	case taken:
		p.taken++
	case held:
		p.taken++
		if c.answer.fence > p.other.fence {
			p.other = c.answer
		}
	default:
		p.yes++
	}
}

// decide answers the call when that is certain: missing nodes have not said
// anything yet.
func (p *poll) decide(missing int) {
	switch p.c.op {
	case opInspect:
		p.decideInspect(missing)
	case opWhy:
		p.decideWhy(missing)
	case opRelease, opKeep:
		p.decideRelease(missing)
	default:
		p.decideHeld(missing)
	}
}

func (p *poll) answer(v verdict) {
	p.done = true
	p.c.answer = answer{verdict: v}
}

func (p *poll) lost() {
	if p.taken > 0 {
		p.answer(taken)
	} else {
		p.answer(absent)
	}
}

// decideHeld is about a lock that must be at enough nodes: to renew, or to end it
// by force.
func (p *poll) decideHeld(missing int) {
	switch {
	case p.yes >= p.b.keep:
		p.answer(renewed)
		if p.c.op == opForce {
			p.c.answer = answer{verdict: granted, fence: p.c.fence}
		}
	case p.absent+p.taken > len(p.b.nodes)-p.b.keep:
		p.lost()
		if p.c.op == opForce {
			p.unforced()
		}
	case missing == 0:
		p.unavailable()
	}
}

// unforced takes back what a forced release has got hold of without a majority.
func (p *poll) unforced() {
	if p.other.verdict == held {
		p.c.answer = p.other
	}
	p.b.giveBack(p.c, p.c.fence)
}

// decideRelease: it is released when a majority has confirmed that it was there
// and is gone; or when others can have a majority, and, for all that is known, it
// was still at enough nodes.
func (p *poll) decideRelease(missing int) {
	switch {
	case p.yes >= p.b.need:
		p.answer(released)
	case missing > 0:
	case len(p.errs) > p.b.spare():
		p.unavailable()
	case p.yes+len(p.errs) >= p.b.keep:
		p.answer(released)
	default:
		p.lost()
	}
}

// decideWhy: one node that knows of a forced release will do.
func (p *poll) decideWhy(missing int) {
	switch {
	case p.yes > 0:
		p.answer(forced)
	case missing > 0:
	case p.absent+p.taken > 0:
		p.answer(absent)
	default:
		p.unavailable()
	}
}

// unavailable makes the error of a call that too few nodes have answered.
func (p *poll) unavailable() {
	p.done = true
	p.c.err = p.b.failed(p.errs, p.ran)
}

func (p *poll) abandon(err error) {
	if !p.done {
		p.done = true
		p.c.err = &faultError{err: err, ran: true}
	}
}

// failed is the error of a call that too few nodes have answered: that of a node
// that will go on refusing, if there are too many of those, else one that may
// pass.
func (b *quorumBackend) failed(errs []NodeError, ran bool) error {
	slices.SortStableFunc(errs, func(x, y NodeError) int { return cmp.Compare(x.Node, y.Node) })
	final, first := 0, error(nil)
	for _, e := range errs {
		if e.final() {
			final++
			first = cmp.Or(first, e.Err)
		}
	}
	if final > b.spare() {
		return first
	}
	return &faultError{err: &QuorumError{Need: b.need, Of: len(b.nodes), Nodes: errs}, ran: ran}
}
