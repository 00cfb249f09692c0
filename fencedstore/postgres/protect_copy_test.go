package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

func TestDumpAndRestoreKeepTheProtection(t *testing.T) {
	t.Parallel()
	s := openShop(t, &postgres.ProtectOptions{Always: true})
	path, err := exec.LookPath("pg_dump")
	if err != nil {
		testenv.Missing(t, "postgres", "pg_dump is not on the PATH")
	}
	cmd := exec.CommandContext(t.Context(), path, "--inserts", s.admin.Config().ConnString())
	dump, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var restore strings.Builder
	for line := range strings.Lines(string(dump)) {
		if !strings.HasPrefix(line, `\`) { // of psql
			restore.WriteString(line)
		}
	}
	empty := openPool(t, testenv.Database(t))
	mustScript(t, empty, restore.String())
	s.try(t, empty, []attempt{
		{"no fence", "update inv set v = 1", "ZF004"},
		{"as a replica", "set session_replication_role = replica; update inv set v = 1", "ZF004"},
		{"partition", "truncate part1", "ZF004"},
		{"rows of tenants", "update tenanted set v = 1", "ZF004"},
		{"the holder", "begin;" + s.enter("inv") + "update inv set v = 1; truncate inv", ""},
		{"the holder of rows", "begin;" + s.enter("tenant/a") + "update tenanted set v = 1 where tenant = 'a'", ""},
	})
	if got, want := triggers(t, empty, "part"), triggers(t, s.admin, "part"); got != want {
		t.Errorf("part has %d triggers, had %d", got, want)
	}
}

// A subscriber's own protection leaves alone what replication applies.
func TestSubscriberReceivesWhatAHolderWrote(t *testing.T) {
	t.Parallel()
	source, target := openShop(t, nil), openPool(t, database(t))
	subscribe(t, source.admin, target)
	f := source.fences["inv"]
	if _, err := source.store.Exec(t.Context(), f, "update inv set v = 777 where id = 3"); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, within, "the row arrives", func() bool {
		var v int
		return target.QueryRow(t.Context(), "select v from inv where id = 3").Scan(&v) == nil && v == 777
	})
	if _, err := target.Exec(t.Context(), "update inv set v = 1"); code(t, err) != "ZF004" {
		t.Errorf("a client of the subscriber: %v", err)
	}
}

// subscribe replicates the table inv from one database into the other, which
// protects it.
func subscribe(tb testing.TB, source, target *pgxpool.Pool) {
	tb.Helper()
	var level string
	if err := source.QueryRow(tb.Context(), "show wal_level").Scan(&level); err != nil {
		tb.Fatal(err)
	}
	if level != "logical" {
		testenv.Missing(tb, "postgres", "its wal_level is "+level+", and replication needs logical")
	}
	name := "sub_" + target.Config().ConnConfig.Database
	u, err := url.Parse(source.Config().ConnString())
	if err != nil {
		tb.Fatal(err)
	}
	mustScript(tb, target, "create table inv (id int primary key, v int); insert into inv select n, 0 from generate_series(1, 10) n")
	if err := postgres.Protect(tb.Context(), target, "inv", "inv", nil); err != nil {
		tb.Fatal(err)
	}
	mustScript(tb, source, "create publication inv for table inv")
	mustScript(tb, source, fmt.Sprintf("select pg_create_logical_replication_slot('%s', 'pgoutput')", name))
	tb.Cleanup(func() { dropSlot(tb, source, name) })
	mustScript(tb, target, fmt.Sprintf("create subscription %s connection '%s' publication inv with (create_slot = false, slot_name = '%s', copy_data = false)",
		name, strings.ReplaceAll(u.String(), "'", "''"), name))
	tb.Cleanup(func() {
		ctx := context.WithoutCancel(tb.Context())
		for _, query := range []string{"disable", "set (slot_name = none)"} {
			if err := script(ctx, target, "alter subscription "+name+" "+query); err != nil {
				tb.Error(err)
			}
		}
		if err := script(ctx, target, "drop subscription "+name); err != nil {
			tb.Error(err)
		}
	})
}

// dropSlot waits until nobody reads from the slot any more.
func dropSlot(tb testing.TB, pool *pgxpool.Pool, name string) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	testenv.Eventually(tb, within, "the slot is free", func() bool {
		return script(ctx, pool, "select pg_drop_replication_slot('"+name+"')") == nil
	})
}

// The text of a column's value is the end of the resource's name, as the program
// writes it.
func TestRowsOfAnyValueAreFound(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	for column, values := range map[string][]string{
		"text":    {`back\slash`, "ä", "", "two\nlines", "=x\n:1:00;", `\x00`, "*"},
		"varchar": {"a", "b "}, "int": {"7", "-1"}, "bigint": {"9223372036854775807"}, "smallint": {"3"},
		"uuid": {"9f1c3c9e-0d8e-4f6b-8a52-0c4f0a6f7b11"},
	} {
		table := pgx.Identifier{"of " + column}.Sanitize()
		mustScript(t, s.admin, "create table "+table+" (owner "+column+"); grant all on "+table+" to public")
		if err := postgres.ProtectBy(t.Context(), s.admin, table, "owner", `own\er/`, nil); err != nil {
			t.Fatal(err)
		}
		for _, value := range values {
			f := claimed(t, s.store, `own\er/`+value, 1)
			insert := "insert into " + table + " values (($1::text)::" + column + ")"
			if _, err := s.store.Exec(t.Context(), f, insert, value); err != nil {
				t.Errorf("%s %q: %v", column, value, err)
			}
			if _, err := s.store.Exec(t.Context(), s.fences["inv"], insert, value); code(t, err) != "ZF004" {
				t.Errorf("%s %q by another holder: %v", column, value, err)
			}
		}
	}
}
