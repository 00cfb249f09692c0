package fencedlock

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// gate keeps a node from voting that has restarted and may have come back empty.
// A server that restarts breaks every connection to it, so that it is enough to
// ask who it is after each new one; an acquire over old ones costs nothing.
type gate struct {
	dials func() uint64 // how many connections were made so far
	who   func(ctx context.Context) (identity, error)
	wait  time.Duration // after its start, until it votes
	now   clock
	told  func() // is called when the server has told who it is; may be nil

	asking chan struct{} // has room for one: who may ask

	mu      sync.Mutex
	asked   bool
	checked uint64        // how many connections there were when it was asked
	id      string        // of the incarnation that answered
	ripe    time.Duration // from when it votes, by the monotonic clock
	heard   time.Duration // when the last answer of it came
}

// identity is which incarnation of a server answers.
type identity struct {
	id string
	up time.Duration
}

// quarantineError is why a node does not vote.
type quarantineError struct{ left time.Duration }

func (e *quarantineError) Error() string {
	return fmt.Sprintf("it has restarted, may have forgotten what it promised, and votes in %v", e.left.Round(time.Millisecond))
}

// open returns nil when a vote that was asked for at the given instant counts.
// Before a vote is asked for it is called with the present, and again when the
// vote is there: the question may have gone over a new connection.
func (g *gate) open(ctx context.Context, at time.Duration) error {
	fresh, ripe := g.known()
	if !fresh {
		var err error
		if ripe, err = g.look(ctx); err != nil {
			return err
		}
	}
	if at < ripe {
		return &quarantineError{ripe - at}
	}
	return nil
}

func (g *gate) known() (fresh bool, ripe time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked && g.checked == g.dials(), g.ripe
}

// look asks the server who it is, one caller at a time. Asking may take a new
// connection itself, so that it looks twice then.
func (g *gate) look(ctx context.Context) (ripe time.Duration, err error) {
	ctx, cancel := firing(ctx)
	defer cancel()
	select {
	case g.asking <- struct{}{}:
		defer func() { <-g.asking }()
	case <-ctx.Done():
		return 0, &faultError{err: ctx.Err()}
	}
	for range 3 {
		if fresh, ripe := g.known(); fresh {
			return ripe, nil
		}
		before := g.dials()
		who, err := g.who(ctx)
		if err != nil {
			return 0, err
		}
		g.learn(who, before)
		if g.told != nil {
			g.told()
		}
	}
	_, ripe = g.known()
	return ripe, nil
}

// learn takes note of who answered over a connection that was there when their
// number was dials. The age of a server is what it tells, by a wall clock that may
// have been set since; but no more than the time since its predecessor was heard.
func (g *gate) learn(who identity, dials uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now().mono
	if who.id != g.id {
		age := who.up
		if g.id != "" {
			age = min(age, now-g.heard)
		}
		g.id, g.ripe = who.id, now+max(g.wait-max(age, 0), 0)
		if g.wait == 0 {
			g.ripe = 0
		}
	}
	g.asked, g.checked, g.heard = true, dials, now
}

// hear takes note that the node has answered.
func (g *gate) hear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked && g.checked == g.dials() {
		g.heard = g.now().mono
	}
}

func (g *gate) identity() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.id
}

const needInfo = "a quorum needs the command info, which tells whether a node has restarted"

// whoIs asks a server by INFO.
func (b *redisBackend) whoIs(ctx context.Context, c *redis.Client) (identity, error) {
	text, err := c.Info(ours{ctx}, "server").Result() //nolint:contextcheck // it is derived from ctx
	if err != nil {
		err = b.explain(err)
		if asFault(err) == nil {
			err = &ConfigError{Need: needInfo, Err: err}
		}
		return identity{}, err
	}
	id, seconds := infoField(text, "run_id"), infoField(text, "uptime_in_seconds")
	up, err := strconv.ParseInt(seconds, 10, 64)
	if id == "" || err != nil {
		return identity{}, &ConfigError{Need: "the nodes of a quorum must tell run_id and uptime_in_seconds in INFO, one does not"}
	}
	return identity{id: id, up: time.Duration(min(up, int64(MaxTTL/time.Second)*365)) * time.Second}, nil
}
