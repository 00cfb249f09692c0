package fencedlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// slots is how many round trips a combiner has under way at once. With two,
	// one is on its way while the server works on the other.
	slots = 2
	// maxShared bounds the commands that share a round trip.
	maxShared = 256
)

// combiner has callers share round trips. One who finds a free slot sends its
// own command, which costs a mutex more than without. When all are busy commands
// gather, and one of the callers sends all of them when a slot is handed on: no
// goroutine, no timer that delays, nobody waits for company.
type combiner struct {
	mu      sync.Mutex
	busy    int
	waiting []*rider
}

// rider is one command that waits to share a round trip.
type rider struct {
	call                // a copy: who leaves may use its own again
	at    time.Time     // when its caller leaves
	done  chan struct{} // has room for one
	timer *time.Timer

	// Guarded by the combiner's mutex.
	taken bool
	batch []*rider // of the one who sends it

	reply string
	err   error
}

// combinerOf is that of the server which c goes to: a node that does not answer must
// not hold up those who ask another. It is nil where that is not known.
func (b *redisBackend) combinerOf(ctx context.Context, c *call) *combiner {
	if b.own {
		return &b.combiner
	}
	cluster, ok := b.rdb.(*redis.ClusterClient)
	if !ok {
		return nil
	}
	node, err := cluster.MasterForKey(ctx, c.keys.lock)
	if err != nil {
		return nil
	}
	addr := node.Options().Addr
	m, ok := b.byNode.Load(addr)
	if !ok {
		m, _ = b.byNode.LoadOrStore(addr, new(combiner))
	}
	found, _ := m.(*combiner)
	return found
}

// runShared is run, in company when many call at once.
func (b *redisBackend) runShared(ctx context.Context, m *combiner, c *call) (string, error) {
	m.mu.Lock()
	if m.busy < slots {
		m.busy++
		m.mu.Unlock()
		defer m.next()
		return b.run(ctx, c, false)
	}
	r, _ := riders.Get().(*rider)
	r.call = *c
	r.at, _ = ctx.Deadline()
	m.waiting = append(m.waiting, r)
	m.mu.Unlock()
	if err := m.wait(ctx, r); err != nil {
		return "", err
	}
	if r.batch != nil {
		if err := b.send(ctx, m, r.batch); err != nil {
			return "", err
		}
	}
	reply, err := r.reply, r.err
	*r = rider{done: r.done, timer: r.timer}
	riders.Put(r)
	return reply, err
}

// riders are at rest: answered, and nobody knows them any more. One that was
// left while its command was under way never comes back here.
var riders = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &rider{done: make(chan struct{}, 1), timer: t}
}}

// wait returns when the command is answered, or is to be sent by the caller with
// its batch. An error is that of a caller that left.
func (m *combiner) wait(ctx context.Context, r *rider) error {
	r.timer.Reset(time.Until(r.at))
	defer r.timer.Stop()
	err := context.DeadlineExceeded
	select {
	case <-r.done:
		return nil
	case <-r.timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case r.batch != nil: // the others count on it
		<-r.done
		return nil
	case r.taken:
		return &faultError{err: err, ran: true}
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(o *rider) bool { return o == r })
	return err // as go-redis says that nothing was sent
}

// next hands the slot on to those who have gathered, or frees it. The one who
// has the most time sends, so that nobody is kept longer than it wants.
func (m *combiner) next() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		m.busy--
		return
	}
	n := min(len(m.waiting), maxShared)
	batch := slices.Clone(m.waiting[:n])
	m.waiting = slices.Delete(m.waiting, 0, n)
	sender := batch[0]
	for _, r := range batch {
		r.taken = true
		if r.at.After(sender.at) {
			sender = r
		}
	}
	sender.batch = batch
	sender.done <- struct{}{}
}

// send runs a batch and hands the slot on. A client that cannot be made to honour a
// deadline is left behind with the batch when the sender's is over: the slot is not
// kept for it.
func (b *redisBackend) send(ctx context.Context, m *combiner, batch []*rider) error {
	defer m.next()
	if b.own {
		b.runBatch(ctx, batch)
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.runBatch(ctx, batch)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return &faultError{err: ctx.Err(), ran: true}
	}
}

// runBatch runs a batch in one round trip. ctx is the sender's, of which neither the
// end nor an earlier one of another's fails the batch.
func (b *redisBackend) runBatch(ctx context.Context, batch []*rider) {
	at, _ := ctx.Deadline()
	ctx = &callContext{Context: ctx, at: at, free: true}
	p := b.rdb.Pipeline()
	cmds := make([]*redis.StringCmd, len(batch))
	for i, r := range batch {
		cmds[i] = redis.NewStringCmd(ctx, r.command(false)...) //nolint:contextcheck // callContext is derived from ctx
		_ = p.Process(ctx, cmds[i])                            //nolint:contextcheck // callContext is derived from ctx
	}
	if len(batch) == 1 {
		_ = b.rdb.Process(ctx, cmds[0]) //nolint:contextcheck // callContext is derived from ctx
	} else {
		_, _ = p.Exec(ctx) //nolint:contextcheck // callContext is derived from ctx
	}
	for i, r := range batch {
		r.reply, r.err = cmds[i].Result()
		if r.batch == nil {
			r.done <- struct{}{}
		}
	}
}
