package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

type warning struct {
	Role, Application, Table, Operation, Resource, Code string
	Transactions                                        int64
	First, Last                                         time.Time
	PID                                                 int32
}

func warnings(tb testing.TB, admin *pgxpool.Pool, where string) []warning {
	tb.Helper()
	rows, _ := admin.Query(tb.Context(), "select * from fencedstore.warnings where "+where+" order by operation, resource, code")
	ws, err := pgx.CollectRows(rows, pgx.RowToStructByPos[warning])
	if err != nil {
		tb.Fatal(err)
	}
	return ws
}

func TestWarnOnlyLetsEverythingThroughAndRecordsIt(t *testing.T) {
	t.Parallel()
	s := openShop(t, &postgres.ProtectOptions{WarnOnly: true})
	s.try(t, s.app, []attempt{
		{"no fence, one transaction", "set application_name = 'old'; update inv set v = 1; update inv set v = 2", ""},
		{"no fence, another", "set application_name = 'old'; begin; update inv set v = 3; update inv set v = 4; commit", ""},
		{"rolled back", "set application_name = 'old'; begin; delete from inv; rollback", ""},
		{"stale", "begin;" + s.set("inv", 4, "x") + "insert into inv values (97, 1); commit", ""},
		{"another holder", "begin;" + s.set("inv", 5, "x") + "insert into inv values (98, 1); commit", ""},
		{"never claimed", "begin;" + s.set("inv", 6, "x") + "insert into inv values (99, 1); commit", ""},
		{"garbage", "begin; set local fencedstore.shown = 'xx'; insert into inv values (96, 1); commit", ""},
		{"rows of tenants", "update tenanted set tenant = 'c' where tenant = 'b'", ""},
		{"TRUNCATE", "truncate tenanted", ""},
		{"partition that came later", "insert into part3 values (1, 3), (2, 3)", ""},
		{"the holder", "begin;" + s.enter("inv") + "update inv set v = 5; commit", ""},
	})
	role := s.app.Config().ConnConfig.User
	for where, want := range map[string][]warning{
		"table_name = 'public.inv' and operation = 'UPDATE'": {{Application: "old", Operation: "UPDATE", Resource: "inv", Code: "ZF004", Transactions: 2}},
		"operation = 'DELETE'":                               nil,
		"table_name = 'public.inv' and operation = 'INSERT'": {
			{Operation: "INSERT", Resource: "inv", Code: "ZF001", Transactions: 1},
			{Operation: "INSERT", Resource: "inv", Code: "ZF002", Transactions: 1},
			{Operation: "INSERT", Resource: "inv", Code: "ZF003", Transactions: 1},
			{Operation: "INSERT", Resource: "inv", Code: "ZF004", Transactions: 1},
		},
		"table_name = 'public.tenanted'": {
			{Operation: "TRUNCATE", Resource: "tenant/*", Code: "ZF004", Transactions: 1},
			{Operation: "UPDATE", Resource: "tenant/b", Code: "ZF004", Transactions: 1},
			{Operation: "UPDATE", Resource: "tenant/c", Code: "ZF004", Transactions: 1},
		},
		"table_name = 'public.part3'": {{Operation: "INSERT", Resource: "part", Code: "ZF004", Transactions: 1}},
	} {
		got := warnings(t, s.admin, where)
		if len(got) != len(want) {
			t.Errorf("%s: got %v, want %v", where, got, want)
			continue
		}
		for i, w := range got {
			if w.Role != role || w.PID == 0 || w.Last.Before(w.First) || time.Since(w.First) > time.Hour {
				t.Errorf("%s: got %+v", where, w)
			}
			w.Role, w.Table, w.PID, w.First, w.Last = "", "", 0, time.Time{}, time.Time{}
			if w != want[i] {
				t.Errorf("%s: got %+v, want %+v", where, w, want[i])
			}
		}
	}
}

func TestWarnOnlyRecordsWhoASessionActsAs(t *testing.T) {
	t.Parallel()
	s := openShop(t, &postgres.ProtectOptions{WarnOnly: true})
	role := pgx.Identifier{s.app.Config().ConnConfig.User}.Sanitize()
	mustScript(t, s.admin, "set role "+role+"; update inv set v = 1")
	if got := warnings(t, s.admin, "true"); len(got) != 1 || got[0].Role != s.app.Config().ConnConfig.User {
		t.Errorf("got %v, want %s", got, role)
	}
}

// Transactions that are warned about at the same time must not wait for each
// other: protection that is being rolled out slows nobody down.
func TestWarnOnlyMakesNobodyWait(t *testing.T) {
	t.Parallel()
	s := openShop(t, &postgres.ProtectOptions{WarnOnly: true})
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		mustScript(t, s.admin, "delete from fencedstore.warned")
		ctx, cancel := context.WithTimeout(t.Context(), within)
		const rounds, together = 3, 3
		for range rounds {
			var txs []pgx.Tx
			for i := range together {
				tx, err := s.app.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := tx.Exec(ctx, "update inv set v = 1 where id = $1", i+1); err != nil {
					t.Fatalf("%s: %v", level, err)
				}
				txs = append(txs, tx)
			}
			for _, tx := range txs {
				if err := tx.Commit(ctx); err != nil {
					t.Fatalf("%s: %v", level, err)
				}
			}
		}
		cancel()
		var rows int
		if err := s.admin.QueryRow(t.Context(), "select count(*) from fencedstore.warned").Scan(&rows); err != nil {
			t.Fatal(err)
		}
		if got := warnings(t, s.admin, "true"); len(got) != 1 || got[0].Transactions != rounds*together {
			t.Errorf("%s: got %v, want %d transactions", level, got, rounds*together)
		}
		if level == pgx.ReadCommitted && rows > together {
			t.Errorf("%d counters for %d transactions at a time", rows, together)
		}
	}
}

// One transaction over many resources costs a bounded number of records.
func TestWarningsOfOneTransactionAreBounded(t *testing.T) {
	t.Parallel()
	s := openShop(t, &postgres.ProtectOptions{WarnOnly: true})
	mustScript(t, s.app, "insert into tenanted select n, n from generate_series(1000, 3000) n")
	var n int
	if err := s.admin.QueryRow(t.Context(), "select count(*) from fencedstore.warned").Scan(&n); err != nil || n < 50 || n > 1000 {
		t.Errorf("%d records for 2001 resources (%v)", n, err)
	}
}

func TestWarnOnlyBecomesRefusal(t *testing.T) {
	t.Parallel()
	s := openShop(t, &postgres.ProtectOptions{WarnOnly: true})
	if err := postgres.Protect(t.Context(), s.admin, "inv", "inv", nil); err != nil {
		t.Fatal(err)
	}
	_, err := s.store.Exec(t.Context(), s.fences["child"], "update inv set v = 1")
	if !errors.Is(err, fencedstore.ErrNoFence) {
		t.Errorf("got %v", err)
	}
}
