package migrate_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fenced-go/fenced/internal/testenv"
	"github.com/fenced-go/fenced/migrations"
	"github.com/fenced-go/fenced/migrations/migrate"
)

// The environment of a child process that migrates: this binary again.
const (
	childURL  = "FENCED_TEST_MIGRATE_URL"
	childSlow = "FENCED_TEST_MIGRATE_SLOW" // stays in the first step for a while
	childGate = "FENCED_TEST_MIGRATE_GATE" // waits until the test lets all go at once
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		os.Exit(child(url))
	}
	testenv.Main(m)
}

func child(url string) int {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	db, err := sql.Open("pgx", url)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = db.Close() }()
	if os.Getenv(childGate) != "" {
		if _, err := db.ExecContext(ctx, "SELECT pg_advisory_xact_lock_shared(1, 1)"); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	var files fs.FS = migrations.FS
	if os.Getenv(childSlow) != "" {
		files = fstest.MapFS{"00001_slow.sql": step("SELECT pg_sleep(1); CREATE TABLE fencedstore.slow ();")}
	}
	steps, err := migrate.UpFiles(ctx, db, files)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, s := range steps {
		_, _ = fmt.Fprintln(os.Stdout, "applied", s.File)
	}
	return 0
}

func startChild(t *testing.T, url string, env ...string) *testenv.Process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), append(env, childURL+"="+url)...)
	return testenv.Start(t, cmd)
}

func TestTenProcessesMigrateAnEmptyDatabaseAtOnce(t *testing.T) {
	t.Parallel()
	migrateTogether(t, testenv.Database(t))
}

// Here goose's version table is there already, so that its creation does not
// keep the processes apart.
func TestTenProcessesMigrateAnOldDatabaseAtOnce(t *testing.T) {
	t.Parallel()
	url := testenv.Database(t)
	db := open(t, url)
	if _, err := migrate.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	down(t, db)
	migrateTogether(t, url)
}

func migrateTogether(t *testing.T, url string) {
	t.Helper()
	db := open(t, url)
	gate, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gate.Rollback() }()
	if _, err := gate.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock(1, 1)"); err != nil {
		t.Fatal(err)
	}
	children := make([]*testenv.Process, 10)
	for i := range children {
		children[i] = startChild(t, url, childGate+"=1")
	}
	testenv.Eventually(t, within, "all processes are at the gate", func() bool {
		return count(t, db, sessionLocks+" AND NOT granted") == len(children)
	})
	if err := gate.Rollback(); err != nil {
		t.Fatal(err)
	}
	applied := 0
	for _, c := range children {
		if err := c.Wait(t, within); err != nil {
			t.Fatalf("a process failed: %v: %s", err, c.Output())
		}
		applied += strings.Count(c.Output(), "applied ")
	}
	if want := len(sqlFiles(t)); applied != want {
		t.Errorf("the processes applied %d steps together, want each of %d once", applied, want)
	}
	if got := count(t, db, "SELECT count(*) - count(DISTINCT version_id) FROM "+migrations.TableName); got != 0 {
		t.Errorf("%d versions are recorded more than once", got)
	}
	if got := count(t, db, sessionLocks); got != 0 {
		t.Errorf("%d advisory locks are left", got)
	}
}

func TestKilledMigratorBlocksOthersNoLongerThanItsStatement(t *testing.T) {
	t.Parallel()
	url := testenv.Database(t)
	db := open(t, url)
	c := startChild(t, url, childSlow+"=1")
	testenv.Eventually(t, within, "the migrator is inside its step", func() bool {
		return count(t, db, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"+
			" AND query LIKE 'SELECT pg_sleep%' AND state = 'active'") == 1
	})
	c.Kill(t)
	steps, err := migrate.Up(t.Context(), db)
	if err != nil || len(steps) != len(sqlFiles(t)) {
		t.Fatalf("after a killed migrator: %v, %v", steps, err)
	}
	if count(t, db, "SELECT count(*) FROM pg_tables WHERE tablename = 'slow'") != 0 {
		t.Error("the killed migrator's step was committed")
	}
}

func TestStuckMigratorIsWaitedForAsLongAsTheContextLasts(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.Database(t))
	holdLock(t, db)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if steps, err := migrate.Up(ctx, db); err == nil || len(steps) != 0 {
		t.Fatalf("Up under another's lock: %v, %v", steps, err)
	}
	if count(t, db, "SELECT count(*) FROM pg_tables WHERE tablename = 'fence'") != 0 {
		t.Error("a migrator without the lock changed something")
	}
}
