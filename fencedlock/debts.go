package fencedlock

import (
	"context"
	"math"
	"sync"
	"time"
)

// debt is a lock that one node may have and nobody wants.
type debt struct {
	call
	until time.Duration // by then it has expired, or we give up
	due   time.Duration
	twice bool // what put it there may still be on its way: look again
	of    *ballot
}

// debts are those at one node, by lock and holder. They are paid on a goroutine
// that ends with the last of them.
type debts struct {
	mu      sync.Mutex
	by      map[string]*debt
	running bool
}

const maxDebts = 10_000

// owe has the node take back what it may have accepted of the holder of c up to a
// proposal, soon and for as long as that can last.
func (n *node) owe(c *call, upTo int64, unsure bool) {
	now := n.b.now().mono
	d := &debt{
		call:  call{op: opWithdraw, keys: c.keys, holder: c.holder, newest: upTo},
		until: now + min(time.Duration(c.ttl)*time.Millisecond, orphanLife), due: now, twice: unsure, of: c.ballot,
	}
	s, key := &n.debts, c.keys.lock+" "+c.holder
	s.mu.Lock()
	if old := s.by[key]; old != nil {
		d.newest, d.twice = max(d.newest, old.newest), d.twice || old.twice
	} else if len(s.by) >= maxDebts {
		s.mu.Unlock()
		n.warnDebt(d)
		return
	}
	if s.by == nil {
		s.by = make(map[string]*debt)
	}
	s.by[key] = d
	start := !s.running
	s.running = true
	s.mu.Unlock()
	if start {
		n.b.spawn(n.pay)
	}
}

// pay is the goroutine.
func (n *node) pay() {
	for {
		batch, wait := n.nextDebts()
		switch {
		case len(batch) > 0:
			n.payBatch(batch)
		case wait == 0:
			return
		default:
			pause(n.b.stop, wait)
		}
	}
}

// nextDebts drops those whose time is over and returns those to pay now, or for
// how long to wait. When there is none, the goroutine is to end. At the end of the
// Locker each is tried once more.
func (n *node) nextDebts() (batch []*debt, wait time.Duration) {
	last := n.b.isClosed()
	s := &n.debts
	s.mu.Lock()
	defer s.mu.Unlock()
	now := n.b.now().mono
	for key, d := range s.by {
		switch {
		case now >= d.until:
			delete(s.by, key)
		case d.due > now && !last:
			if wait == 0 || d.due-now < wait {
				wait = d.due - now
			}
		case len(batch) < maxBatch:
			batch = append(batch, d)
			if last {
				delete(s.by, key)
			}
		}
	}
	s.running = len(s.by) > 0 || len(batch) > 0
	return batch, wait
}

// payBatch asks once.
func (n *node) payBatch(batch []*debt) {
	now := n.b.now().mono
	if !n.breaker.enter(now, n.b.isClosed()) {
		n.postpone(batch, now+firstAvoid+jitter(firstAvoid))
		return
	}
	calls := make([]*call, len(batch))
	for i, d := range batch {
		c := d.call
		calls[i] = &c
	}
	n.run(detached(context.Background(), callTimeout), calls)
	s := &n.debts
	s.mu.Lock()
	defer s.mu.Unlock()
	now = n.b.now().mono
	for i, d := range batch {
		if calls[i].answer.verdict == released && d.newest == math.MaxInt64 && d.of != nil {
			d.of.gone(n.index)
		}
		key := d.keys.lock + " " + d.holder
		switch {
		case s.by[key] != d: // there is a newer one
		case asFault(calls[i].err) != nil:
			d.due = now + backoff(2)
		case d.twice && calls[i].answer.verdict != released:
			d.twice, d.due = false, now+secondLook
		default:
			delete(s.by, key)
		}
	}
}

func (n *node) postpone(batch []*debt, due time.Duration) {
	s := &n.debts
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range batch {
		d.due = due
	}
}

func (n *node) warnDebt(d *debt) {
	n.b.log.Warn("fencedlock: a node of the quorum may keep a lock that nobody holds; it expires by itself", "node", n.name, "key", d.keys.lock)
}

func (b *quorumBackend) isClosed() bool {
	select {
	case <-b.stop:
		return true
	default:
		return false
	}
}
