package fencedlock

import (
	"context"
	"strings"
)

// mend puts locks that were renewed at a majority also into the nodes that do not
// have them: a lock that is held for long would lose one node after the other
// otherwise, each time one of them is replaced or cut off for longer than the
// TTL. What is mended counts from the next renewal on.
func (b *quorumBackend) mend(polls []poll) {
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
			ctx, cancel := context.WithTimeout(context.Background(), budget(calls[0].ttl))
			defer cancel()
			n.run(ctx, calls)
		})
	}
}
