package fencedlock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// NewQuorum returns a Locker that keeps its locks at a majority of independent
// Redis servers, three or more: nobody replicates to anybody, and any minority of
// them may be down. opts may be nil. It sends nothing.
//
// The majority is that of the nodes given, whether or not they can be reached. All
// Lockers of a resource must have the same nodes and the same Options.TTL, Lossy
// and NodesPersist. A node is the *[redis.Client] of one server, connected without
// a proxy that would hide a restart; a Cluster, a Ring, a client that follows
// sentinels, and one address given twice are refused with an
// [ErrInvalidArgument]. Two names of one server are found out when they are
// connected: then [Locker.Acquire] fails with an [ErrConfig].
//
// Everything else is as with [New], except that waiting callers of several
// processes ask at random instants in place of a queue, and that Options.Durability
// is refused.
func NewQuorum(nodes []redis.UniversalClient, opts *Options) (*Locker, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if err := o.among(len(nodes)); err != nil {
		return nil, err
	}
	clients, err := quorumClients(nodes)
	if err != nil {
		return nil, err
	}
	b := newQuorumBackend(&o, newClock())
	for _, c := range clients {
		ask := newRedisBackend(c)
		n := b.add(c.Options().Addr, ask)
		n.rdb = c
		n.gate.dials = passOnCommands(c).Load
		n.gate.who = func(ctx context.Context) (identity, error) { return ask.whoIs(ctx, c) }
	}
	return newLocker(b, o, b.now), nil
}

// quorumBackend asks a majority of several nodes.
type quorumBackend struct {
	nodes []*node
	need  int // how many are a majority
	keep  int // how many a lock needs to go on
	lossy int
	wait  time.Duration // of a node that has restarted
	ttl   time.Duration // the longest lease
	now   clock
	log   *slog.Logger
	known known

	// The goroutines that go on when a call has its answer.
	mu     sync.Mutex
	closed bool
	stop   chan struct{}
	work   sync.WaitGroup
}

func newQuorumBackend(o *Options, now clock) *quorumBackend {
	return &quorumBackend{lossy: o.Lossy, wait: o.quarantine(), ttl: o.TTL, now: now, log: o.Logger, stop: make(chan struct{})}
}

func (b *quorumBackend) add(name string, ask backend) *node {
	n := &node{b: b, index: len(b.nodes), name: name, ask: ask}
	n.gate = gate{wait: b.wait, now: b.now, told: b.compare, asking: make(chan struct{}, 1), dials: func() uint64 { return 0 }}
	b.nodes = append(b.nodes, n)
	b.need = majority(len(b.nodes), b.lossy)
	b.keep = enough(len(b.nodes), b.lossy)
	return n
}

// spare is how many nodes may be missing.
func (b *quorumBackend) spare() int { return len(b.nodes) - b.need }

// accepts refuses terms that a quorum cannot keep.
func (b *quorumBackend) accepts(t *terms) error {
	if b.wait > 0 && t.ttl > b.ttl {
		return &ArgumentError{Name: "AcquireOptions.TTL", Reason: fmt.Sprintf(
			"is %v, above the %v of Options.TTL, for which a node that restarts does not vote", t.ttl, b.ttl)}
	}
	return nil
}

// listen implements [backend]: nobody is told of anything.
func (*quorumBackend) listen(context.Context, string) (channel, error) {
	return nil, &ConfigError{Need: "a quorum has no channels"}
}

func (*quorumBackend) wakes() hearing { return deaf }

// start announces a goroutine that close waits for. After close there is none:
// what it was for is done on the caller's.
func (b *quorumBackend) start() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.work.Add(1)
	return true
}

func (b *quorumBackend) spawn(f func()) {
	if !b.start() {
		f()
		return
	}
	go func() {
		defer b.work.Done()
		f()
	}()
}

// close ends what goes on in the background, within the time of some commands.
func (b *quorumBackend) close() {
	b.mu.Lock()
	b.closed = true
	close(b.stop)
	b.mu.Unlock()
	b.work.Wait()
}

// compare finds servers that are there under two names, whenever a node has told
// which one it is.
func (b *quorumBackend) compare() {
	first := map[string]*node{}
	for _, n := range b.nodes {
		id := n.gate.identity()
		if id == "" {
			continue
		}
		n.double.Store(nil)
		if o := first[id]; o != nil {
			need := fmt.Sprintf("the nodes of a quorum must be different servers; nodes %d and %d, %s and %s, are one", o.index, n.index, o.name, n.name)
			o.double.Store(&need)
			n.double.Store(&need)
		}
		first[id] = n
	}
}

// known are the newest fences of resources for which this host's clock was
// behind, so that the next proposal is high enough at once.
type known struct {
	mu sync.Mutex
	by map[string]int64 // by counter
}

const maxKnown = 1000

func (k *known) of(key string) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.by[key]
}

// learn remembers fence. Only resources for which the clock was behind are
// worth it.
func (k *known) learn(key string, fence int64, wasBehind bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old, ok := k.by[key]
	switch {
	case fence <= old || !ok && !wasBehind:
		return
	case k.by == nil:
		k.by = make(map[string]int64)
	case !ok && len(k.by) >= maxKnown:
		for other := range k.by {
			delete(k.by, other)
			break
		}
	}
	k.by[key] = fence
}
