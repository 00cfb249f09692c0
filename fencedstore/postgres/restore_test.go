package postgres_test

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/internal/testenv"
)

// backup copies a database, and ends what is connected to it: the server copies
// no other.
func backup(tb testing.TB, dbURL string) (restored string) {
	tb.Helper()
	u, err := url.Parse(dbURL)
	if err != nil {
		tb.Fatal(err)
	}
	pg, name := testenv.SharedPostgres(tb), u.Path[1:]
	pg.Do(tb, "", "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '"+name+"'")
	pg.Do(tb, "", "create database "+name+"_restored template "+name)
	tb.Cleanup(func() { pg.Do(tb, "", "drop database "+name+"_restored with (force)") })
	u.Path += "_restored"
	return u.String()
}

// A backup knows an older claim and not the newer ones.
func TestRestoredDatabaseIsRaisedByOneStatement(t *testing.T) {
	t.Parallel()
	dbURL := testenv.Database(t)
	prepare(t, dbURL)
	pool := openPool(t, dbURL)
	now := time.Now().UnixMicro()
	old, newer, other := fence("r", now-2e6), fence("r", now-1e6), fence("s", now)
	s := newStore(t, pool, nil)
	for _, f := range []fencedstore.Fence{old, other} {
		if err := s.Claim(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	closePool(t, pool)
	pool = openPool(t, backup(t, dbURL))
	if err := newStore(t, openPool(t, dbURL), nil).Claim(t.Context(), newer); err != nil { // after the backup
		t.Fatal(err)
	}

	s = newStore(t, pool, nil)
	write := func(f fencedstore.Fence) error { _, err := s.Exec(t.Context(), f, "select"); return err }
	if err := write(newer); !errors.Is(err, fencedstore.ErrNotClaimed) {
		t.Errorf("restored: the newest holder got %v, want not claimed", err)
	}
	if err := write(old); err != nil {
		t.Errorf("restored: the older holder got %v: docs/operations.md says that it is let in", err)
	}
	var raised int64
	if err := pool.QueryRow(t.Context(), "select fencedstore.raise()").Scan(&raised); err != nil || raised != 2 {
		t.Fatalf("raised %d marks (%v), want 2", raised, err)
	}
	unknown := fence("first claimed after the backup", now)
	for _, f := range []fencedstore.Fence{old, newer, other, unknown} {
		claim := s.Claim(t.Context(), f)
		if err := write(f); !errors.Is(err, fencedstore.ErrStale) || !errors.Is(claim, fencedstore.ErrStale) {
			t.Errorf("raised: %v may claim: %v, write: %v, want stale", f, claim, err)
		}
	}
	if err := s.Claim(t.Context(), fence("r", time.Now().UnixMicro()+1e6)); err != nil {
		t.Errorf("a new holder, whose fence is above the time: %v", err)
	}
}

// Raising is a claim of everything: who is at work finishes first, and who comes
// after it is refused.
func TestRaiseWaitsForGuardedTransactions(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 5)
	raised, second := make(chan error, 1), make(chan error, 1)
	err := s.InTx(t.Context(), f, func(tx pgx.Tx) error {
		go func() { _, err := pool.Exec(t.Context(), "select fencedstore.raise(9)"); raised <- err }()
		untilWaiting(t, pool)
		go func() { second <- s.InTx(t.Context(), f, nil) }()
		testenv.Eventually(t, within, "both wait", func() bool { return waiting(t, pool) == 2 })
		return put(t.Context(), tx, "k")
	})
	if err := errors.Join(err, <-raised); err != nil {
		t.Fatal(err)
	}
	var stale *fencedstore.StaleError
	if err := <-second; !errors.As(err, &stale) || stale.Newest != 9 {
		t.Errorf("a guard that came while it waited: %v, want stale by 9", err)
	}
}

func TestRaiseNeverLowersAndChecksItsArgument(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	low, high := claimed(t, s, "low", 5), claimed(t, s, "high", 50)
	var n int64
	if err := pool.QueryRow(t.Context(), "select fencedstore.raise(20)").Scan(&n); err != nil || n != 1 {
		t.Errorf("raised %d marks (%v), want 1", n, err)
	}
	if _, err := s.Exec(t.Context(), high, "select"); err != nil {
		t.Errorf("above: %v", err)
	}
	if _, err := s.Exec(t.Context(), low, "select"); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("below: %v", err)
	}
	if err := s.Claim(t.Context(), fence("low", 20)); !errors.Is(err, fencedstore.ErrFenceReused) {
		t.Errorf("equal: %v, want it to belong to nobody", err)
	}
	for _, bad := range []string{"0", "-1", "4611686018427387904", "9223372036854775807"} {
		if _, err := pool.Exec(t.Context(), "select fencedstore.raise("+bad+")"); !isCode(err, "22023") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "select fencedstore.raise()")
		return err
	})
	if !isCode(err, "ZF005") {
		t.Errorf("at serializable: %v, want ZF005", err)
	}
}
