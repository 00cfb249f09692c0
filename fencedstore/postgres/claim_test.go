package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

// waiting counts the sessions that wait for a lock of any kind.
func waiting(tb testing.TB, pool *pgxpool.Pool) (n int) {
	tb.Helper()
	const query = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
	if err := pool.QueryRow(tb.Context(), query).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func untilWaiting(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	testenv.Eventually(tb, within, "a session waits for the lock", func() bool { return waiting(tb, pool) > 0 })
}

func TestClaimWaitsForOlderTransactionsToEnd(t *testing.T) {
	t.Parallel()
	_, pool := setUp(t)
	s := newStore(t, pool, &postgres.Options{LockTimeout: within})
	old, newer := claimed(t, s, "r", 1), fence("r", 2)
	done := make(chan error, 1)
	err := s.InTx(t.Context(), old, func(tx pgx.Tx) error {
		go func() { done <- s.Claim(t.Context(), newer) }()
		untilWaiting(t, pool)
		_, err := tx.Exec(t.Context(), upsert, []byte("k"), []byte("old"))
		select {
		case early := <-done:
			t.Errorf("the claim did not wait: %v", early)
		default:
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := value(t, pool, "k"); got != "old" {
		t.Errorf("the older transaction's write is lost: %q", got)
	}
	if err := s.InTx(t.Context(), old, nil); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("after the claim: %v", err)
	}
}

func TestClaimThatWaitsTooLongNamesWhoIsInTheWay(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	old, newer := claimed(t, s, "r", 1), fence("r", 2)
	hasty := newStore(t, pool, &postgres.Options{LockTimeout: 20 * time.Millisecond})
	err := s.InTx(t.Context(), old, func(tx pgx.Tx) error {
		err := hasty.Claim(t.Context(), newer)
		var busy *postgres.BusyError
		var pg *pgconn.PgError
		if !errors.Is(err, postgres.ErrBusy) || !errors.As(err, &busy) || !errors.As(err, &pg) || pg.Code != "55P03" {
			t.Fatalf("got %v, want a *BusyError", err)
		}
		pid := tx.Conn().PgConn().PID()
		if busy.Fence != newer || len(busy.PIDs) != 1 || uint32(busy.PIDs[0]) != pid {
			t.Errorf("in the way of %v were %v, want %v by %v", busy.Fence, busy.PIDs, newer, pid)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exec(t.Context(), old, "select"); err != nil {
		t.Errorf("a claim that gave up had an effect: %v", err)
	}
}

func TestStaleClaimIsRefusedWithoutWaiting(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	hasty := newStore(t, pool, &postgres.Options{LockTimeout: time.Millisecond})
	f := claimed(t, s, "r", 2)
	err := s.InTx(t.Context(), f, func(pgx.Tx) error { return hasty.Claim(t.Context(), fence("r", 1)) })
	var stale *fencedstore.StaleError
	if !errors.As(err, &stale) || stale.Newest != 2 {
		t.Errorf("got %v, want stale by 2", err)
	}
}

// A claim that waited for another one must see it, and not the world before.
func TestClaimRunsAtReadCommittedWhateverTheDefault(t *testing.T) {
	t.Parallel()
	url := database(t)
	for _, level := range []string{"repeatable read", "serializable"} {
		pool := openPool(t, url, setting("default_transaction_isolation", level))
		s := newStore(t, pool, nil)
		claimed(t, s, level, 1)
		done := make(chan error, 2)
		err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "select fencedstore.claim($1::text, 3, 'x', 1000)", level)
			go func() { done <- s.Claim(t.Context(), fence(level, 4)) }()
			untilWaiting(t, pool)
			return err
		})
		if err := errors.Join(err, <-done); err != nil {
			t.Errorf("%s: %v", level, err)
		}
		if err := s.Claim(t.Context(), fence(level, 2)); !errors.Is(err, fencedstore.ErrStale) {
			t.Errorf("%s: stale claim: %v", level, err)
		}
	}
}

// The commit of a repeated claim must wait for the same durability as the
// first, so it has to write.
func TestRepeatedClaimWritesAgain(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	written := func() (xmin string) {
		err := pool.QueryRow(t.Context(), "select xmin::text from fencedstore.fence where resource = 'r'").Scan(&xmin)
		if err != nil {
			t.Fatal(err)
		}
		return xmin
	}
	before := written()
	if err := s.Claim(t.Context(), f); err != nil || written() == before {
		t.Errorf("nothing was written (%v)", err)
	}
}

func TestClaimSurvivesACrashWithSynchronousCommitOff(t *testing.T) {
	t.Parallel()
	// a write-ahead log that nobody flushes but a commit that waits for it
	pg := testenv.NewPostgres(t, "-c", "wal_writer_delay=10s", "-c", "synchronous_commit=off")
	prepare(t, pg.DirectURL("postgres"))
	for id := range int64(3) {
		s := newStore(t, openPool(t, pg.DirectURL("postgres")), nil)
		f := claimed(t, s, "r", id+1)
		pg.Kill(t)
		pg.Start(t)
		s = newStore(t, openPool(t, pg.DirectURL("postgres")), nil)
		if _, err := s.Exec(t.Context(), f, "select"); err != nil {
			t.Fatalf("claim %d is lost: %v", id+1, err)
		}
	}
}
