package postgres_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

// locks counts the locks of resources that sessions have, or wait for.
func locks(tb testing.TB, pool *pgxpool.Pool, granted bool) (n int) {
	tb.Helper()
	const query = "select count(*) from pg_locks where locktype = 'advisory' and classid = 1179538243 and granted = $1" +
		" and database = (select oid from pg_database where datname = current_database())"
	if err := pool.QueryRow(tb.Context(), query, granted).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func untilQueued(tb testing.TB, pool *pgxpool.Pool, n int) {
	tb.Helper()
	testenv.Eventually(tb, within, "all wait for a lock", func() bool { return locks(tb, pool, false) == n })
}

// Whatever the order of the list: who waits for one lock has those before it,
// and none of those after it.
func TestSeveralResourcesAreLockedInOneOrder(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	names := []string{"a", "b", "c", "d"}
	var fs []fencedstore.Fence
	for _, name := range names {
		fs = append(fs, claimed(t, s, name, 1))
	}
	var order []string
	err := pool.QueryRow(t.Context(), "select array_agg(r order by hashtext(r)) from unnest($1::text[]) r", names).Scan(&order)
	if err != nil {
		t.Fatal(err)
	}
	for before, name := range order {
		for range 4 {
			rand.Shuffle(len(fs), func(i, j int) { fs[i], fs[j] = fs[j], fs[i] })
			done := make(chan error, 1)
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "select pg_advisory_xact_lock(1179538243, hashtext($1))", name)
				go func() { done <- s.InTxMany(t.Context(), fs, func(pgx.Tx) error { return nil }) }()
				untilQueued(t, pool, 1)
				if got := locks(t, pool, true) - 1; got != before {
					t.Errorf("%v waits for %q with %d locks, want %d", fs, name, got, before)
				}
				return err
			})
			if err := errors.Join(err, <-done); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// undisturbed is a server that never breaks a circle of waiting sessions: what
// gets on there needed no help.
func undisturbed(t *testing.T) (*postgres.Store, *pgxpool.Pool) {
	t.Helper()
	pg := testenv.NewPostgres(t, "-c", "deadlock_timeout=1h")
	prepare(t, pg.DirectURL("postgres"))
	pool := openPool(t, pg.DirectURL("postgres"))
	return newStore(t, pool, &postgres.Options{LockTimeout: within}), pool
}

// Two transactions that guard two resources in opposite orders, one call each,
// wait for each other across the claims that are queued between.
func TestGuardsOneByOneInOppositeOrdersWaitForEachOther(t *testing.T) {
	t.Parallel()
	s, pool := undisturbed(t)
	f, g := claimed(t, s, "a", 1), claimed(t, s, "b", 1)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var txs []pgx.Tx
	for _, first := range []fencedstore.Fence{f, g} {
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := postgres.Guard(ctx, tx, first); err != nil {
			t.Fatal(err)
		}
		txs = append(txs, tx)
	}
	for _, r := range []string{"a", "b"} {
		all.Go(func() { _ = s.Claim(ctx, fence(r, 2)) })
	}
	untilQueued(t, pool, 2)
	for i, second := range []fencedstore.Fence{g, f} {
		all.Go(func() {
			_ = postgres.Guard(ctx, txs[i], second)
			_ = txs[i].Rollback(context.WithoutCancel(ctx))
		})
	}
	untilQueued(t, pool, 4)
	if n := blockedByRunning(t, pool); n != 0 {
		t.Errorf("%d sessions wait for one that does not wait: no circle", n)
	}
}

// blockedByRunning counts the waiting sessions that wait, directly or not, for
// one that does not wait itself. In a circle nobody does.
func blockedByRunning(tb testing.TB, pool *pgxpool.Pool) (n int) {
	tb.Helper()
	const query = "with w as (select pid, pg_blocking_pids(pid) by from pg_stat_activity where wait_event_type = 'Lock')" +
		" select count(*) from w where exists (select from unnest(by) b where b not in (select pid from w))"
	if err := pool.QueryRow(tb.Context(), query).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// The same with the guards of each transaction in one call: the claims and the
// second transaction get on as soon as the first has ended, and nobody is
// aborted.
func TestOppositeOrdersWithClaimsBetweenAbortNobody(t *testing.T) {
	t.Parallel()
	s, pool := undisturbed(t)
	f, g := claimed(t, s, "a", 1), claimed(t, s, "b", 1)
	claims, second := make(chan error, 2), make(chan error, 1)
	err := s.InTxMany(t.Context(), []fencedstore.Fence{f, g}, func(tx pgx.Tx) error {
		go func() { claims <- s.Claim(t.Context(), f) }() // the same fences again: they lock as others do
		go func() { claims <- s.Claim(t.Context(), g) }()
		untilQueued(t, pool, 2)
		go func() {
			second <- s.InTxMany(t.Context(), []fencedstore.Fence{g, f}, func(tx pgx.Tx) error { return put(t.Context(), tx, "second") })
		}()
		untilQueued(t, pool, 3)
		if blockedByRunning(t, pool) == 0 {
			t.Error("nobody waits for the transaction that runs")
		}
		return put(t.Context(), tx, "first")
	})
	if err := errors.Join(err, <-claims, <-claims, <-second); err != nil {
		t.Fatal(err)
	}
	if value(t, pool, "first") == "" || value(t, pool, "second") == "" {
		t.Error("a write is missing")
	}
}

func TestTrafficOverSeveralResourcesNeverStandsStill(t *testing.T) {
	t.Parallel()
	const workers, rounds = 6, 40
	s, _ := undisturbed(t)
	var fs []fencedstore.Fence
	for _, name := range []string{"a", "b", "c"} {
		fs = append(fs, claimed(t, s, name, 1))
	}
	errs := make(chan error, 2*workers)
	for w := range workers {
		go func() { errs <- repeat(rounds, func() error { return s.Claim(t.Context(), fs[w%len(fs)]) }) }()
		go func() {
			errs <- repeat(rounds, func() error {
				mine := slices.Clone(fs)
				rand.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
				return s.InTxMany(t.Context(), mine[:2], func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "select"); return err })
			})
		}()
	}
	for range 2 * workers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func repeat(n int, do func() error) error {
	for range n {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}
