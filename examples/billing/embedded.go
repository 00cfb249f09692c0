package main

import (
	"context"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/examples/billing/internal/ledger"
	"github.com/fenced-go/fenced/examples/billing/internal/nightly"
	"github.com/fenced-go/fenced/fencedlock/locktest"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
)

// embedded is a stage in this process: workers are goroutines, each with a Redis
// client of its own.
type embedded struct {
	cfg    config
	server *locktest.Server
	store  *memstore.Store
	ledger *ledger.Memory
	admin  fencedstore.Fence // for setting up and for counting
}

func newEmbedded(ctx context.Context, cfg config) (*embedded, error) {
	server, err := locktest.NewServer()
	if err != nil {
		return nil, err
	}
	e := &embedded{cfg: cfg, server: server, store: memstore.New()}
	e.admin = fencedstore.Fence{Resource: "examples/billing/admin", ID: 1, Holder: fencedstore.NewHolder()}
	e.ledger = ledger.NewMemory(e.store)
	if cfg.unsafe {
		e.ledger = ledger.NewUnguardedMemory()
	}
	if err := e.store.Claim(ctx, e.admin); err != nil {
		return nil, err
	}
	return e, e.ledger.OpenAccounts(fencedstore.NewContext(ctx, e.admin), int64(cfg.accounts))
}

func (e *embedded) describe() string {
	const stall = "A stall stops a goroutine and everything its client sends."
	if e.cfg.unsafe {
		return "UNSAFE: in-process Redis locked by GET, then SET; a map that checks no fence and has\nno unique constraint. " + stall
	}
	return "In-process Redis, fenced store in memory. " + stall
}

func (e *embedded) start(ctx context.Context, n int, stallAt int64, tell func(event)) (actor, error) {
	g := &goroutine{awake: make(chan struct{})}
	rdb := redis.NewClient(&redis.Options{Addr: e.server.Addr(), Dialer: g.dial})
	locks, err := newLocks(rdb, n, e.cfg.ttl, e.cfg.unsafe, e.store.Handle())
	if err != nil {
		return nil, err
	}
	observe := func(step nightly.Event) { tell(event{n, step}) }
	job := &nightly.Job{
		Locks: locks, Ledger: e.ledger, Observe: observe,
		Price: stalling(stallAt, observe, g.awake, ctx.Done()),
	}
	go func() {
		defer observe(nightly.Event{Kind: ended})
		defer func() { _ = rdb.Close() }()
		defer func() { _ = locks.Close() }()
		_ = serve(ctx, job) // was told
	}()
	return g, nil
}

func (e *embedded) audit(ctx context.Context) (ledger.Audit, error) {
	return e.ledger.Audit(fencedstore.NewContext(ctx, e.admin))
}

func (e *embedded) close(context.Context) { e.server.Close() }

// goroutine is a worker that stands still like a paused process: it does
// nothing, and what it sends stays where it is and goes out late.
type goroutine struct {
	awake  chan struct{}
	line   sync.RWMutex // locked while nothing goes out
	frozen bool
}

func (g *goroutine) freeze() error {
	g.line.Lock()
	g.frozen = true
	return nil
}

// thaw may be called again, and without a freeze.
func (g *goroutine) thaw() error {
	if g.frozen {
		g.frozen = false
		g.line.Unlock()
		close(g.awake)
	}
	return nil
}

// dial connects the worker's Redis client.
func (g *goroutine) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return wire{conn, &g.line}, err
}

type wire struct {
	net.Conn
	line *sync.RWMutex
}

func (w wire) Write(b []byte) (int, error) {
	w.line.RLock()
	defer w.line.RUnlock()
	return w.Conn.Write(b)
}
