package fenced_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

// workerEnv makes this test binary a worker, with a setup as JSON.
const workerEnv = "FENCED_TEST_WORKER"

// resource is what the workers of one test contend for; each test has servers of
// its own.
const resource = "integration/counter"

// setup is what a worker works with.
type setup struct {
	Name            string
	Redis, Postgres string // address, URL
	TTL, RenewEvery time.Duration
}

// order is one thing that a test tells a worker to do.
type order struct {
	Op string
	N  int
}

// result is what became of it.
type result struct {
	Fence int64
	N     int
	Err   string
	Is    []string // what the error matches
	Code  string   // the error's SQLSTATE: the database itself said it
}

func (r result) is(kind string) bool { return slices.Contains(r.Is, kind) }

var kinds = map[string]error{
	"stale": fencedstore.ErrStale, "unknown": fencedstore.ErrUnknownOutcome,
	"lost": fencedlock.ErrLost, "held": fencedlock.ErrHeld, "unavailable": fencedlock.ErrUnavailable,
}

func (r *result) fail(err error) {
	if err == nil {
		return
	}
	r.Err = err.Error()
	for name, kind := range kinds {
		if errors.Is(err, kind) {
			r.Is = append(r.Is, name)
		}
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		r.Code = pg.Code
	}
}

// worker is a process that does what the test says, an order at a time.
type worker struct {
	*testenv.Process
	name    string
	orders  *json.Encoder
	results chan result
}

func startWorker(tb testing.TB, s setup) *worker {
	tb.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		tb.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	in, orders := pipe(tb)
	results, out := pipe(tb)
	cmd := exec.CommandContext(tb.Context(), self)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(b))
	cmd.Stdin, cmd.Stdout = in, out
	w := &worker{name: s.Name, orders: json.NewEncoder(orders), results: make(chan result)}
	w.Process = testenv.Start(tb, cmd)
	_, _ = in.Close(), out.Close() // they are the process's now
	go func() {
		defer close(w.results)
		for d := json.NewDecoder(results); ; {
			var r result
			if d.Decode(&r) != nil {
				return
			}
			w.results <- r
		}
	}()
	return w
}

func pipe(tb testing.TB) (r, w *os.File) {
	tb.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// tell gives an order. A worker that is paused finds it when it wakes up.
func (w *worker) tell(tb testing.TB, op string, n int) {
	tb.Helper()
	if err := w.orders.Encode(order{op, n}); err != nil {
		tb.Fatalf("%s: %s: %v", w.name, op, err)
	}
}

// hear waits for the result of the oldest order.
func (w *worker) hear(tb testing.TB) result {
	tb.Helper()
	select {
	case r, ok := <-w.results:
		if !ok {
			tb.Fatalf("%s has ended: %s", w.name, w.Output())
		}
		return r
	case <-time.After(patience):
		tb.Fatalf("%s does not answer: %s", w.name, w.Output())
		return result{}
	}
}

func (w *worker) ask(tb testing.TB, op string, n int) result {
	tb.Helper()
	w.tell(tb, op, n)
	return w.hear(tb)
}

// must is ask for what has to succeed.
func (w *worker) must(tb testing.TB, op string, n int) result {
	tb.Helper()
	r := w.ask(tb, op, n)
	if r.Err != "" {
		tb.Fatalf("%s: %s %d: %s", w.name, op, n, r.Err)
	}
	return r
}

// runWorker is main of a worker process.
func runWorker(spec string) {
	var s setup
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		panic(err)
	}
	h, err := newHolder(s)
	if err != nil {
		panic(err)
	}
	orders, results := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			panic(err)
		}
		var r result
		h.between = func() { // tells that it is half-way and waits for the next order
			_ = results.Encode(result{})
			_ = orders.Decode(&order{})
		}
		r.fail(h.do(o, &r))
		_ = results.Encode(r)
	}
}

// holder is the inside of a worker.
type holder struct {
	setup
	locker  *fencedlock.Locker
	store   *postgres.Store
	between func()

	lock     *fencedlock.Lock
	ctx      context.Context // of the lock
	leaseEnd time.Time       // no sooner does the lease in Redis end, unless it is renewed
}

func newHolder(s setup) (*holder, error) {
	pool, err := pgxpool.New(context.Background(), s.Postgres)
	if err != nil {
		return nil, err
	}
	h := &holder{setup: s}
	if h.store, err = postgres.New(pool, nil); err != nil {
		return nil, err
	}
	h.locker, err = fencedlock.New(redis.NewClient(&redis.Options{Addr: s.Redis}), &fencedlock.Options{
		TTL: s.TTL, RenewEvery: s.RenewEvery, Label: s.Name, Stores: []fencedstore.Claimer{h.store},
	})
	return h, err
}

func (h *holder) do(o order, r *result) (err error) {
	switch o.Op {
	case "acquire":
		return h.acquire(r)
	case "get":
		r.N, err = h.get()
		return err
	case "set":
		return h.set(o.N)
	case "check, then set":
		if err := h.lock.Err(); err != nil {
			return err
		}
		h.between()
		return h.set(o.N)
	case "err":
		return h.lock.Err()
	case "wait":
		return h.wait(r)
	case "release":
		return h.lock.Release(context.Background())
	case "count":
		return h.count(o.N)
	}
	return fmt.Errorf("unknown order %q", o.Op)
}

func (h *holder) acquire(r *result) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	before := time.Now()
	if h.lock, err = h.locker.Acquire(ctx, resource, nil); err != nil {
		return err
	}
	h.leaseEnd = before.Add(h.TTL)
	h.ctx, _ = h.lock.Context(context.Background())
	r.Fence = h.lock.Fence().ID
	return nil
}

// stubborn is the lock's context without its end: of a holder that does not look
// at it, or has not had the time to.
func (h *holder) stubborn() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(h.ctx), patience)
}

func (h *holder) get() (n int, err error) {
	ctx, cancel := h.stubborn()
	defer cancel()
	err = h.store.Repo().QueryRow(ctx, "SELECT n FROM counter").Scan(&n)
	return n, err
}

func (h *holder) set(n int) error {
	ctx, cancel := h.stubborn()
	defer cancel()
	return h.store.InTx(ctx, h.lock.Fence(), func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE counter SET n = $1", n)
		return err
	})
}

// wait waits for the end of the lock's context, which is its error. N is 1 when
// the context ended before the lease, by timers of the same process.
func (h *holder) wait(r *result) error {
	end := time.NewTimer(time.Until(h.leaseEnd))
	defer end.Stop()
	select {
	case <-h.ctx.Done():
		r.N = 1
	case <-end.C:
		if h.ctx.Err() != nil { // both are there, and select picks any
			r.N = 1
		}
		if h.lock.Err() == nil {
			return errors.New("the lock says that it is held, and the lease has ended")
		}
		<-h.ctx.Done()
	}
	return context.Cause(h.ctx)
}
