package migrate_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/fenced-go/fenced/internal/testenv"
	"github.com/fenced-go/fenced/migrations"
	"github.com/fenced-go/fenced/migrations/migrate"
)

const (
	within       = time.Minute
	sessionLocks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'" +
		" AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)

func open(tb testing.TB, url string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func count(tb testing.TB, db *sql.DB, query string) (n int) {
	tb.Helper()
	if err := db.QueryRowContext(tb.Context(), query).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// holdLock takes the migrators' lock in a session of its own until the test ends.
func holdLock(tb testing.TB, db *sql.DB) {
	tb.Helper()
	conn, err := db.Conn(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.ExecContext(tb.Context(), "SELECT pg_advisory_lock($1)", migrate.LockID); err != nil {
		tb.Fatal(err)
	}
}

// down undoes all migrations.
func down(tb testing.TB, db *sql.DB) {
	tb.Helper()
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS,
		goose.WithTableName(migrations.TableName), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := p.DownTo(tb.Context(), 0); err != nil {
		tb.Fatal(err)
	}
}

// step is a migration file with nothing to undo.
func step(sql string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("-- +goose Up\n" + sql + "\n-- +goose Down\n")}
}

func sqlFiles(tb testing.TB) []string {
	tb.Helper()
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil || len(names) == 0 {
		tb.Fatalf("no migrations: %v", err)
	}
	return names
}

// withMore is the real migrations and some after them.
func withMore(tb testing.TB, more fstest.MapFS) fstest.MapFS {
	tb.Helper()
	files := fstest.MapFS{}
	for _, name := range sqlFiles(tb) {
		data, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			tb.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: data}
	}
	maps.Copy(files, more)
	return files
}

func TestUpReportsWhatItAppliedAndThenNothing(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.Database(t))
	db.SetMaxOpenConns(1)
	steps, err := migrate.Up(t.Context(), db)
	if err != nil || len(steps) != len(sqlFiles(t)) || steps[0].File != sqlFiles(t)[0] || steps[0].Version != 1 {
		t.Fatalf("first Up: %v, %v", steps, err)
	}
	if steps, err = migrate.Up(t.Context(), db); err != nil || len(steps) != 0 {
		t.Fatalf("second Up: %v, %v", steps, err)
	}
}

func TestNothingToDoWaitsForNoLock(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.Database(t))
	if _, err := migrate.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	holdLock(t, db)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if steps, err := migrate.Up(ctx, db); err != nil || len(steps) != 0 {
		t.Errorf("Up: %v, %v", steps, err)
	}
	if _, err := migrate.Status(ctx, db); err != nil {
		t.Errorf("Status: %v", err)
	}
}

func TestStatusChangesNothing(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.Database(t))
	steps, err := migrate.Status(t.Context(), db)
	if err != nil || len(steps) != len(sqlFiles(t)) || !steps[0].AppliedAt.IsZero() {
		t.Fatalf("Status of an empty database: %v, %v", steps, err)
	}
	if count(t, db, "SELECT count(*) FROM pg_namespace WHERE nspname = 'fencedstore'") != 0 {
		t.Error("Status created the schema")
	}
	if _, err := migrate.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	steps, err = migrate.Status(t.Context(), db)
	if err != nil || len(steps) != len(sqlFiles(t)) || time.Since(steps[0].AppliedAt).Abs() > time.Hour {
		t.Fatalf("Status after Up: %v, %v", steps, err)
	}
}

func TestNewerSchemaIsLeftAlone(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.Database(t))
	newer := withMore(t, fstest.MapFS{"00999_newer.sql": step("SELECT 1;")})
	if _, err := migrate.UpFiles(t.Context(), db, newer); err != nil {
		t.Fatal(err)
	}
	holdLock(t, db) // a newer release may be migrating at this moment
	if steps, err := migrate.Up(t.Context(), db); err != nil || len(steps) != 0 {
		t.Errorf("Up of an older release: %v, %v", steps, err)
	}
}

func TestFailedStepKeepsTheEarlierOnes(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.Database(t))
	bad := withMore(t, fstest.MapFS{"00999_bad.sql": step("CREATE TABLE fencedstore.half (); SELECT 1/0;")})
	steps, err := migrate.UpFiles(t.Context(), db, bad)
	if err == nil || len(steps) != len(sqlFiles(t)) {
		t.Fatalf("Up with a bad last step: %v, %v", steps, err)
	}
	if count(t, db, "SELECT count(*) FROM pg_tables WHERE tablename = 'half'") != 0 {
		t.Error("half of the bad step stayed")
	}
	if steps, err := migrate.Up(t.Context(), db); err != nil || len(steps) != 0 {
		t.Errorf("Up after it: %v, %v", steps, err)
	}
}

