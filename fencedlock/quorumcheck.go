package fencedlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/fenced-go/fenced/fencedstore"
)

// checkQuorum looks at every node by itself: what a majority hides would come to
// light when the majority is needed.
func (l *Locker) checkQuorum(ctx context.Context, b *quorumBackend, r *Report) {
	r.Nodes = len(b.nodes)
	if len(b.nodes)%2 == 0 {
		r.add(Notice, "quorum", "", fmt.Sprintf("of %d nodes only %d may be down, as of %d", len(b.nodes), b.spare(), len(b.nodes)-1), "take an odd number")
	}
	reports := make([]Report, len(b.nodes))
	var wg sync.WaitGroup
	for i, n := range b.nodes {
		wg.Go(func() { l.checkNode(ctx, n, &reports[i]) })
	}
	wg.Wait()
	for i := range reports {
		r.Findings = append(r.Findings, reports[i].Findings...)
	}
}

func (l *Locker) checkNode(ctx context.Context, n *node, r *Report) {
	err := l.tryNode(ctx, n)
	waits, quarantined := errors.AsType[*quarantineError](err)
	switch {
	case err == nil:
	case quarantined:
		r.add(Warning, "quorum", n.name, waits.Error(), "set Options.NodesPersist if it keeps what it has acknowledged")
	case errors.Is(err, ErrConfig), errors.Is(err, ErrUnexpectedReply):
		r.add(Critical, "rights", n.name, strings.TrimPrefix(err.Error(), "fencedlock: "), "see docs/operations.md for the rights that are needed")
	default:
		r.add(Warning, "quorum", n.name, "it does not answer: "+err.Error(), "bring it back: the others bear one failure less")
		return
	}
	if n.rdb == nil {
		return
	}
	p := l.probe(ctx, n.rdb)
	p.into(r)
	if l.opts.NodesPersist && (p.config["appendonly"] != "yes" || p.config["appendfsync"] != "always") {
		r.add(Critical, "persistence", n.name, fmt.Sprintf("Options.NodesPersist is set, and appendonly is %q, appendfsync %q",
			p.config["appendonly"], p.config["appendfsync"]), "set them to yes and always, or do without the option")
	}
}

// tryNode has one node accept a fence and take it back.
func (l *Locker) tryNode(ctx context.Context, n *node) error {
	fence := l.now().proposal()
	c := call{
		op: opPropose, keys: newKeys(l.opts.Prefix, checkResource), holder: fencedstore.NewHolder(), label: l.opts.Label,
		ttl: l.opts.TTL.Milliseconds(), proposal: fence, newest: fence,
	}
	if err := n.only(ctx, &c); err != nil {
		return err
	}
	if c.answer.verdict != granted {
		return nil // somebody else checks at the same time
	}
	c.op, c.value = opRenew, lockValue(c.holder, fence, c.label)
	if err := n.only(ctx, &c); err != nil {
		return err
	}
	c.op, c.newest = opWithdraw, math.MaxInt64
	return n.only(ctx, &c)
}

// only asks nobody else.
func (n *node) only(ctx context.Context, c *call) error {
	n.breaker.enter(n.b.now().mono, true)
	n.run(bounded(ctx, callTimeout), []*call{c}) //nolint:contextcheck // it is derived from ctx
	if fault := asFault(c.err); fault != nil {
		return fault.err
	}
	return c.err
}
