package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestProtectedTableRefusesWhoShowsNoFence(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	s.try(t, s.app, []attempt{
		{"UPDATE", "update inv set v = 1 where id = 1", "ZF004"},
		{"INSERT", "insert into inv values (99, 1)", "ZF004"},
		{"DELETE of no row", "delete from inv where id = -1", "ZF004"},
		{"TRUNCATE", "truncate inv", "ZF004"},
		{"MERGE", "merge into inv using (values (1)) s(i) on id = i when matched then update set v = 2", "ZF004"},
		{"ON CONFLICT DO NOTHING", "insert into inv values (1, 1) on conflict do nothing", "ZF004"},
		{"writable CTE", "with x as (update inv set v = 3 returning 1) select count(*) from x", "ZF004"},
		{"prepared statement", "prepare p as update inv set v = 3; execute p", "ZF004"},
		{"function", "do $$ begin update inv set v = 3; end $$", "ZF004"},
		{"foreign key, DELETE", "delete from parent where id = 1", "ZF004"},
		{"foreign key, UPDATE", "update parent set id = 7 where id = 1", "ZF004"},
		{"TRUNCATE CASCADE", "truncate parent cascade", "ZF004"},
		{"partitioned table", "update part set v = 1 where k = 1", "ZF004"},
		{"its TRUNCATE", "truncate part", "ZF004"},
		{"partition by name", "update part1 set v = 1", "ZF004"},
		{"partition of a partition", "insert into part21 values (1, 2, 0)", "ZF004"},
		{"its TRUNCATE ", "truncate part21", "ZF004"},
		{"partition that came later", "insert into part3 values (3, 3, 0)", "ZF004"},
		{"partition that came later, deeper", "insert into part22 values (3, 2, 0)", "ZF004"},
		{"heir by its parent", "update base set v = 1", "ZF004"},
		{"heir by name", "update heir set v = 1", "ZF004"},
		{"rows of tenants, UPDATE", "update tenanted set v = 1 where tenant = 'b'", "ZF004"},
		{"rows of tenants, INSERT", "insert into tenanted values (99, 'b')", "ZF004"},
		{"rows of tenants, DELETE", "delete from tenanted", "ZF004"},
		{"rows of tenants, TRUNCATE", "truncate tenanted", "ZF004"},
		{"rows of tenants, partition by name", "update split_a set v = 1", "ZF004"},
		{"rows of tenants, partition that came later", "insert into split_b values (1, 'b', 1)", "ZF004"},
		{"rows of tenants, moved to it", "begin;" + s.enter("tenant/a") + "update split set tenant = 'b'", "ZF004"},
	})
	s.try(t, s.admin, []attempt{
		{"superuser", "update inv set v = 1", "ZF004"},
		{"superuser, TRUNCATE", "truncate inv, tenanted", "ZF004"},
	})
}

func TestCopyIntoAProtectedTableIsRefused(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	for table, columns := range map[string][]string{"inv": {"id"}, "part": {"id", "k"}, "part1": {"id", "k"}, "part3": {"id", "k"}} {
		rows := pgx.CopyFromRows([][]any{[]any{int32(3), int32(3)}[:len(columns)]})
		_, err := s.app.CopyFrom(t.Context(), pgx.Identifier{table}, columns, rows)
		if got := code(t, err); got != "ZF004" {
			t.Errorf("COPY into %s: got %v", table, err)
		}
	}
	for _, tenant := range []string{"a", "b"} {
		_, err := s.app.CopyFrom(t.Context(), pgx.Identifier{"tenanted"}, []string{"id", "tenant"}, pgx.CopyFromRows([][]any{{int32(33), tenant}}))
		if got := code(t, err); got != "ZF004" {
			t.Errorf("COPY for tenant %s: got %v", tenant, err)
		}
	}
}

func TestProtectedTableTakesTheNewestHolder(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	inv, a := "begin;"+s.enter("inv"), "begin;"+s.enter("tenant/a")
	s.try(t, s.app, []attempt{
		{"all kinds", inv + "update inv set v = 1; insert into inv values (99, 1); delete from inv where id = 1;" +
			"merge into inv using (values (2)) s(i) on id = i when matched then update set v = 2; truncate inv; commit", ""},
		{"twice entered", inv + s.enter("inv") + "update inv set v = 1; commit", ""},
		{"two resources", inv + s.enter("child") + "update inv set v = 1; delete from parent where id = 1; commit", ""},
		{"partitions", "begin;" + s.enter("part") + "update part set v = 1; update part1 set v = 2; insert into part3 values (1, 3);" +
			"insert into part values (3, 2, 1); truncate part; commit", ""},
		{"heirs", "begin;" + s.enter("base") + "update base set v = 1; update heir set v = 2; commit", ""},
		{"own rows", a + "update tenanted set v = 1 where tenant = 'a'; insert into tenanted values (99, 'a'); delete from tenanted where id = 99;" +
			"insert into tenanted values (3, 'a', 5) on conflict (id) do update set v = 5; commit", ""},
		{"own rows in partitions", a + "update split set v = 1; insert into split_a values (2, 'a'); delete from split_a; commit", ""},
		{"rows of somebody else", a + "update tenanted set v = 1 where tenant = 'b'", "ZF004"},
		{"rows of both", a + "update tenanted set v = 1 where tenant in ('a', 'b')", "ZF004"},
		{"rows taken from somebody else", a + "update tenanted set tenant = 'a' where tenant = 'b'", "ZF004"},
		{"rows given to somebody else", a + "update tenanted set tenant = 'b' where tenant = 'a'", "ZF004"},
		{"rows of nobody", a + "insert into tenanted values (98, null)", "ZF004"},
		{"upsert over a row of somebody else", a + "insert into tenanted values (1, 'a') on conflict (id) do update set tenant = 'a'", "ZF004"},
	})
}