func TestLockIsFreedOnItsOwnConnectionUnderLoad(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.Database(t))
	db.SetMaxOpenConns(10)
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				_, _ = db.ExecContext(ctx, "SELECT 1")
			}
		})
	}
	defer load.Wait()
	defer cancel()
	files := fstest.MapFS{}
	for i := 1; i <= 200; i++ { // every round has something to do, so takes the lock
		files[fmt.Sprintf("%05d_round.sql", i)] = step("SELECT 1;")
		if steps, err := migrate.UpFiles(t.Context(), db, files); err != nil || len(steps) != 1 {
			t.Fatalf("round %d: %v, %v", i, steps, err)
		}
	}
	if got := count(t, db, sessionLocks); got != 0 {
		t.Errorf("%d advisory locks are left", got)
	}
}

func TestApplicationsVersionsStayApart(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.Database(t))
	app, err := goose.NewProvider(goose.DialectPostgres, db,
		fstest.MapFS{"00001_app.sql": step("CREATE TABLE app ();"), "00007_app.sql": step("SELECT 1;")},
		goose.WithLogger(goose.NopLogger()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := app.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if steps, err := migrate.Up(t.Context(), db); err != nil || len(steps) != len(sqlFiles(t)) {
		t.Fatalf("Up beside an application: %v, %v", steps, err)
	}
	if got := count(t, db, "SELECT count(*) FROM goose_db_version"); got != 3 {
		t.Errorf("the application's table has %d versions, want its own 3", got)
	}
}

func TestDownUndoesUp(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.Database(t))
	if _, err := migrate.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	down(t, db)
	if got := count(t, db, "SELECT count(*) FROM pg_proc WHERE pronamespace = 'fencedstore'::regnamespace"); got != 0 {
		t.Errorf("%d functions are left", got)
	}
	if _, err := migrate.Up(t.Context(), db); err != nil {
		t.Errorf("Up again: %v", err)
	}
}

func TestDownLeavesProtectedTablesUnprotected(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.Database(t))
	if _, err := migrate.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"CREATE TABLE app (id int)", "SELECT fencedstore.protect('app', 'app')"} {
		if _, err := db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	const insert = "INSERT INTO app VALUES (1)"
	if _, err := db.ExecContext(t.Context(), insert); err == nil {
		t.Error("the table is not protected")
	}
	down(t, db)
	if _, err := db.ExecContext(t.Context(), insert); err != nil {
		t.Errorf("the table cannot be used: %v", err)
	}
}

// What an application was granted before an upgrade is still enough after it.
func TestUpgradeKeepsGrantsAndMarks(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.Database(t))
	first := sqlFiles(t)[0]
	data, err := fs.ReadFile(migrations.FS, first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.UpFiles(t.Context(), db, fstest.MapFS{first: &fstest.MapFile{Data: data}}); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"GRANT EXECUTE ON FUNCTION fencedstore.claim, fencedstore.guard TO pg_monitor", // any role will do
		"SELECT fencedstore.claim('r', 5, 'A', 1000)",
	} {
		if _, err := db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := migrate.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	const granted = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'fencedstore'::regnamespace AND has_function_privilege('pg_monitor', oid, 'EXECUTE')"
	if got := count(t, db, granted); got != 2 {
		t.Errorf("%d functions are granted, want the 2 from before", got)
	}
	if _, err := db.ExecContext(t.Context(), "SELECT fencedstore.guard('r', 5, 'A')"); err != nil {
		t.Errorf("the mark from before: %v", err)
	}
}

func TestNothingIsGrantedToPublic(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.Database(t))
	if _, err := migrate.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	const granted = `SELECT coalesce(string_agg(name, ', '), '') FROM (
		SELECT proname::text, proacl, 'f'::"char", proowner FROM pg_proc WHERE pronamespace = 'fencedstore'::regnamespace
		UNION ALL
		SELECT relname::text, relacl, 'r', relowner FROM pg_class WHERE relnamespace = 'fencedstore'::regnamespace AND relkind IN ('r', 'v', 'S')
		UNION ALL
		SELECT nspname::text, nspacl, 'n', nspowner FROM pg_namespace WHERE nspname = 'fencedstore'
	) o(name, acl, kind, owner), aclexplode(coalesce(acl, acldefault(kind, owner))) a WHERE a.grantee = 0`
	var names string
	if err := db.QueryRowContext(t.Context(), granted).Scan(&names); err != nil || names != "" {
		t.Errorf("PUBLIC may use %s (%v)", names, err)
	}
}

func TestNilDatabaseIsAnError(t *testing.T) {
	t.Parallel()
	_, up := migrate.Up(t.Context(), nil)
	_, status := migrate.Status(t.Context(), nil)
	for _, err := range []error{up, status} {
		if err == nil || !strings.HasPrefix(err.Error(), "migrate: ") {
			t.Errorf("nil database: %v", err)
		}
	}
}
