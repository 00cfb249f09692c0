package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx", for migrations
	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/migrations/migrate"
)

const (
	ttl = 10 * time.Second // a machine that stands still for as long loses locks, rightly

	freeWorkers    = 8
	guardedWorkers = 8
	waitingWorkers = 16
	namesEach      = 32 // resources of a free worker, in turn
	contended      = 4  // resources that are waited for
	heldLocks      = 1000
)

// load is everything that works.
type load struct {
	pool    *pgxpool.Pool
	store   *postgres.Store
	rdb     *redis.Client
	alone   *fencedlock.Locker    // free, guarded and held
	crowd   [2]*fencedlock.Locker // waiting
	held    []*fencedlock.Lock
	places  [contended]place
	free    [freeWorkers]int // the next name of a worker
	commits atomic.Int64
	stalls  atomic.Int64 // locks that were lost because the machine stood still
	inside  func()       // is called within every contended tenure, unless it is nil
	closers []func() error
}

// place is a resource that is waited for.
type place struct {
	inside atomic.Int32
	newest atomic.Int64
}

var errOrder = errors.New("two tenures overlap, or their fences do not rise")

// open connects and makes the tables. What it opens is closed by close, also
// after an error.
func (l *load) open(ctx context.Context, redisAddr, url string) error {
	if err := prepare(ctx, url); err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = guardedWorkers
	if l.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	l.closers = append(l.closers, func() error { l.pool.Close(); return nil })
	if l.store, err = postgres.New(l.pool, nil); err != nil {
		return err
	}
	l.rdb = l.client(redisAddr)
	for _, locker := range []**fencedlock.Locker{&l.alone, &l.crowd[0], &l.crowd[1]} {
		if *locker, err = fencedlock.New(l.client(redisAddr), &fencedlock.Options{TTL: ttl}); err != nil {
			return err
		}
		l.closers = append(l.closers, (*locker).Close)
	}
	return l.hold(ctx)
}

func (l *load) client(addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	l.closers = append(l.closers, rdb.Close)
	return rdb
}

func prepare(ctx context.Context, url string) (err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := migrate.Up(ctx, db); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf(`
		DROP TABLE IF EXISTS counter;
		CREATE TABLE counter (id int PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 50);
		INSERT INTO counter SELECT id, 0 FROM generate_series(0, %d) id`, guardedWorkers-1))
	return err
}

// hold acquires what is only renewed.
func (l *load) hold(ctx context.Context) error {
	for i := range heldLocks {
		k, err := l.alone.Acquire(ctx, fmt.Sprintf("held/%d", i), nil)
		if err != nil {
			return err
		}
		l.held = append(l.held, k)
	}
	return nil
}

func (l *load) kinds() []kind {
	return []kind{
		{"free", freeWorkers, l.takeFree},
		{"guarded", guardedWorkers, l.takeGuarded},
		{"waiting", waitingWorkers, l.takeContended},
	}
}

func (l *load) takeFree(ctx context.Context, worker int) error {
	l.free[worker] = (l.free[worker] + 1) % namesEach
	k, err := l.alone.Acquire(ctx, fmt.Sprintf("free/%d/%d", worker, l.free[worker]), nil)
	if err != nil {
		return err
	}
	return k.Release(ctx)
}

func (l *load) takeGuarded(ctx context.Context, worker int) error {
	opts := &fencedlock.AcquireOptions{Stores: []fencedstore.Claimer{l.store}}
	return l.alone.Do(ctx, fmt.Sprintf("guarded/%d", worker), opts, func(ctx context.Context, f fencedstore.Fence) error {
		err := l.store.InTx(ctx, f, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE counter SET n = n + 1 WHERE id = $1", worker)
			return err
		})
		if err == nil {
			l.commits.Add(1)
		}
		return err
	})
}

// firstLease is what a waiter has that was granted the lock, until it has said
// that it is there; a little is taken off for the margin of a lease.
const firstLease = 490 * time.Millisecond

// takeContended does not count a lock as an error that ended because its holder
// got no CPU for as long as a first lease. One that ended sooner is an error.
func (l *load) takeContended(ctx context.Context, worker int) error {
	began := time.Now()
	err := l.tenure(ctx, worker)
	if errors.Is(err, fencedlock.ErrLost) && !errors.Is(err, errOrder) && time.Since(began) >= firstLease {
		l.stalls.Add(1)
		return nil
	}
	return err
}

func (l *load) tenure(ctx context.Context, worker int) error {
	n := worker / len(l.crowd) % contended
	k, err := l.crowd[worker%len(l.crowd)].Acquire(ctx, fmt.Sprintf("waiting/%d", n), nil)
	if err != nil {
		return err
	}
	id := k.Fence().ID
	p := &l.places[n]
	if p.inside.Add(1) != 1 || p.newest.Swap(id) >= id {
		err = errOrder
	}
	if l.inside != nil {
		l.inside()
	}
	p.inside.Add(-1)
	return errors.Join(err, k.Release(ctx))
}

// settle compares what is left with what should be.
func (l *load) settle(ctx context.Context) error {
	var errs []error
	for _, k := range l.held {
		errs = append(errs, k.Release(ctx))
	}
	var n int64
	if err := l.pool.QueryRow(ctx, "SELECT sum(n) FROM counter").Scan(&n); err != nil {
		errs = append(errs, err)
	} else if n != l.commits.Load() {
		errs = append(errs, fmt.Errorf("%d writes were acknowledged, %d are there", l.commits.Load(), n))
	}
	return errors.Join(errs...)
}

// close closes in reverse, so that a Locker goes before its client.
func (l *load) close() error {
	var errs []error
	for _, c := range slices.Backward(l.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
