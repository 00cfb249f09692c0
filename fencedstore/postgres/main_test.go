package postgres_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of migrations and GuardSQL

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
	"github.com/fenced-go/fenced/migrations/migrate"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// within bounds every wait: long, because the machine may be busy.
const within = 30 * time.Second

// database returns the URL of a migrated database of the test's own.
func database(tb testing.TB) string {
	tb.Helper()
	url := testenv.Database(tb)
	prepare(tb, url)
	return url
}

// prepare migrates a database and gives it a table for the tests' own data.
func prepare(tb testing.TB, url string) {
	tb.Helper()
	db := openSQL(tb, url)
	if _, err := migrate.Up(tb.Context(), db); err != nil {
		tb.Fatal(err)
	}
	if _, err := db.ExecContext(tb.Context(), "create table kv (key bytea primary key, value bytea)"); err != nil {
		tb.Fatal(err)
	}
}

func openSQL(tb testing.TB, url string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// openPool returns a pool; each change edits its configuration.
func openPool(tb testing.TB, url string, changes ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	cfg.MaxConns = 16
	for _, change := range changes {
		change(cfg)
	}
	pool, err := pgxpool.NewWithConfig(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closePool(tb, pool) })
	return pool
}

// closePool fails where Close would wait for ever.
func closePool(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(within):
		tb.Errorf("%d connections were not given back", pool.Stat().AcquiredConns())
	}
}

func maxConns(n int32) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.MaxConns = n }
}

// setting sets a run-time parameter of every connection.
func setting(name, value string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value }
}

func execMode(mode pgx.QueryExecMode) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }
}

func newStore(tb testing.TB, db postgres.DB, opts *postgres.Options) *postgres.Store {
	tb.Helper()
	s, err := postgres.New(db, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// setUp is a migrated database, a pool on it, and a Store on the pool.
func setUp(tb testing.TB) (*postgres.Store, *pgxpool.Pool) {
	tb.Helper()
	pool := openPool(tb, database(tb))
	return newStore(tb, pool, nil), pool
}

func fence(resource string, id int64) fencedstore.Fence {
	return fencedstore.Fence{Resource: resource, ID: id, Holder: fencedstore.NewHolder()}
}

// claimed claims a fresh fence.
func claimed(tb testing.TB, s *postgres.Store, resource string, id int64) fencedstore.Fence {
	tb.Helper()
	f := fence(resource, id)
	if err := s.Claim(tb.Context(), f); err != nil {
		tb.Fatal(err)
	}
	return f
}

// value reads a key of the tests' table, "" when it is not there.
func value(tb testing.TB, pool *pgxpool.Pool, key string) string {
	tb.Helper()
	var v []byte
	err := pool.QueryRow(tb.Context(), "select value from kv where key = $1", []byte(key)).Scan(&v)
	if err != nil && err != pgx.ErrNoRows { //nolint:errorlint // pgx returns it bare
		tb.Fatal(err)
	}
	return string(v)
}

const upsert = "insert into kv values ($1, $2) on conflict (key) do update set value = excluded.value"
