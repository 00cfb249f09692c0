package postgres_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// trips counts round trips on the wire: writes that follow a read.
type trips struct {
	mu    sync.Mutex
	wrote bool
	n     int
}

func (c *trips) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	return tripConn{conn, c}, err
}

type tripConn struct {
	net.Conn
	c *trips
}

func (t tripConn) Write(b []byte) (int, error) {
	t.c.mu.Lock()
	if !t.c.wrote {
		t.c.n++
	}
	t.c.wrote = true
	t.c.mu.Unlock()
	return t.Conn.Write(b)
}

func (t tripConn) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	if n > 0 {
		t.c.mu.Lock()
		t.c.wrote = false
		t.c.mu.Unlock()
	}
	return n, err
}

// of counts the round trips of call, which ran once before so that the
// connection knows its statements.
func (c *trips) of(tb testing.TB, call func() error) int {
	tb.Helper()
	for range 2 {
		c.mu.Lock()
		c.n = 0
		c.mu.Unlock()
		if err := call(); err != nil {
			tb.Fatal(err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func noPing(c *pgxpool.Config) {
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
}

func TestGuardAddsNoRoundTrip(t *testing.T) {
	t.Parallel()
	url := database(t)
	for _, mode := range execModes {
		var wire trips
		pool := openPool(t, url, maxConns(1), execMode(mode), noPing,
			func(c *pgxpool.Config) { c.ConnConfig.DialFunc = wire.dial })
		s := newStore(t, pool, nil)
		f := claimed(t, s, mode.String(), 1)
		ctx := fencedstore.NewContext(t.Context(), f)
		update := func(tx interface {
			Exec(ctx context.Context, sql string, args ...any) (tag, error)
		},
		) error {
			_, err := tx.Exec(ctx, upsert, []byte("k"), []byte("v"))
			return err
		}
		guarded := wire.of(t, func() error { return s.InTx(ctx, f, func(tx pgx.Tx) error { return update(tx) }) })
		bare := wire.of(t, func() error { return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return update(tx) }) })
		statement := wire.of(t, func() error { return update(pool) })
		describe := 0
		if mode == pgx.QueryExecModeDescribeExec {
			describe = 1 // of the guard, which BEGIN alone does not need
		}
		if guarded != bare+describe || bare != 2+statement {
			t.Errorf("%v: InTx takes %d round trips, an unguarded transaction %d, its statement %d", mode, guarded, bare, statement)
		}
		for name, call := range map[string]func() error{
			"Claim":     func() error { return s.Claim(ctx, f) },
			"Exec":      func() error { _, err := s.Exec(ctx, f, upsert, []byte("k"), []byte("v")); return err },
			"SendBatch": func() error { b := &pgx.Batch{}; b.Queue("select 1"); return s.SendBatch(ctx, f, b) },
			"Repo":      func() error { var n int; return s.Repo().QueryRow(ctx, "select 1").Scan(&n) },
		} {
			if got := wire.of(t, call); got != statement {
				t.Errorf("%v: %s takes %d round trips, a bare statement %d", mode, name, got, statement)
			}
		}
	}
}

func TestOneConnectionIsEnough(t *testing.T) {
	t.Parallel()
	url := database(t)
	for _, conns := range []int32{1, 4} {
		pool := openPool(t, url, maxConns(conns))
		s := newStore(t, pool, nil)
		f := claimed(t, s, "r", int64(conns))
		ctx, cancel := context.WithTimeout(fencedstore.NewContext(t.Context(), f), within)
		defer cancel()
		inside := make(chan struct{}, conns)
		errs := make(chan error, conns)
		for range conns {
			go func() { errs <- useEverything(ctx, s, f, inside, int(conns)) }()
		}
		for range conns {
			if err := <-errs; err != nil {
				t.Errorf("%d connections: %v", conns, err)
			}
		}
	}
}

// useEverything makes each call once, with all callers inside a transaction at
// the same time.
func useEverything(ctx context.Context, s *postgres.Store, f fencedstore.Fence, inside chan struct{}, n int) error {
	err := s.InTx(ctx, f, func(tx pgx.Tx) error {
		inside <- struct{}{}
		for len(inside) < n {
			if _, err := tx.Exec(ctx, "select pg_sleep(0.001)"); err != nil {
				return err
			}
		}
		return postgres.Guard(ctx, tx, f)
	})
	if err != nil {
		return err
	}
	var one int
	_, exec := s.Exec(ctx, f, "select 1")
	_, copied := s.Repo().CopyFrom(ctx, pgx.Identifier{"kv"}, []string{"key"}, pgx.CopyFromRows(nil))
	for _, err := range []error{
		exec, copied, s.Claim(ctx, f), s.Check(ctx), s.SendBatch(ctx, f, &pgx.Batch{}),
		s.Repo().QueryRow(ctx, "select 1").Scan(&one),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}
