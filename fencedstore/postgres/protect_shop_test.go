package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// shop is a database with protected tables, and a role that may do with them
// what an application may.
type shop struct {
	admin, app *pgxpool.Pool
	store      *postgres.Store // of the application
	fences     map[string]fencedstore.Fence
}

const shopTables = `
	create table inv (id int primary key, v int);
	insert into inv select n, 0 from generate_series(1, 10) n;
	create table parent (id int primary key);
	insert into parent values (1), (2);
	create table child (id int primary key, parent int references parent on delete cascade on update cascade);
	insert into child values (1, 1), (2, 2);
	create table part (id int, k int, v int) partition by list (k);
	create table part1 partition of part for values in (1);
	create table part2 partition of part for values in (2) partition by list (id);
	create table part21 partition of part2 for values in (1, 2);
	insert into part values (1, 1, 0), (2, 2, 0);
	create table tenanted (id int primary key, tenant text, v int);
	insert into tenanted select n, chr(97 + n % 3), 0 from generate_series(1, 9) n;
	create table split (id int, tenant text, v int) partition by list (tenant);
	create table split_a partition of split for values in ('a');
	insert into split values (1, 'a', 0);
	create table base (id int, v int);
	create table heir () inherits (base);
	insert into heir values (1, 0);
	grant select, insert, update, delete, truncate, references on all tables in schema public to public`

// later are partitions that come after the protection.
const laterPartitions = `
	create table part3 partition of part for values in (3);
	create table part22 partition of part2 for values in (3);
	create table split_b partition of split for values in ('b');
	grant select, insert, update, delete, truncate on part3, part22, split_b to public`

func openShop(tb testing.TB, opts *postgres.ProtectOptions) *shop {
	tb.Helper()
	_, admin := setUp(tb)
	s := &shop{admin: admin, app: appRole(tb, admin, "app"), fences: map[string]fencedstore.Fence{}}
	s.store = newStore(tb, s.app, nil)
	run(tb, admin, "grant usage on schema fencedstore to public")
	run(tb, admin, "grant execute on function fencedstore.version, fencedstore.claim, fencedstore.guard, fencedstore.guard_many, fencedstore.enter, fencedstore.holders to public")
	mustScript(tb, admin, shopTables)
	for _, table := range []string{"inv", "child", "part", "base"} {
		if err := postgres.Protect(tb.Context(), admin, table, table, opts); err != nil {
			tb.Fatal(err)
		}
	}
	for _, table := range []string{"tenanted", "split"} {
		if err := postgres.ProtectBy(tb.Context(), admin, table, "tenant", "tenant/", opts); err != nil {
			tb.Fatal(err)
		}
	}
	mustScript(tb, admin, laterPartitions)
	for _, resource := range []string{"inv", "child", "part", "base", "tenant/a"} {
		s.fences[resource] = claimed(tb, s.store, resource, 5)
	}
	return s
}

// enter is the statement with which another client shows a fence.
func (s *shop) enter(resource string) string {
	return fmt.Sprintf("select fencedstore.enter('%s');", s.fences[resource].String())
}

// set shows a fence by hand, without any check.
func (s *shop) set(resource string, id int64, holder string) string {
	return fmt.Sprintf("select set_config('fencedstore.shown', E'\\n=%s\\n:%d:%x;', true);", resource, id, holder)
}

// script sends several statements as psql does, in a session of their own.
func script(ctx context.Context, pool *pgxpool.Pool, query string) error {
	conn, err := pgconn.ConnectConfig(ctx, &pool.Config().ConnConfig.Config)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, query).ReadAll()
	return errors.Join(err, conn.Close(ctx))
}

func mustScript(tb testing.TB, pool *pgxpool.Pool, query string) {
	tb.Helper()
	if err := script(tb.Context(), pool, query); err != nil {
		tb.Fatal(err)
	}
}

// code is the SQLSTATE of what the server said, "" for no error.
func code(tb testing.TB, err error) string {
	tb.Helper()
	var pg *pgconn.PgError
	if err != nil && !errors.As(err, &pg) {
		tb.Fatalf("not the server's error: %v", err)
	}
	if pg == nil {
		return ""
	}
	return pg.Code
}

// attempt is one thing that a client may try.
type attempt struct {
	what, sql string
	want      string // the SQLSTATE, "" for success
}

func (s *shop) try(t *testing.T, as *pgxpool.Pool, attempts []attempt) {
	t.Helper()
	for _, a := range attempts {
		err := script(t.Context(), as, a.sql)
		if got := code(t, err); got != a.want {
			t.Errorf("%s: got %q (%v), want %q", a.what, got, err, a.want)
		}
	}
}
