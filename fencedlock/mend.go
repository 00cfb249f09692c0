package fencedlock

import (
	"context"
	"strings"
	"time"
)

// mendIn is when a new lock is renewed for the first time: soon, because there may
// be nodes that were late to be left by its predecessor, and until they are
// mended it bears the failure of fewer others.
func mendIn(ttl time.Duration) time.Duration { return min(ttl/20, time.Second) }

// mend puts locks that were renewed at a majority also into the nodes that do not
// have them: a lock that is held for long would lose one node after the other
// otherwise, each time one of them is replaced or cut off for longer than the
// TTL. What is mended counts from the next renewal on.
func (b *quorumBackend) mend(ctx context.Context, polls []poll) {
	missing := make(map[*node][]*call)
	for i := range polls {
		p := &polls[i]
		if p.c.op != opRenew || p.c.err != nil || p.c.answer.verdict != renewed || p.c.ballot == nil {
			continue
		}
		newest, wanted := p.c.ballot.wanted()
		if !wanted {
			continue
		}
		for _, n := range p.gone {
			c := *p.c
			c.op, c.newest, c.answer = opMend, newest, answer{}
			c.holder, _, _ = strings.Cut(c.value, ":")
			missing[n] = append(missing[n], &c)
		}
	}
	for n, calls := range missing {
		if !n.breaker.enter(b.now().mono, false) {
			continue
		}
		for _, c := range calls {
			c.voted(n.index)
		}
		b.spawn(func() {
			n.run(detached(ctx, budget(calls[0].ttl)), calls) //nolint:contextcheck // it is derived from ctx
		})
	}
}
