package fenced_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

// variable is a store with one value.
type variable interface {
	fencedstore.Claimer
	write(ctx context.Context, f fencedstore.Fence, v int64) error
	read(ctx context.Context) (int64, error)
}

type memRegister struct{ *memstore.Store }

func (r memRegister) write(ctx context.Context, f fencedstore.Fence, v int64) error {
	return r.Write(ctx, f, "v", []byte(strconv.FormatInt(v, 10)))
}

func (r memRegister) read(ctx context.Context) (int64, error) {
	b, err := r.Read(ctx, "v")
	if errors.Is(err, fencedstore.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(b), 10, 64)
}

type pgRegister struct {
	*postgres.Store
	pool *pgxpool.Pool
}

func (r pgRegister) write(ctx context.Context, f fencedstore.Fence, v int64) error {
	_, err := r.Exec(ctx, f, "UPDATE register SET v = $1", v)
	return err
}

func (r pgRegister) read(ctx context.Context) (v int64, err error) {
	return v, r.pool.QueryRow(ctx, "SELECT v FROM register").Scan(&v)
}

func newMemRegister(t *testing.T) variable {
	t.Helper()
	return memRegister{memstore.New()}
}

func newPGRegister(t *testing.T) variable {
	t.Helper()
	url := testenv.Database(t)
	migrateUp(t, url)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for _, statement := range []string{"CREATE TABLE register (v bigint NOT NULL)", "INSERT INTO register VALUES (0)"} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	store, err := postgres.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pgRegister{store, pool}
}

// recorder is a store whose claims are kept in a history.
type recorder struct {
	variable
	h      *history
	client int
}

func (r recorder) Claim(ctx context.Context, f fencedstore.Fence) error {
	return r.h.record(r.client, input{op: "claim", fence: f}, func() (int64, error) { return 0, r.variable.Claim(ctx, f) })
}

// contender is one caller of several.
type contender struct {
	h      *history
	client int
	locker *fencedlock.Locker
	store  variable // nil: there is only the lock
}

// turn acquires, reads, writes and releases. Then it writes once more, as one who
// has not noticed that it has lost the lock.
func (c *contender) turn(ctx context.Context, resource string) (fencedstore.Fence, error) {
	began := c.h.now()
	k, err := c.locker.Acquire(ctx, resource, nil)
	if err != nil {
		return fencedstore.Fence{}, err
	}
	f := k.Fence()
	c.h.keep(c.client, input{op: "acquire", fence: f}, output{answer: done}, began)
	c.use(ctx, f)
	_ = k.Release(ctx)
	c.write(ctx, f)
	return f, nil
}

func (c *contender) use(ctx context.Context, f fencedstore.Fence) {
	if c.store != nil {
		_ = c.h.record(c.client, input{op: "read"}, func() (int64, error) { return c.store.read(ctx) })
	}
	c.write(ctx, f)
}

func (c *contender) write(ctx context.Context, f fencedstore.Fence) {
	if c.store != nil {
		in := input{op: "write", fence: f, value: c.h.now()}
		_ = c.h.record(c.client, in, func() (int64, error) { return 0, c.store.write(ctx, f, in.value) })
	}
}

// contest is several contenders at work on one resource.
type contest struct {
	*history
	any    *contender
	turns  atomic.Int64 // that came to their end
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// A contest has two callers at each of some lockers, so that turns are passed on
// in the process too.
const lockers, callers = 3, 2

// startContest has contenders take turns until end. open makes a Locker whose
// stores are those given.
func startContest(t *testing.T, resource string, store variable, open func(t *testing.T, stores []fencedstore.Claimer) *fencedlock.Locker) *contest {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &contest{history: &history{}, cancel: cancel}
	t.Cleanup(c.end)
	for i := range lockers {
		var stores []fencedstore.Claimer
		if store != nil {
			stores = append(stores, recorder{store, c.history, i * callers})
		}
		locker := open(t, stores)
		for j := range callers {
			one := &contender{h: c.history, client: i*callers + j, locker: locker, store: store}
			c.any = one
			c.wg.Go(func() { c.repeat(ctx, one, resource) })
		}
	}
	return c
}

func (c *contest) repeat(ctx context.Context, one *contender, resource string) {
	for ctx.Err() == nil {
		if _, err := one.turn(ctx, resource); err == nil {
			c.turns.Add(1)
		}
	}
}

// goesOn waits for some more turns.
func (c *contest) goesOn(t *testing.T) {
	t.Helper()
	want := c.turns.Load() + 2*lockers*callers
	testenv.Eventually(t, patience, "they take turns", func() bool { return c.turns.Load() >= want })
}

func (c *contest) end() {
	c.cancel()
	c.wg.Wait()
}

// comeBack has the first holder of all go on, as if nothing had happened since.
func (c *contest) comeBack(t *testing.T) {
	t.Helper()
	for _, call := range c.calls {
		if call.in.op == "acquire" {
			c.any.use(t.Context(), call.in.fence)
			return
		}
	}
}

// newLocker is a Locker on one server or a quorum, with clients of its own.
func newLocker(t *testing.T, addrs []string, stores []fencedstore.Claimer) *fencedlock.Locker {
	t.Helper()
	var clients []redis.UniversalClient
	for _, addr := range addrs {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = rdb.Close() })
		clients = append(clients, rdb)
	}
	opts := &fencedlock.Options{TTL: ttl, Stores: stores}
	locker, err := fencedlock.New(clients[0], opts)
	if len(addrs) > 1 {
		locker, err = fencedlock.NewQuorum(clients, opts)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locker.Close() })
	return locker
}
