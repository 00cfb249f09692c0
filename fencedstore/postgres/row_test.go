package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// accounts is a table in row mode with the rows 1 and 2.
func accounts(tb testing.TB, changes ...func(*pgxpool.Config)) (*postgres.RowTable, *pgxpool.Pool) {
	tb.Helper()
	pool := openPool(tb, database(tb), changes...)
	mustScript(tb, pool, "create table account (id int primary key, balance int not null default 0, note text); insert into account values (1, 10), (2, 20)")
	if err := postgres.FenceRows(tb.Context(), pool, "account", 0); err != nil {
		tb.Fatal(err)
	}
	return rowTable(tb, newStore(tb, pool, nil)), pool
}

func rowTable(tb testing.TB, s *postgres.Store) *postgres.RowTable {
	tb.Helper()
	rows, err := s.Rows(pgx.Identifier{"account"}, "id")
	if err != nil {
		tb.Fatal(err)
	}
	return rows
}

type account struct {
	Balance int
	FenceID int64
	Deleted bool
}

func getAccount(tb testing.TB, pool *pgxpool.Pool, id int) (a account) {
	tb.Helper()
	err := pool.QueryRow(tb.Context(), "select balance, fence_id, fence_deleted from account where id = $1", id).Scan(&a.Balance, &a.FenceID, &a.Deleted)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		tb.Fatal(err)
	}
	return a
}

func balance(n int) map[string]any { return map[string]any{"balance": n} }

// rowCall is one of the calls of a RowTable.
type rowCall func(ctx context.Context, rows *postgres.RowTable, f fencedstore.Fence, id int) (bool, error)

func rowCalls() map[string]rowCall {
	return map[string]rowCall{
		"Update": func(ctx context.Context, rows *postgres.RowTable, f fencedstore.Fence, id int) (bool, error) {
			return rows.Update(ctx, f, balance(77), id)
		},
		"Upsert": func(ctx context.Context, rows *postgres.RowTable, f fencedstore.Fence, id int) (bool, error) {
			return rows.Upsert(ctx, f, balance(77), id)
		},
		"Delete": func(ctx context.Context, rows *postgres.RowTable, f fencedstore.Fence, id int) (bool, error) {
			return rows.Delete(ctx, f, id)
		},
		"Claim": func(ctx context.Context, rows *postgres.RowTable, f fencedstore.Fence, id int) (bool, error) {
			return true, rows.Claim(ctx, f, id)
		},
	}
}

func TestRowTakesNewerFencesOnly(t *testing.T) {
	t.Parallel()
	for _, mode := range execModes {
		rows, pool := accounts(t, execMode(mode))
		for name, call := range rowCalls() {
			f, other := fence("account/1", 5), fence("account/1", 5)
			mustScript(t, pool, "set fencedstore.purge = on; delete from account; insert into account values (1, 10)")
			for range 2 { // the same holder writes as often as it wants
				if changed, err := call(t.Context(), rows, f, 1); err != nil || !changed && name != "Delete" {
					t.Fatalf("%v, %s: %v, %v", mode, name, changed, err)
				}
			}
			before := getAccount(t, pool, 1)
			var stale *fencedstore.StaleError
			if _, err := call(t.Context(), rows, fence("account/1", 4), 1); !errors.As(err, &stale) || stale.Newest != 5 {
				t.Errorf("%v, older %s: %v", mode, name, err)
			}
			if _, err := call(t.Context(), rows, other, 1); !errors.Is(err, fencedstore.ErrFenceReused) {
				t.Errorf("%v, %s of another holder: %v", mode, name, err)
			}
			if got := getAccount(t, pool, 1); got != before || got.FenceID != 5 {
				t.Errorf("%v, %s: a refused call changed %v to %v", mode, name, before, got)
			}
		}
	}
}

