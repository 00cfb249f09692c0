package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/examples/billing/internal/ledger"
	"github.com/fenced-go/fenced/examples/billing/internal/nightly"
	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

const (
	// prefix begins every key of the example in Redis.
	prefix     = "billing-example:"
	maxRuns    = 5
	retryAfter = time.Second
	// centsPerUnit is the whole tariff.
	centsPerUnit = 3
)

// work is one worker of the service: it connects, and bills the night.
func work(ctx context.Context, j job, observe func(nightly.Event), price priceFunc) error {
	if j.Mode != modeLock {
		return workLockless(ctx, j, observe, price)
	}
	opts, err := redis.ParseURL(j.Redis)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	defer func() { _ = rdb.Close() }()
	cfg, err := poolConfig(j.Postgres)
	if err != nil {
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := fencedpg.New(pool, nil)
	if err != nil {
		return err
	}
	if err := store.Check(ctx); err != nil { // is the schema there, are the rights?
		return err
	}
	var statements files
	stores := []fencedstore.Claimer{store}
	if j.S3 != "" {
		if statements, err = openFiles(ctx, j.S3, j.Unsafe); err != nil {
			return err
		}
		if fenced, ok := statements.(fencedFiles); ok {
			stores = append(stores, fenced.store)
		}
	}
	locks, err := newLocks(rdb, j.N, j.TTL, j.Unsafe, stores...)
	if err != nil {
		return err
	}
	defer func() { _ = locks.Close() }()
	n := &nightly.Job{Locks: locks, Ledger: ledger.NewPostgres(store), Observe: observe, Price: price}
	if j.Unsafe {
		n.Ledger = ledger.NewUnguarded(pool)
	}
	if statements != nil {
		n.Ledger = withStatements{n.Ledger, statements, observe}
	}
	return serve(ctx, n)
}

// lockCloser is a *fencedlock.Locker, or what many have instead.
type lockCloser interface {
	nightly.Locks
	io.Closer
}

// newLocks makes the locks of worker n. Every lock is claimed at all stores before
// the worker learns that it has it.
func newLocks(rdb *redis.Client, n int, ttl time.Duration, unsafe bool, stores ...fencedstore.Claimer) (lockCloser, error) {
	if unsafe {
		return &naiveLock{rdb, ttl}, nil
	}
	return fencedlock.New(rdb, &fencedlock.Options{
		TTL:    ttl,
		Prefix: prefix,
		Label:  fmt.Sprint("worker ", n),
		Stores: stores,
	})
}

// serve runs the job until it is done. What a lost lock, or an outage of Redis
// or Postgres, left undone the next run takes up: the ledger knows what has been
// billed. Only a worker that was refused leaves the rest to its successor.
func serve(ctx context.Context, job interface {
	Run(ctx context.Context, night time.Time) error
},
) error {
	for run := 1; ; run++ {
		err := job.Run(ctx, night)
		if err == nil || errors.Is(err, fencedstore.ErrStale) || run == maxRuns {
			return err
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return err
		}
	}
}

type priceFunc func(ctx context.Context, a ledger.Account) (int64, error)

func price(_ context.Context, a ledger.Account) (int64, error) { return a.Usage * centsPerUnit, nil }

// stalling is price with a stall at one account: the place between reading an
// account and writing its invoice. It tells of the stall and ends it on awake.
// Nothing else ends it but done, the end of the whole worker: a worker that
// stands still does not notice that it lost its lock.
func stalling(at int64, observe func(nightly.Event), awake, done <-chan struct{}) priceFunc {
	return func(ctx context.Context, a ledger.Account) (int64, error) {
		if a.ID == at {
			f, _ := fencedstore.FromContext(ctx) // none in the unsafe story
			observe(nightly.Event{Kind: stalled, Fence: f.ID, Account: a.ID})
			select {
			case <-awake:
			case <-done:
				return 0, context.Canceled
			}
		}
		return price(ctx, a)
	}
}

// runWorker is main of a worker process, see startProcess.
func runWorker(ctx context.Context, _ []string, stdout, stderr io.Writer) int {
	var j job
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &j); err != nil {
		complain(stderr, err)
		return exitFailed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := json.NewEncoder(stdout)
	told := func(e nightly.Event) { _ = lines.Encode(e) }
	awake := make(chan struct{})
	go func() {
		defer cancel()
		in := bufio.NewReader(os.Stdin)
		if _, err := in.ReadString('\n'); err == nil {
			close(awake)
		}
		_, _ = io.Copy(io.Discard, in)
	}()
	err := work(ctx, j, told, stalling(j.StallAt, told, awake, ctx.Done()))
	if err == nil || errors.Is(err, fencedstore.ErrStale) || ctx.Err() != nil {
		return 0
	}
	complain(stderr, fmt.Errorf("worker %d: %w", j.N, err))
	return exitFailed
}
