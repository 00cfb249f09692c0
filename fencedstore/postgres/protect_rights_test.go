package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// protectGrants is what package migrations tells owners of tables to have.
const protectGrants = "grant usage on schema fencedstore to public; grant execute on function fencedstore.protect, fencedstore.protect_by," +
	" fencedstore.unprotect, fencedstore.install, fencedstore.take, fencedstore.guards, fencedstore.cap, fencedstore.enforce, fencedstore.by_column to public"

func TestOwnerOfATableProtectsItWithAFewGrants(t *testing.T) {
	t.Parallel()
	_, admin := setUp(t)
	owner := appRole(t, admin, "owner")
	mustScript(t, admin, "grant create on schema public to public;"+protectGrants)
	tables, _, _ := strings.Cut(shopTables, "grant ")
	mustScript(t, owner, tables)
	for _, err := range []error{
		postgres.Protect(t.Context(), owner, "part", "part", nil),
		postgres.Protect(t.Context(), owner, "part", "other", &postgres.ProtectOptions{WarnOnly: true, Always: true}),
		postgres.ProtectBy(t.Context(), owner, "split", "tenant", "tenant/", nil),
		postgres.Unprotect(t.Context(), owner, "split", nil),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	other := appRole(t, admin, "other")
	for name, err := range map[string]error{
		"Protect":   postgres.Protect(t.Context(), other, "inv", "inv", nil),
		"Unprotect": postgres.Unprotect(t.Context(), other, "part", nil),
	} {
		if code(t, err) != "42501" {
			t.Errorf("%s of somebody else's table: %v", name, err)
		}
	}
}

// Who has never heard of fences has no rights on their schema either. What it is
// told is the same.
func TestRoleWithoutRightsOnTheSchemaIsToldWhy(t *testing.T) {
	t.Parallel()
	_, admin := setUp(t)
	stranger := appRole(t, admin, "stranger")
	mustScript(t, admin, `create table whole (id int); create table rows (t text); create table trial (id int); create table marked (id int);
		select fencedstore.protect('whole', 'r'), fencedstore.protect_by('rows', 't', 't/'), fencedstore.protect('trial', 'r', p_warn => true), fencedstore.fence_rows('marked');
		insert into marked values (1, 5, sha256('x')); grant select, insert, update, delete on all tables in schema public to public`)
	(&shop{}).try(t, stranger, []attempt{
		{"a whole table", "insert into whole values (1)", "ZF004"},
		{"rows of tenants", "insert into rows values ('a')", "ZF004"},
		{"a table on trial", "insert into trial values (1)", ""},
		{"a row with a mark, lower", "update marked set fence_id = 4", "ZF001"},
		{"a row with a mark, DELETE", "delete from marked", "23001"},
		{"the functions", "select fencedstore.guard('r', 1, 'x')", "42501"},
	})
	if got := warnings(t, admin, "true"); len(got) != 1 || got[0].Role != stranger.Config().ConnConfig.User {
		t.Errorf("got %v", got)
	}
}

// Every function that runs with its owner's rights looks names up where only
// the owner can put them, and not one may be called by PUBLIC.
func TestFunctionsPinTheirSearchPath(t *testing.T) {
	t.Parallel()
	_, admin := setUp(t)
	const loose = `select coalesce(string_agg(proname, ', '), '') from pg_proc
		where pronamespace = 'fencedstore'::regnamespace and proname <> 'version'
		  and not coalesce(proconfig @> array['search_path=pg_catalog, pg_temp'], false)`
	var names string
	if err := admin.QueryRow(t.Context(), loose).Scan(&names); err != nil || names != "" {
		t.Errorf("%s have no search_path of their own (%v)", names, err)
	}
}

// Names that a caller puts in front of the search path, or into its temporary
// schema, must not reach into functions that run with the owner's rights.
func TestTriggersIgnoreTheSearchPathOfTheCaller(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	mustScript(t, s.admin, "grant create on database "+pgx.Identifier{s.admin.Config().ConnConfig.Database}.Sanitize()+" to public")
	const trap = `create schema trap;
		create function trap.sha256(bytea) returns bytea language sql as 'select ''''::bytea';
		create function trap.split_part(text, text, int) returns text language sql as 'select ''5''';
		create function trap.current_setting(text, boolean) returns text language sql as 'select E''\n=inv\n:5:00;''';
		create function trap.concat(text) returns text language sql as 'select ''a''';
		create function trap.eq(text, text) returns boolean language sql as 'select true';
		create operator trap.= (leftarg = text, rightarg = text, function = trap.eq);
		create temp table fence (resource text, fence_id bigint, holder bytea);
		create temp table new_rows (tenant text); create temp table old_rows (tenant text);
		insert into pg_temp.fence values ('inv', 5, ''); insert into new_rows values ('a'); insert into old_rows values ('a');
		set search_path = trap, pg_temp, pg_catalog, public;`
	s.try(t, s.app, []attempt{
		{"no fence", trap + "update inv set v = 1", "ZF004"},
		{"another holder ", "begin;" + s.set("inv", 5, "x") + trap + "update inv set v = 1", "ZF002"},
		{"rows of somebody else", "begin;" + s.enter("tenant/a") + trap + "update tenanted set v = 1 where tenant operator(pg_catalog.=) 'b'", "ZF004"},
		{"the holder", "begin;" + s.enter("inv") + trap + "update inv set v = 1", ""},
	})
}

// The column of a protected table may be of a type that its owner made. Reading
// it must not run the owner's code with the rights of this schema's.
func TestTypeOfTheOwnerRunsNoCode(t *testing.T) {
	t.Parallel()
	_, admin := setUp(t)
	owner := appRole(t, admin, "owner")
	mustScript(t, admin, "grant create on schema public to public;"+protectGrants)
	mustScript(t, owner, `create type trap as (x int);
		create function trapped(trap) returns text language plpgsql as 'begin raise exception ''trapped as %'', current_user; end';
		create cast (trap as text) with function trapped(trap);
		create function trapped(trap, trap) returns boolean language plpgsql immutable as 'begin raise exception ''trapped as %'', current_user; end';
		create operator = (leftarg = trap, rightarg = trap, function = trapped);
		create table goods (id int, c trap)`)
	if err := postgres.ProtectBy(t.Context(), owner, "goods", "c", "c/", nil); code(t, err) != "42804" {
		t.Errorf("a column of such a type: %v", err)
	}
	mustScript(t, owner, "create table good (c text); select fencedstore.protect_by('good', 'c', 'c/')")
	mustScript(t, owner, "create trigger t after insert on goods referencing new table as new_rows for each statement"+
		" execute function fencedstore.rows_by_c('c/')")
	if err := script(t.Context(), owner, "insert into goods values (1, row(1))"); code(t, err) != "42804" {
		t.Errorf("got %v, want that the type is refused", err)
	}
}

func TestNoMessageOfATriggerShowsTheHolder(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	const secret = "53ec9e7"
	for _, sql := range []string{
		s.set("inv", 4, secret), s.set("inv", 5, secret), s.set("inv", 6, secret),
		"set local fencedstore.shown = E'\\n=inv\\n:x:" + secret + ";';",
	} {
		err := script(t.Context(), s.app, "begin;"+sql+"update inv set v = 1")
		var pg *pgconn.PgError
		if !errors.As(err, &pg) {
			t.Fatal(err)
		}
		for _, text := range []string{pg.Message, pg.Detail, pg.Hint, pg.Where, pg.InternalQuery} {
			if strings.Contains(text, secret) || strings.Contains(text, "35336563") {
				t.Errorf("%s shows the holder: %s", pg.Code, text)
			}
		}
	}
}

func TestProtectRefusesBadArguments(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t))
	short := &postgres.ProtectOptions{LockTimeout: 1}
	for name, err := range map[string]error{
		"db":          postgres.Protect(t.Context(), nil, "inv", "inv", nil),
		"table":       postgres.Protect(t.Context(), pool, "", "inv", nil),
		"column":      postgres.ProtectBy(t.Context(), pool, "inv", "", "", nil),
		"prefix":      postgres.ProtectBy(t.Context(), pool, "inv", "id", strings.Repeat("x", 513), nil),
		"LockTimeout": postgres.Unprotect(t.Context(), pool, "inv", short),
	} {
		var option *postgres.OptionError
		if !errors.As(err, &option) || option.Name != name {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := postgres.Protect(t.Context(), pool, "inv", "", nil); !errors.Is(err, fencedstore.ErrInvalidFence) {
		t.Errorf("no resource: %v", err)
	}
	mustScript(t, pool, "create view kvs as select * from kv; create table typed (j json, t timestamptz)")
	for want, err := range map[string]error{
		"42P01": postgres.Protect(t.Context(), pool, "nowhere", "r", nil),
		"42809": postgres.Protect(t.Context(), pool, "kvs", "r", nil),
		"42703": postgres.ProtectBy(t.Context(), pool, "kv", "nothing", "", nil),
		"42804": postgres.ProtectBy(t.Context(), pool, "typed", "t", "", nil),
	} {
		if code(t, err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := postgres.Protect(t.Context(), pool, "fencedstore.fence", "r", nil); code(t, err) != "42809" {
		t.Errorf("the table of fences: %v", err)
	}
}