func TestStaleNotFoundAndUnchangedAreToldApart(t *testing.T) {
	t.Parallel()
	rows, pool := accounts(t)
	ctx, f := t.Context(), fence("account", 5)
	for name, call := range rowCalls() {
		changed, err := call(ctx, rows, f, 3)
		if name == "Upsert" {
			if !changed || err != nil || getAccount(t, pool, 3).Balance != 77 {
				t.Errorf("Upsert of no row: %v, %v", changed, err)
			}
			mustScript(t, pool, "set fencedstore.purge = on; delete from account where id = 3")
		} else if changed && name != "Claim" || !errors.Is(err, fencedstore.ErrNotFound) {
			t.Errorf("%s of no row: %v, %v", name, changed, err)
		}
	}
	if changed, err := rows.Delete(ctx, f, 1); !changed || err != nil {
		t.Fatalf("Delete: %v, %v", changed, err)
	}
	if changed, err := rows.Delete(ctx, f, 1); changed || err != nil {
		t.Errorf("Delete again: %v, %v, want unchanged", changed, err)
	}
	if changed, err := rows.Update(ctx, f, balance(1), 1); changed || !errors.Is(err, fencedstore.ErrNotFound) {
		t.Errorf("Update of a deleted row: %v, %v", changed, err)
	}
	if _, err := rows.Update(ctx, fence("account", 4), balance(1), 1); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("older Update of a deleted row: %v", err)
	}
	if _, err := rows.Upsert(ctx, fence("account", 4), balance(1), 1); !errors.Is(err, fencedstore.ErrStale) || !getAccount(t, pool, 1).Deleted {
		t.Errorf("an older holder brought the row back: %v", err)
	}
	if err := rows.Claim(ctx, fence("account", 6), 1); !errors.Is(err, fencedstore.ErrNotFound) || getAccount(t, pool, 1).FenceID != 6 {
		t.Errorf("Claim of a deleted row: %v, mark %d", err, getAccount(t, pool, 1).FenceID)
	}
	if changed, err := rows.Upsert(ctx, fence("account", 7), balance(1), 1); !changed || err != nil || getAccount(t, pool, 1).Deleted {
		t.Errorf("a newer Upsert: %v, %v", changed, err)
	}
	// a count of zero although the row is there, made by a trigger
	mustScript(t, pool, "create function swallow() returns trigger language plpgsql as 'begin return null; end';"+
		"create trigger swallow before update on account for each row execute function swallow()")
	for name, call := range rowCalls() {
		changed, err := call(ctx, rows, fence("account", 8), 2)
		if name != "Claim" && (changed || err != nil) {
			t.Errorf("%s that a trigger swallows: %v, %v, want unchanged", name, changed, err)
		} else if name == "Claim" && (err == nil || errors.Is(err, fencedstore.ErrNotFound)) {
			t.Errorf("Claim that a trigger swallows: %v", err)
		}
	}
}

// Two holders write one row at the same time; whoever waited sees the other.
func TestRowCallsThatWaitSeeTheOtherHolder(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		rows, pool := accounts(t, setting("default_transaction_isolation", level))
		for name, call := range rowCalls() {
			for _, first := range []int64{4, 6} {
				mustScript(t, pool, "set fencedstore.purge = on; delete from account; insert into account values (1, 10, null, 1, sha256('x'))")
				done := make(chan error, 1)
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(t.Context(), "update account set balance = 11, fence_id = $1, fence_holder = sha256('y') where id = 1", first)
					go func() { _, err := call(t.Context(), rows, fence("account/1", 5), 1); done <- err }()
					untilWaiting(t, pool)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				err, got := <-done, getAccount(t, pool, 1)
				if first < 5 && (err != nil || got.FenceID != 5) || first > 5 && (!errors.Is(err, fencedstore.ErrStale) || got != account{11, 6, false}) {
					t.Errorf("%s, %s while %d writes: %v, %v", level, name, first, err, got)
				}
				if want := 77; first < 5 && (name == "Update" || name == "Upsert") && got.Balance != want {
					t.Errorf("%s, %s while %d writes: balance %d", level, name, first, got.Balance)
				}
			}
		}
	}
}

