package postgres_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

// appRole makes a role without any rights and returns a pool as that role.
func appRole(tb testing.TB, admin *pgxpool.Pool, name string) *pgxpool.Pool {
	tb.Helper()
	// roles are the server's, and the server is shared
	role := fmt.Sprintf(`%s "%d"`, name, admin.Config().ConnConfig.Port) + admin.Config().ConnConfig.Database
	quoted := pgx.Identifier{role}.Sanitize()
	run(tb, admin, "create role "+quoted+" login password 'app'")
	tb.Cleanup(func() {
		db := openSQL(tb, admin.Config().ConnString())
		for _, query := range []string{"drop owned by " + quoted + " cascade", "drop role " + quoted} {
			if _, err := db.Exec(query); err != nil { //nolint:noctx // the test's context has ended
				tb.Error(err)
			}
		}
	})
	u, err := url.Parse(admin.Config().ConnString())
	if err != nil {
		tb.Fatal(err)
	}
	u.User = url.UserPassword(role, "app")
	return openPool(tb, u.String())
}

func run(tb testing.TB, pool *pgxpool.Pool, query string) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), query); err != nil {
		tb.Fatal(err)
	}
}

func TestCheckNamesTheRightsToGrantUntilAllAreThere(t *testing.T) {
	t.Parallel()
	owner, admin := setUp(t)
	pool := appRole(t, admin, "app")
	s := newStore(t, pool, nil)
	granted := 0
	for {
		err := s.Check(t.Context())
		if err == nil {
			break
		}
		var rights *postgres.RightsError
		if !errors.Is(err, postgres.ErrRights) || !errors.As(err, &rights) || granted > 10 {
			t.Fatalf("after %d grants: %v", granted, err)
		}
		_, command, _ := strings.Cut(err.Error(), "run ")
		command, _, _ = strings.Cut(command, ";") // one at a time, as the text says it
		run(t, admin, command)
		granted++
	}
	if granted != 6 {
		t.Errorf("%d grants were needed, want the schema and 5 functions", granted)
	}
	// enough for everything
	run(t, admin, "grant all on kv to public")
	f := claimed(t, s, "r", 1)
	if err := s.InTx(t.Context(), f, func(tx pgx.Tx) error { return put(t.Context(), tx, "k") }); err != nil {
		t.Error(err)
	}
	claimed(t, s, "r", 2)
	if _, err := s.Exec(t.Context(), f, "select 1"); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("stale: %v", err)
	}
	if err := owner.Check(t.Context()); err != nil {
		t.Errorf("the owner: %v", err)
	}
	for _, query := range []string{
		"select * from fencedstore.fence", "update fencedstore.fence set fence_id = 1", "delete from fencedstore.fence",
		"select fencedstore.reject('r', 1, '')", "select fencedstore.cap('lock_timeout', 1)", "select * from fencedstore.goose_version",
		"create table fencedstore.mine ()", "select fencedstore.evict('r')",
	} {
		var pg *pgconn.PgError
		if _, err := pool.Exec(t.Context(), query); !errors.As(err, &pg) || pg.Code != "42501" {
			t.Errorf("%s: got %v, want permission denied", query, err)
		}
	}
}

// Names that a caller puts in front of the search path must not reach into
// functions that run with the owner's rights.
func TestSearchPathOfTheCallerIsIgnored(t *testing.T) {
	t.Parallel()
	_, admin := setUp(t)
	run(t, admin, `create schema trap; grant usage on schema trap to public;
		create function trap.hashtext(text) returns int language sql as 'select 1/0';
		create function trap.sha256(bytea) returns bytea language sql as 'select ''''::bytea';
		create function trap.set_config(text, text, boolean) returns text language sql as 'select (1/0)::text'`)
	pool := openPool(t, admin.Config().ConnString(), maxConns(1), setting("search_path", "trap, pg_catalog, public"))
	run(t, pool, "create temp table fence (resource text, fence_id bigint, holder bytea, claimed_at timestamptz)")
	s := newStore(t, pool, nil)
	f := claimed(t, s, "r", 1)
	if err := s.InTx(t.Context(), f, func(pgx.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	if err := s.InTx(t.Context(), fence("r", 1), nil); !errors.Is(err, fencedstore.ErrFenceReused) {
		t.Errorf("another holder: %v", err)
	}
}

func TestCheckTellsTheStateOfTheSchema(t *testing.T) {
	t.Parallel()
	empty := newStore(t, openPool(t, testenv.Database(t)), nil)
	s, pool := setUp(t)
	var schema *postgres.SchemaError
	err := empty.Check(t.Context())
	if !errors.Is(err, postgres.ErrSchema) || !errors.As(err, &schema) || schema.Have != 0 || !strings.Contains(err.Error(), "migrate.Up") {
		t.Errorf("an empty database: %v", err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("the current schema: %v", err)
	}
	run(t, pool, "create or replace function fencedstore.version() returns int language sql as 'select 999'")
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("a newer schema: %v", err)
	}
	run(t, pool, "create or replace function fencedstore.version() returns int language sql as 'select 0'")
	if err := s.Check(t.Context()); !errors.As(err, &schema) || schema.Want <= schema.Have || !strings.Contains(err.Error(), "migrate.Up") {
		t.Errorf("an older schema: %v", err)
	}
	run(t, pool, "drop function fencedstore.version")
	if err := s.Check(t.Context()); !errors.Is(err, postgres.ErrSchema) {
		t.Errorf("a schema of somebody else: %v", err)
	}
}

func TestCheckRefusesAReadOnlySession(t *testing.T) {
	t.Parallel()
	s := newStore(t, openPool(t, database(t), setting("default_transaction_read_only", "on")), nil)
	if err := s.Check(t.Context()); !errors.Is(err, postgres.ErrReadOnly) {
		t.Errorf("got %v", err)
	}
}

func TestCheckReportsAnUnreachableServer(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t))
	pool.Close()
	if err := newStore(t, pool, nil).Check(t.Context()); err == nil {
		t.Error("no error")
	}
}
