package fencedlock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// askNode answers what a quorum asks one of its nodes.
func (s *shelf) askNode(now time.Duration, c *call) (answer, error) {
	e, ok := s.locks[c.keys.lock]
	switch c.op {
	case opPropose:
		return s.propose(now, c)
	case opWithdraw:
		switch {
		case !ok:
			return answer{verdict: absent}, nil
		case e.holder != c.holder || e.fence > c.newest:
			return answer{verdict: taken}, nil
		}
		delete(s.locks, c.keys.lock)
		return answer{verdict: released}, nil
	default: // opMend
		if ok || s.counters[c.keys.counter] > c.newest {
			return answer{verdict: taken}, nil
		}
		s.counters[c.keys.counter] = c.newest
		e := entryOf(c.value)
		e.until = now + time.Duration(c.ttl)*time.Millisecond
		s.locks[c.keys.lock] = e
		return answer{verdict: renewed}, nil
	}
}

func (s *shelf) propose(now time.Duration, c *call) (answer, error) {
	until := now + time.Duration(c.ttl)*time.Millisecond
	e, ok := s.locks[c.keys.lock]
	counter, counted := s.counters[c.keys.counter]
	if ok {
		if e.holder != c.holder {
			return answer{verdict: held, fence: e.fence, ttl: (e.until - now).Truncate(time.Millisecond), label: e.label}, nil
		}
		until = max(until, e.until)
		if e.fence == c.proposal && counted {
			e.until = until
			s.locks[c.keys.lock] = e
			return answer{verdict: granted, fence: e.fence}, nil
		}
	}
	switch {
	case c.newest >= maxFence:
		return answer{}, &ConfigError{Need: needFence}
	case counted && counter >= c.proposal:
		return answer{verdict: behind, fence: counter}, nil
	}
	s.counters[c.keys.counter] = c.newest
	s.locks[c.keys.lock] = entry{holder: c.holder, label: c.label, fence: c.proposal, until: until}
	return answer{verdict: granted, fence: c.proposal}, nil
}

// entryOf reads the value of a lock.
func entryOf(value string) entry {
	holder, rest, _ := strings.Cut(value, ":")
	id, label, _ := strings.Cut(rest, ":")
	fence, _ := fencedstore.ParseID(id)
	return entry{holder: holder, fence: fence, label: label}
}

func (s *shelf) inspect(now time.Duration, c *call) {
	c.status.Newest = s.counters[c.keys.counter]
	if e, ok := s.locks[c.keys.lock]; ok {
		c.status.Held, c.status.FenceID, c.status.Label, c.status.TTL = true, e.fence, e.label, e.until-now
	}
}

// fakeNode is one node of a quorum in memory.
type fakeNode struct {
	*memory
	mu       sync.Mutex
	born     time.Time
	restarts int
	conns    uint64        // how often it was connected to
	ahead    time.Duration // what is wrong with its wall clock
}

// restart has the node come back empty, under a new name.
func (f *fakeNode) restart() {
	f.wipe()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restarts++
	f.conns++
	f.born = time.Now()
}

func (f *fakeNode) dials() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns
}

func (f *fakeNode) who(context.Context) (identity, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return identity{id: fmt.Sprintf("%p %d", f, f.restarts), up: time.Since(f.born) + f.ahead}, nil
}

// fakeQuorum are nodes that have been up for a day.
func fakeQuorum(n int) []*fakeNode {
	nodes := make([]*fakeNode, n)
	for i := range nodes {
		nodes[i] = &fakeNode{memory: newMemory(), born: time.Now().Add(-24 * time.Hour)}
	}
	return nodes
}

// quorumLocker returns a Locker at nodes whose clocks are s; it is closed with the
// test.
func quorumLocker(t *testing.T, nodes []*fakeNode, s *skewed, opts *Options) *Locker {
	t.Helper()
	o, err := opts.complete()
	if err == nil {
		err = o.among(len(nodes))
	}
	if err != nil {
		t.Fatal(err)
	}
	b := newQuorumBackend(&o, s.now)
	for i, f := range nodes {
		n := b.add(fmt.Sprint("node ", i), f)
		n.gate.dials, n.gate.who = f.dials, f.who
	}
	l := newLocker(b, o, s.now)
	t.Cleanup(func() { _ = l.Close() })
	return l
}
