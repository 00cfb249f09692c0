package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// triggers counts those of a table and of what is below it.
func triggers(tb testing.TB, pool *pgxpool.Pool, table string) (n int) {
	tb.Helper()
	if err := pool.QueryRow(tb.Context(), "select count(*) from fencedstore.guards($1::text::regclass)", table).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func TestProtectReplacesWhatWasSaidBefore(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	for _, table := range []string{"split", "tenanted"} {
		by := triggers(t, s.admin, table)
		for range 2 {
			if err := postgres.Protect(t.Context(), s.admin, table, "inv", nil); err != nil {
				t.Fatal(err)
			}
			s.try(t, s.app, []attempt{
				{"old resource", "begin;" + s.enter("tenant/a") + "delete from " + table, "ZF004"},
				{"new resource", "begin;" + s.enter("inv") + "truncate " + table, ""},
			})
		}
		for range 2 {
			if err := postgres.ProtectBy(t.Context(), s.admin, table, "tenant", "tenant/", nil); err != nil {
				t.Fatal(err)
			}
		}
		// a partition that came later has statement triggers by now
		if got := triggers(t, s.admin, table); got < by || table == "tenanted" && got != by {
			t.Errorf("%s: %d triggers, there were %d", table, got, by)
		}
		if err := postgres.Unprotect(t.Context(), s.admin, table, nil); err != nil {
			t.Fatal(err)
		}
		if got := triggers(t, s.admin, table); got != 0 {
			t.Errorf("%s: %d triggers are left", table, got)
		}
		if err := postgres.Unprotect(t.Context(), s.admin, table, nil); err != nil {
			t.Errorf("%s again: %v", table, err)
		}
	}
}

func TestProtectIsRolledBackWithItsTransaction(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	err := pgx.BeginFunc(t.Context(), s.admin, func(tx pgx.Tx) error {
		if err := postgres.Unprotect(t.Context(), tx, "inv", nil); err != nil {
			t.Fatal(err)
		}
		return errCallback
	})
	if err == nil || triggers(t, s.admin, "inv") == 0 {
		t.Errorf("a rolled back Unprotect had an effect (%v)", err)
	}
}

func TestProtectWaitsForALimitedTimeAndRestoresTheSettings(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	hasty := &postgres.ProtectOptions{LockTimeout: 20 * time.Millisecond}
	err := pgx.BeginFunc(t.Context(), s.admin, func(busy pgx.Tx) error {
		if err := execTx(t, busy, "lock table inv in row exclusive mode"); err != nil {
			return err
		}
		for name, err := range map[string]error{
			"Protect":   postgres.Protect(t.Context(), s.admin, "inv", "inv", hasty),
			"ProtectBy": postgres.ProtectBy(t.Context(), s.admin, "inv", "id", "", hasty),
			"Unprotect": postgres.Unprotect(t.Context(), s.admin, "inv", hasty),
		} {
			if code(t, err) != "55P03" {
				t.Errorf("%s: %v", name, err)
			}
		}
		// the session's own limit is not raised
		return script(t.Context(), s.admin, "set lock_timeout = 10; set statement_timeout = '60s';"+
			" do $$ begin perform fencedstore.protect('inv', 'inv', p_wait_ms => 3600000); exception when lock_not_available then return; end $$")
	})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), s.admin, func(tx pgx.Tx) error {
		var after string
		if err := execTx(t, tx, "set local lock_timeout = '77s'"); err != nil {
			return err
		}
		if err := postgres.Protect(t.Context(), tx, "inv", "inv", hasty); err != nil {
			return err
		}
		err := tx.QueryRow(t.Context(), "show lock_timeout").Scan(&after)
		if after != "77s" {
			t.Errorf("lock_timeout is %s afterwards, was 77s", after)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPartitionsComeAndGo(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	mustScript(t, s.admin, `alter table part detach partition part1;
		create table part9 (id int, k int, v int); grant all on part9 to public`)
	if err := postgres.Protect(t.Context(), s.admin, "part9", "inv", nil); err != nil {
		t.Fatal(err)
	}
	mustScript(t, s.admin, "alter table part attach partition part9 for values in (9)")
	s.try(t, s.app, []attempt{
		{"detached", "update part1 set v = 1", "ZF004"},
		{"attached with a resource of its own", "begin;" + s.enter("part") + "insert into part9 values (1, 9)", "ZF004"},
		{"attached, only its own", "begin;" + s.enter("inv") + "insert into part9 values (1, 9)", "ZF004"},
		{"attached, both", "begin;" + s.enter("inv") + s.enter("part") + "insert into part9 values (1, 9)", ""},
		{"attached, by the table", "begin;" + s.enter("part") + "insert into part values (1, 9)", ""},
	})
	for _, table := range []string{"part2", "part9"} {
		for name, err := range map[string]error{
			"Protect":   postgres.Protect(t.Context(), s.admin, table, "x", nil),
			"Unprotect": postgres.Unprotect(t.Context(), s.admin, table, nil),
		} {
			if code(t, err) != "55000" {
				t.Errorf("%s of the partition %s alone: %v", name, table, err)
			}
		}
	}
	mustScript(t, s.admin, "alter table part attach partition part1 for values in (1)")
	if err := postgres.Protect(t.Context(), s.admin, "part", "part", nil); err != nil {
		t.Fatal(err)
	}
	s.try(t, s.app, []attempt{
		{"attached again", "update part1 set v = 1", "ZF004"},
		{"attached, now as all", "begin;" + s.enter("part") + "insert into part9 values (1, 9); truncate part", ""},
	})
	if err := postgres.Unprotect(t.Context(), s.admin, "part", nil); err != nil || triggers(t, s.admin, "part") != 0 {
		t.Errorf("%d triggers are left (%v)", triggers(t, s.admin, "part"), err)
	}
}

func TestTableThatIsRenamedStaysProtected(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	mustScript(t, s.admin, `alter table inv rename to "In v"; create schema other; alter table "In v" set schema other; grant usage on schema other to public`)
	s.try(t, s.app, []attempt{
		{"no fence", `update other."In v" set v = 1`, "ZF004"},
		{"the holder", "begin;" + s.enter("inv") + `update other."In v" set v = 1`, ""},
	})
	if err := postgres.Protect(t.Context(), s.admin, `other."In v"`, "child", nil); err != nil {
		t.Fatal(err)
	}
	s.try(t, s.app, []attempt{{"another resource", "begin;" + s.enter("inv") + `update other."In v" set v = 1`, "ZF004"}})
	mustScript(t, s.admin, "alter table tenanted rename tenant to renamed")
	s.try(t, s.app, []attempt{{"column that was renamed", "begin;" + s.enter("tenant/a") + "update tenanted set v = 1", "42703"}})
}

// The name of a column becomes part of a function that runs with its owner's
// rights.
func TestColumnMayHaveAnyName(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	for i, column := range []string{
		"a b", `quo"te`, `apo'strophe`, `back\slash`, "$f$; select 1/0 $f$", "$b$ $$", "r", "new", "column", "v_values", "%1$I", "select",
		strings.Repeat("long", 15), strings.Repeat("long", 14) + "er", strings.Repeat(`\`, 60), "ÄÖÜ",
	} {
		table := fmt.Sprintf("named%d", i)
		mustScript(t, s.admin, fmt.Sprintf("create table %s (%s text); grant all on %s to public", table, pgx.Identifier{column}.Sanitize(), table))
		for range 2 {
			if err := postgres.ProtectBy(t.Context(), s.admin, table, column, "tenant/", nil); err != nil {
				t.Fatalf("%s: %v", column, err)
			}
		}
		s.try(t, s.app, []attempt{
			{column + ", no fence", "insert into " + table + " values ('a')", "ZF004"},
			{column + ", the holder", "begin;" + s.enter("tenant/a") + "insert into " + table + " values ('a'); delete from " + table, ""},
			{column + ", another resource", "begin;" + s.enter("tenant/a") + "insert into " + table + " values ('b')", "ZF004"},
		})
	}
}

func TestTablesAreProtectedAtTheSameTime(t *testing.T) {
	t.Parallel()
	_, pool := setUp(t)
	const n = 8
	errs := make(chan error, n)
	for i := range n {
		mustScript(t, pool, fmt.Sprintf("create table many%d (tenant text)", i))
	}
	for i := range n {
		go func() { errs <- postgres.ProtectBy(t.Context(), pool, fmt.Sprintf("many%d", i), "tenant", "", nil) }()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