// Whoever writes by other means is held to the marks as far as a trigger sees.
func TestMarksOfRowsNeverFall(t *testing.T) {
	t.Parallel()
	rows, pool := accounts(t)
	f := fence("account/1", 5)
	if _, err := rows.Update(t.Context(), f, balance(1), 1); err != nil {
		t.Fatal(err)
	}
	s := &shop{}
	s.try(t, pool, []attempt{
		{"lower", "update account set fence_id = 4 where id = 1", "ZF001"},
		{"no fence", "update account set fence_id = 0, fence_holder = null where id = 1", "ZF001"},
		{"another holder", "update account set fence_holder = sha256('x') where id = 1", "ZF002"},
		{"upsert", "insert into account values (1, 1, null, 4, sha256('x')) on conflict (id) do update set fence_id = excluded.fence_id, fence_holder = excluded.fence_holder", "ZF001"},
		{"a fence without a holder", "update account set fence_id = 6, fence_holder = null", "23514"},
		{"an unhashed holder", "update account set fence_id = 6, fence_holder = 'x'", "23514"},
		{"DELETE", "delete from account", "23001"},
		{"TRUNCATE", "truncate account", "23001"},
		{"higher", "begin; update account set fence_id = 6, fence_holder = sha256('x')", ""},
		{"the condition", "begin; update account set balance = 5 where id = 1 and fencedstore.row_guard(fence_id, fence_holder, 4, sha256('x'))", "ZF001"},
		{"the condition without a fence", "begin; update account set balance = 5 where id = 1 and fencedstore.row_guard(fence_id, fence_holder, null, sha256('x'))", "ZF004"},
		{"the condition on other rows", "begin; update account set balance = 5 where id = 2 and fencedstore.row_guard(fence_id, fence_holder, 4, sha256('x'))", ""},
		{"purge", "begin; set local fencedstore.purge = on; delete from account; truncate account", ""},
		{"a client that knows nothing of fences, which is not noticed", "begin; update account set balance = 7 where id = 1", ""},
	})
}

func TestRowCallIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	_, pool := accounts(t)
	var wire trips
	counted := openPool(t, pool.Config().ConnString(), maxConns(1), noPing, func(c *pgxpool.Config) { c.ConnConfig.DialFunc = wire.dial })
	rows := rowTable(t, newStore(t, counted, nil))
	f := fence("account/1", 5)
	for _, name := range []string{"Claim", "Update", "Upsert", "Delete"} {
		call := func() error { _, err := rowCalls()[name](t.Context(), rows, f, 2); return err }
		if got := wire.of(t, call); got != 1 {
			t.Errorf("%s takes %d round trips", name, got)
		}
	}
}

