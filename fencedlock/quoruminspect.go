package fencedlock

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// NodeStatus is what one node of a quorum knows about one resource.
type NodeStatus struct {
	// Node is its address.
	Node string
	// Err is why it says nothing; the rest is zero then.
	Err error
	// Held, FenceID, Label and TTL are as in Status.
	Held    bool
	FenceID int64
	Label   string
	TTL     time.Duration
	// Newest is the newest fence ID that it has accepted or that was reserved.
	Newest int64
}

// see takes what one node knows.
func (p *poll) see(n *node, c *call) {
	s := NodeStatus{Node: n.name, Err: c.err}
	if c.err == nil {
		s.Held, s.FenceID, s.Label, s.TTL, s.Newest = c.status.Held, c.status.FenceID, c.status.Label, c.status.TTL, c.status.Newest
	}
	p.seen = append(p.seen, s)
}

// decideInspect: it is held by a tenure that a majority of all nodes names.
func (p *poll) decideInspect(missing int) {
	if missing > 0 {
		return
	}
	if p.yes < p.b.need {
		p.unavailable()
		return
	}
	p.answer(free)
	for _, e := range p.errs {
		if !slices.ContainsFunc(p.seen, func(s NodeStatus) bool { return s.Node == e.Node }) {
			p.seen = append(p.seen, NodeStatus{Node: e.Node, Err: e.Err})
		}
	}
	s := p.c.status
	s.Nodes = p.inOrder()
	for i := range s.Nodes {
		s.Newest = max(s.Newest, s.Nodes[i].Newest)
		if s.Nodes[i].Held && !s.Held {
			s.holder(s.Nodes[i], p.b.need)
		}
	}
}

// inOrder are the nodes as NewQuorum got them.
func (p *poll) inOrder() []NodeStatus {
	at := func(s NodeStatus) int {
		return slices.IndexFunc(p.b.nodes, func(n *node) bool { return n.name == s.Node })
	}
	slices.SortFunc(p.seen, func(x, y NodeStatus) int { return cmp.Compare(at(x), at(y)) })
	return p.seen
}

// holder makes the tenure of n the status, if enough nodes name it: until there
// are fewer.
func (s *Status) holder(n NodeStatus, need int) {
	var ends []time.Duration
	for _, o := range s.Nodes {
		if o.Held && o.FenceID == n.FenceID {
			ends = append(ends, o.TTL)
		}
	}
	if len(ends) < need {
		return
	}
	slices.Sort(ends)
	s.Held, s.FenceID, s.Label, s.TTL = true, n.FenceID, n.Label, ends[len(ends)-need]
	s.Since = fencedstore.Fence{ID: n.FenceID}.Time()
}

// scan implements [lister]: whatever a majority holds is at one of any nodes that
// are one more than may be missing.
func (b *quorumBackend) scan(ctx context.Context, match string, yield func(keys []string) bool) error {
	var errs []NodeError
	for _, n := range b.nodes {
		l, ok := n.ask.(lister)
		if !ok {
			return &ConfigError{Op: "list", Need: "locks of this kind cannot be listed"}
		}
		more := true
		err := l.scan(ctx, match, func(keys []string) bool {
			more = yield(keys)
			return more
		})
		switch {
		case !more:
			return nil
		case err != nil:
			errs = append(errs, NodeError{Node: n.name, Err: err})
		}
		if len(errs) >= b.need {
			return b.failed(errs, false)
		}
	}
	return nil
}
