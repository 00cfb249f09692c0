package migrate_test

import (
	"net/url"
	"testing"
	"testing/fstest"

	"github.com/fenced-go/fenced/internal/testenv"
	"github.com/fenced-go/fenced/migrations/migrate"
)

// execMode makes a pgx URL that prepares no statements.
func execMode(tb testing.TB, text string) string {
	tb.Helper()
	u, err := url.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	q := u.Query()
	q.Set("default_query_exec_mode", "exec")
	u.RawQuery = q.Encode()
	return u.String()
}

// Behind a pooler that gives every transaction another server session, the lock
// ends with its step, also when the migrator is killed inside it.
func TestNoLockIsLeftBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	direct := testenv.Database(t)
	bouncer := testenv.NewPgBouncer(t, direct, "server_round_robin = 1", "default_pool_size = 4")
	pooled := execMode(t, bouncer.URL(t, direct))
	db, watch := open(t, pooled), open(t, direct)
	slow := startChild(t, pooled, childSlow+"=1")
	testenv.Eventually(t, within, "the child is at its step", func() bool { return count(t, watch, sessionLocks) == 1 })
	slow.Kill(t)
	applied := make(chan int, 4)
	for range cap(applied) {
		go func() {
			steps, err := migrate.Up(t.Context(), db)
			if err != nil {
				t.Error(err)
			}
			applied <- len(steps)
		}()
	}
	sum := 0
	for range cap(applied) {
		sum += <-applied
	}
	if sum != len(sqlFiles(t)) {
		t.Errorf("%d steps were applied together, want %d", sum, len(sqlFiles(t)))
	}
	if steps, err := migrate.Up(t.Context(), db); err != nil || len(steps) != 0 {
		t.Errorf("once more: %v, %v", steps, err)
	}
	if got := count(t, watch, sessionLocks); got != 0 {
		t.Errorf("%d advisory locks are left", got)
	}
}

// Who waits for the lock has no transaction open that others would wait for.
func TestWaitingHoldsNothing(t *testing.T) {
	t.Parallel()
	direct := testenv.Database(t)
	watch := open(t, direct)
	if _, err := migrate.Up(t.Context(), watch); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	func() {
		tx, err := watch.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock($1)", migrate.LockID); err != nil {
			t.Fatal(err)
		}
		named, err := url.Parse(direct)
		if err != nil {
			t.Fatal(err)
		}
		named.RawQuery += "&application_name=waiter"
		waiter := open(t, named.String())
		go func() {
			_, err := migrate.UpFiles(t.Context(), waiter, withMore(t, fstest.MapFS{"00999_more.sql": step("SELECT 1;")}))
			done <- err
		}()
		const idle = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waiter' AND state = 'idle' AND query ILIKE 'rollback%'"
		testenv.Eventually(t, within, "the waiter has asked and given its transaction up", func() bool { return count(t, watch, idle) == 1 })
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStepThatCannotLockIsRefused(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.Database(t))
	for name, text := range map[string]string{
		"no transaction": "-- +goose NO TRANSACTION\n-- +goose Up\nSELECT 1;\n",
		"no Up part":     "SELECT 1;\n",
	} {
		files := fstest.MapFS{"00001_bad.sql": &fstest.MapFile{Data: []byte(text)}}
		if steps, err := migrate.UpFiles(t.Context(), db, files); err == nil || len(steps) != 0 {
			t.Errorf("%s: %v, %v", name, steps, err)
		}
	}
}
