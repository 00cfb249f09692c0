package compat_test

import (
	"database/sql"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
	"github.com/fenced-go/fenced/migrations/migrate"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// database returns the URL of a migrated database in which account 7 has 100.
func database(tb testing.TB) string {
	tb.Helper()
	url := testenv.Database(tb)
	db := openSQL(tb, "pgx", url)
	if _, err := migrate.Up(tb.Context(), db); err != nil {
		tb.Fatal(err)
	}
	schema, err := os.ReadFile("sqlc/schema.sql")
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := db.ExecContext(tb.Context(), string(schema)+"INSERT INTO account VALUES (7, 100)"); err != nil {
		tb.Fatal(err)
	}
	return url
}

// openSQL opens a database with a driver: "pgx", or "postgres" for lib/pq.
func openSQL(tb testing.TB, driver, url string) *sql.DB {
	tb.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func openPool(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

func newStore(tb testing.TB, db fencedpg.DB, opts *fencedpg.Options) *fencedpg.Store {
	tb.Helper()
	s, err := fencedpg.New(db, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// claimed claims a fresh fence.
func claimed(tb testing.TB, s *fencedpg.Store, id int64) fencedstore.Fence {
	tb.Helper()
	f := fencedstore.Fence{Resource: "account 7", ID: id, Holder: fencedstore.NewHolder()}
	if err := s.Claim(tb.Context(), f); err != nil {
		tb.Fatal(err)
	}
	return f
}