func TestRowsRefuseBadArguments(t *testing.T) {
	t.Parallel()
	s := newStore(t, unused{t}, nil)
	for name, c := range map[string]struct {
		table pgx.Identifier
		key   []string
	}{
		"table": {nil, []string{"id"}}, "table ": {pgx.Identifier{"public", ""}, []string{"id"}}, "key": {pgx.Identifier{"t"}, nil},
		"key ": {pgx.Identifier{"t"}, []string{"a", "a"}}, "key  ": {pgx.Identifier{"t"}, []string{"fence_id"}}, "key   ": {pgx.Identifier{"t"}, []string{""}},
	} {
		var option *postgres.OptionError
		if _, err := s.Rows(c.table, c.key...); !errors.As(err, &option) || option.Name != strings.TrimSpace(name) {
			t.Errorf("%q: got %v", name, err)
		}
	}
	rows, err := s.Rows(pgx.Identifier{"t"}, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	ctx, f := t.Context(), fence("t", 1)
	_, few := rows.Update(ctx, f, balance(1), 1)
	_, many := rows.Delete(ctx, f, 1, 2, 3)
	_, nothing := rows.Update(ctx, f, nil, 1, 2)
	_, mark := rows.Upsert(ctx, f, map[string]any{"fence_deleted": false}, 1, 2)
	_, key := rows.Update(ctx, f, map[string]any{"b": 1}, 1, 2)
	_, empty := rows.Update(ctx, f, map[string]any{"": 1}, 1, 2)
	for want, errs := range map[string][]error{"key": {few, many, rows.Claim(ctx, f)}, "set": {nothing, mark, key, empty}} {
		for _, err := range errs {
			var option *postgres.OptionError
			if !errors.As(err, &option) || option.Name != want {
				t.Errorf("got %v, want something about %s", err, want)
			}
		}
	}
	if err := rows.Claim(ctx, fencedstore.Fence{}, 1, 2); !errors.Is(err, fencedstore.ErrInvalidFence) {
		t.Errorf("no fence: %v", err)
	}
}

func TestFenceRowsRefusesColumnsOfOtherTypes(t *testing.T) {
	t.Parallel()
	_, pool := accounts(t)
	mustScript(t, pool, "create table narrow (id int primary key, fence_id int not null default 0); create view v as select * from account")
	if err := postgres.FenceRows(t.Context(), pool, "narrow", 0); code(t, err) != "42804" || !strings.Contains(err.Error(), "fence_id is not bigint") {
		t.Errorf("an integer for fences: %v", err)
	}
	if err := postgres.FenceRows(t.Context(), pool, "v", 0); code(t, err) != "42809" {
		t.Errorf("a view: %v", err)
	}
	if err := postgres.FenceRows(t.Context(), pool, "account", 0); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

func TestPartitionsAreInRowMode(t *testing.T) {
	t.Parallel()
	_, pool := accounts(t)
	mustScript(t, pool, `create table part (id int, k int, primary key (id, k)) partition by list (k);
		create table part1 partition of part for values in (1)`)
	for _, later := range []string{"2", "3"} {
		if err := postgres.FenceRows(t.Context(), pool, "part", 0); err != nil {
			t.Fatal(err)
		}
		mustScript(t, pool, "create table part"+later+" partition of part for values in ("+later+")")
	}
	rows, err := newStore(t, pool, nil).Rows(pgx.Identifier{"public", "part"}, "k", "id")
	if err != nil {
		t.Fatal(err)
	}
	f := fence("part", 5)
	for k := range 3 {
		if changed, err := rows.Upsert(t.Context(), f, nil, k+1, 7); !changed || err != nil {
			t.Errorf("partition %d: %v, %v", k+1, changed, err)
		}
		if err := rows.Claim(t.Context(), fence("part", 4), k+1, 7); !errors.Is(err, fencedstore.ErrStale) {
			t.Errorf("partition %d: %v", k+1, err)
		}
	}
	(&shop{}).try(t, pool, []attempt{
		{"lower", "update part3 set fence_id = 4", "ZF001"},
		{"DELETE", "delete from part3", "23001"},
		{"TRUNCATE", "truncate part2", "23001"},
		{"TRUNCATE of what came later", "begin; truncate part3", ""},
	})
}

func TestRowCallWhoseAnswerIsLostHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	_, pool := accounts(t)
	k := openLossy(t, variant{mode: pgx.QueryExecModeExec, write: writeExec}, pool.Config().ConnString())
	rows, f := rowTable(t, k.Store), fence("account/1", 5)
	k.losing()
	if _, err := rows.Update(t.Context(), f, balance(3), 1); !errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	if changed, err := rows.Update(t.Context(), f, balance(3), 1); !changed || err != nil || getAccount(t, pool, 1) != (account{3, 5, false}) {
		t.Errorf("again: %v, %v", changed, err)
	}
}
