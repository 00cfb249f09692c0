package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/internal/testenv"
)

// A server whose log nobody flushes but a commit that waits for it.
func newLazyServer(tb testing.TB) *testenv.Postgres {
	tb.Helper()
	pg := testenv.NewPostgres(tb, "-c", "wal_writer_delay=10s", "-c", "synchronous_commit=off")
	prepare(tb, pg.DirectURL("postgres"))
	pg.Do(tb, "postgres", "create table naive (resource text primary key, fence_id bigint)")
	pg.Do(tb, "postgres", "insert into naive values ('r', 4)")
	return pg
}

func TestClaimWithSynchronousCommitOffIsTakenBackByACrash(t *testing.T) {
	t.Parallel()
	pg := newLazyServer(t)
	// The log is flushed now and then all the same, so that not every crash
	// comes in time.
	lost := false
	for id := int64(5); !lost && id < 15; id++ {
		pg.Do(t, "postgres", "checkpoint")
		pg.Do(t, "postgres", "update naive set fence_id = "+number64(id))
		pg.Kill(t)
		pg.Start(t)
		lost = pg.Do(t, "postgres", "select fence_id from naive")[0][0] != number64(id)
	}
	if !lost {
		t.Error("naive: no claim was lost in ten crashes")
	}

	s := newStore(t, openPool(t, pg.DirectURL("postgres")), nil)
	f := claimed(t, s, "r", 5)
	pg.Kill(t)
	pg.Start(t)
	s = newStore(t, openPool(t, pg.DirectURL("postgres")), nil)
	if _, err := s.Exec(t.Context(), f, "select"); err != nil {
		t.Errorf("the claim is lost: %v", err)
	}
}

// With synchronous replication a claim whose wait is cancelled is done on the
// primary only. Asking again must wait again, and only a commit that wrote does.
func TestRepeatedClaimThatDoesNotWriteDoesNotWaitForTheStandby(t *testing.T) {
	t.Parallel()
	pg := newSynchronousServer(t) // without the standby
	url := pg.DirectURL("postgres")
	look := openPool(t, url)
	run(t, look, "create table naive (resource text primary key, fence_id bigint); insert into naive values ('r', 4)")
	pool := openPool(t, url, setting("synchronous_commit", "on"))
	const naive = "do $$ begin if (select fence_id from naive) < 5 then update naive set fence_id = 5; end if; end $$"
	claim := func() error { _, err := pool.Exec(t.Context(), naive); return err }
	if err := cancelled(t, look, claim); err != nil {
		t.Fatalf("naive: %v, want success with a warning", err)
	}
	if err := claim(); err != nil { // and it returned
		t.Errorf("naive: %v", err)
	}

	s, f := newStore(t, pool, nil), fence("r", 5)
	for range 3 {
		if err := cancelled(t, look, func() error { return s.Claim(t.Context(), f) }); err != nil {
			t.Errorf("claim on a connection that does not watch: %v, want success with a warning", err)
		}
	}
}

// newSynchronousServer starts a server that waits for a standby where a session
// asks for it. There is none yet.
func newSynchronousServer(tb testing.TB) *testenv.Postgres {
	tb.Helper()
	pg := testenv.NewPostgres(tb, "-c", "synchronous_standby_names=standby", "-c", "synchronous_commit=local")
	prepare(tb, pg.DirectURL("postgres"))
	return pg
}

// cancelled starts call, cancels its commit's wait for the standby, and returns
// what it returns.
func cancelled(tb testing.TB, look *pgxpool.Pool, call func() error) error {
	tb.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	untilInSync(tb, look, 1)
	run(tb, look, "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
	return <-done
}

// untilInSync waits until n sessions wait for the standby.
func untilInSync(tb testing.TB, look *pgxpool.Pool, n int) {
	tb.Helper()
	testenv.Eventually(tb, within, "a commit waits for the standby", func() bool {
		var got int
		err := look.QueryRow(tb.Context(), "select count(*) from pg_stat_activity where wait_event = 'SyncRep'").Scan(&got)
		if err != nil {
			tb.Fatal(err)
		}
		return got == n
	})
}