// What a client sets is compared with what was claimed.
func TestShownFenceCannotBeForged(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	const update = "update inv set v = 9"
	f := s.fences["inv"]
	s.try(t, s.app, []attempt{
		{"the right fence, set by hand", "begin;" + s.set("inv", f.ID, f.Holder) + update, ""},
		{"another holder", "begin;" + s.set("inv", f.ID, "x") + update, "ZF002"},
		{"a beginning of the holder", "begin;" + s.set("inv", f.ID, f.Holder[:8]) + update, "ZF002"},
		{"a higher fence", "begin;" + s.set("inv", 999, f.Holder) + update, "ZF003"},
		{"an older fence", "begin;" + s.set("inv", 4, f.Holder) + update, "ZF001"},
		{"another resource", "begin;" + s.set("in", f.ID, f.Holder) + update, "ZF004"},
		{"a fence of the other table", "begin;" + s.enter("child") + update, "ZF004"},
		{"garbage", "begin; set local fencedstore.shown = 'xx';" + update, "ZF004"},
		{"garbage in the ID", "begin; set local fencedstore.shown = E'\\n=inv\\n:5x:00;';" + update, "ZF004"},
		{"no int64", "begin; set local fencedstore.shown = E'\\n=inv\\n:9999999999999999999:00;';" + update, "ZF004"},
		{"no holder", "begin; set local fencedstore.shown = E'\\n=inv\\n:5:;';" + update, "ZF004"},
		{"half a byte", "begin; set local fencedstore.shown = E'\\n=inv\\n:5:0;';" + update, "ZF004"},
		{"the hash instead of the holder", "begin; select set_config('fencedstore.shown', E'\\n=inv\\n:5:' || encode(sha256('" + f.Holder + "'), 'hex') || ';', true);" + update, "ZF002"},
		{"triggers off", "set session_replication_role = replica;" + update, "42501"},
		{"trigger disabled", "alter table inv disable trigger all", "42501"},
		{"trigger dropped", "drop trigger a_fence on inv", "42501"},
		{"trigger replaced", "create or replace trigger a_fence before insert on inv for each statement execute function suppress_redundant_updates_trigger()", "42501"},
		{"unprotected", "select fencedstore.unprotect('inv')", "42501"},
		{"fences read", "select * from fencedstore.fence", "42501"},
		{"enforcing function replaced", "create or replace function fencedstore.enforce() returns trigger language plpgsql as 'begin return new; end'", "42501"},
	})
}

// A setting of the session must never outlive its transaction, however that
// ends: the next user of the connection would be taken for the holder.
func TestShownFenceEndsWithItsTransaction(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	one := openPool(t, s.app.Config().ConnString(), maxConns(1))
	store, f := newStore(t, one, nil), s.fences["inv"]
	unfenced := func(after string) {
		t.Helper()
		var shown *string
		_, err := one.Exec(t.Context(), "update inv set v = 9")
		if got := code(t, err); got != "ZF004" {
			t.Errorf("after %s: got %v, want no fence", after, err)
		}
		if err := one.QueryRow(t.Context(), "select nullif(current_setting('fencedstore.shown', true), '')").Scan(&shown); err != nil || shown != nil {
			t.Errorf("after %s: %q is still shown (%v)", after, *shown, err)
		}
	}
	update := func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "update inv set v = 9"); return err }
	if err := store.InTx(t.Context(), f, update); err != nil {
		t.Fatal(err)
	}
	unfenced("a commit")
	if err := store.InTx(t.Context(), f, func(pgx.Tx) error { return errCallback }); !errors.Is(err, errCallback) {
		t.Fatal(err)
	}
	unfenced("a rollback")
	func() {
		defer func() { _ = recover() }()
		_ = store.InTx(t.Context(), f, func(pgx.Tx) error { panic(errCallback) })
	}()
	unfenced("a panic")
	ctx, cancel := context.WithCancel(t.Context())
	_ = store.InTx(ctx, f, func(tx pgx.Tx) error { cancel(); return update(tx) })
	unfenced("a cancelled context")
	if _, err := store.Exec(t.Context(), f, "update inv set v = 9"); err != nil {
		t.Fatal(err)
	}
	unfenced("a batch")
	if err := script(t.Context(), s.app, "begin; savepoint s;"+s.enter("inv")+"rollback to s; update inv set v = 9"); code(t, err) != "ZF004" {
		t.Errorf("after the rollback of a savepoint: %v", err)
	}
}
