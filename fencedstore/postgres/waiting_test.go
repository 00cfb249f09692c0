package postgres_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

// sharing is the simple design, which locks the row of the fence.
type sharing struct{ pool *pgxpool.Pool }

func newSharing(tb testing.TB, pool *pgxpool.Pool) sharing {
	tb.Helper()
	run(tb, pool, "create table naive (resource text primary key, fence_id bigint); insert into naive values ('r', 1)")
	return sharing{pool}
}

func (s sharing) begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, "select from naive where resource = 'r' for share")
	return tx, err
}

func (s sharing) work(ctx context.Context) error {
	b := &pgx.Batch{}
	b.Queue("select from naive where resource = 'r' for share")
	b.Queue("select pg_sleep(0.005)")
	return s.pool.SendBatch(ctx, b).Close()
}

func (s sharing) claim(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, "update naive set fence_id = fence_id + 1 where resource = 'r'")
	return err
}

// A row lock that is shared lets newcomers pass those who wait to write it, so
// that one transaction after the other keeps a claim waiting.
func TestSharedRowLockLetsNewcomersPassAWaitingClaim(t *testing.T) {
	t.Parallel()
	_, pool := setUp(t)
	naive := newSharing(t, pool)
	older, err := naive.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- naive.claim(t.Context()) }()
	untilWaiting(t, pool)
	for range 10 {
		later, err := naive.begin(t.Context()) // passes the claim
		if err != nil {
			t.Fatal(err)
		}
		if err := older.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		older = later
		select {
		case err := <-done:
			t.Fatalf("FOR SHARE let the claim through: %v", err)
		default:
		}
	}
	if err := errors.Join(older.Commit(t.Context()), <-done); err != nil {
		t.Fatal(err)
	}
}

// The guard queues behind the claim.
func TestGuardDoesNotOvertakeAWaitingClaim(t *testing.T) {
	t.Parallel()
	const guards = 10
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	patient := newStore(t, pool, &postgres.Options{LockTimeout: within})
	holder := stuck(t, pool, f)
	done := make(chan error, 1)
	go func() { done <- patient.Claim(t.Context(), f) }()
	untilQueued(t, pool, 1)
	behind := make(chan error, guards)
	for range guards {
		go func() { _, err := s.Exec(t.Context(), f, "select 1"); behind <- err }()
	}
	untilQueued(t, pool, 1+guards)
	if len(behind) != 0 {
		t.Error("a guard passed the claim")
	}
	if err := errors.Join(holder.Commit(t.Context()), <-done); err != nil {
		t.Fatal(err)
	}
	for range guards {
		if err := <-behind; err != nil {
			t.Error(err)
		}
	}
}

// Behind 16 connections of 5 ms transactions a claim waits for those that it
// finds, not for those that follow. Both designs run in one test, on the same
// server; what is compared is how many transactions end while a claim waits. A
// busy machine leaves gaps in the traffic through which some claims of the
// simple design get at once: it has more tries.
func TestClaimWaitsForWhatItFindsAndNotForTraffic(t *testing.T) {
	t.Parallel()
	const (
		conns = 16
		bound = 3 * conns // those that it found, and those whose end was counted late
		far   = 3 * bound
	)
	url := database(t)
	traffic := openPool(t, url, maxConns(conns))
	watch := openPool(t, url, maxConns(4))
	f := claimed(t, newStore(t, watch, nil), "r", 1)
	naive, ours := newSharing(t, traffic), newStore(t, traffic, nil)
	claimer := newStore(t, watch, &postgres.Options{LockTimeout: within})
	shared := passed(t, watch, conns, 50, far, naive.work, sharing{watch}.claim)
	guarded := passed(t, watch, conns, 8, far,
		func(ctx context.Context) error { _, err := ours.Exec(ctx, f, "select pg_sleep(0.005)"); return err },
		func(ctx context.Context) error { return claimer.Claim(ctx, f) })
	t.Logf("transactions that ended while a claim waited: %v behind guards, %v behind FOR SHARE", guarded, shared)
	if worst := slices.Max(guarded); worst > bound {
		t.Errorf("a claim waited for %d transactions of %d connections", worst, conns)
	}
	if worst := slices.Max(shared); worst <= far {
		t.Errorf("FOR SHARE let at most %d pass in %d tries, want more than %d", worst, len(shared), far)
	}
}

// passed counts, for each of some claims, the transactions of steady traffic
// that end while it waits. It stops after a claim that has waited for more than
// most of them, which it gives up.
func passed(tb testing.TB, watch *pgxpool.Pool, conns, tries int, most int64, work, claim func(ctx context.Context) error) []int64 {
	tb.Helper()
	ctx, stop := context.WithCancel(tb.Context())
	var ended atomic.Int64
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for range conns {
		all.Go(func() {
			for ctx.Err() == nil {
				if work(ctx) == nil {
					ended.Add(1)
				}
			}
		})
	}
	var counts []int64
	for len(counts) < tries && (len(counts) == 0 || counts[len(counts)-1] <= most) {
		began := ended.Load()
		testenv.Eventually(tb, within, "traffic flows", func() bool { return ended.Load() > began+int64(conns) })
		counts = append(counts, passedOne(tb, watch, &ended, most, claim))
	}
	return counts
}

func passedOne(tb testing.TB, watch *pgxpool.Pool, ended *atomic.Int64, most int64, claim func(ctx context.Context) error) int64 {
	tb.Helper()
	ctx, giveUp := context.WithTimeout(tb.Context(), within)
	defer giveUp()
	done := make(chan error, 1)
	go func() { done <- claim(ctx) }()
	var queued int64
	testenv.Eventually(tb, within, "the claim is queued", func() bool {
		is := waiting(tb, watch) > 0 || len(done) > 0
		queued = ended.Load()
		return is
	})
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case err := <-done:
			if err != nil && ctx.Err() == nil {
				tb.Fatal(err)
			}
			return ended.Load() - queued
		case <-poll.C:
			if ended.Load()-queued > most {
				giveUp()
			}
		}
	}
}
