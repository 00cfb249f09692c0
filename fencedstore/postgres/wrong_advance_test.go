package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
)

// Forms that raise the mark in the transaction that does the work, instead of a
// claim before it.

const upsertGuard = "insert into naive as n values ($1, $2) on conflict (resource)" +
	" do update set fence_id = excluded.fence_id where n.fence_id <= excluded.fence_id"

// The new holder raises the mark, reads and rolls back for another reason. So
// does its mark, and an older holder changes what it has read.
func TestMarkThatRollsBackLosesAnUpdate(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	a, b := sc.actor(), sc.actor()
	b.do("begin")
	b.do(upsertGuard, "r", 5)
	read := b.number("select value from stock where id = 'x'")
	b.do("rollback")
	a.do("begin")
	a.do(upsertGuard, "r", 4)
	a.do("update stock set value = value - 30 where id = 'x'")
	a.do("commit")
	b.do("begin")
	b.do(upsertGuard, "r", 5)
	b.do("update stock set value = $1 where id = 'x'", read-10)
	b.do("commit")
	if got := sc.value("x"); got != 90 {
		t.Errorf("naive: x is %d, want 90, the 30 being lost", got)
	}

	sc = newScene(t)
	sc.claim()
	err := sc.s.InTx(t.Context(), sc.newer, func(tx pgx.Tx) error {
		err := tx.QueryRow(t.Context(), "select value from stock where id = 'x'").Scan(&read)
		return errors.Join(err, errCallback)
	})
	if !errors.Is(err, errCallback) {
		t.Fatal(err)
	}
	_, err = sc.s.Exec(t.Context(), sc.old, "update stock set value = value - 30 where id = 'x'")
	sc.isStale(err)
	if _, err := sc.s.Exec(t.Context(), sc.newer, "update stock set value = $1 where id = 'x'", read-10); err != nil {
		t.Fatal(err)
	}
	if got := sc.value("x"); got != 90 {
		t.Errorf("x is %d, want 90", got)
	}
}

// At repeatable read the new holder's snapshot is older than its wait for the
// old one: it raises the mark and works on what was there before.
func TestRaisingAtRepeatableReadWorksOnOldData(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	a, b := sc.actor(), sc.actor()
	a.do("begin")
	a.do(shareRow, 4)
	a.do("update stock set value = 70 where id = 'x'")
	b.begin(pgx.RepeatableRead)
	raised := b.start("update naive set fence_id = 5 where resource = 'r'")
	a.do("commit")
	if got := <-raised; got.err != nil { // the row was locked and not changed
		t.Fatal(got.err)
	}
	if got := b.number("select value from stock where id = 'x'"); got != 100 {
		t.Errorf("naive: the new holder reads %d, want the 100 of before", got)
	}
	b.do("insert into kv values ('bill', '100')")
	b.do("commit")

	sc = newScene(t)
	sc.claimWaits(pgx.ReadCommitted) // writes 4
	err := sc.s.InTxOptions(t.Context(), sc.newer, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		var read int64
		err := tx.QueryRow(t.Context(), "select value from stock where id = 'x'").Scan(&read)
		if read != 4 {
			t.Errorf("the new holder reads %d, want the 4 that was written last", read)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRaisingTwoResourcesInOppositeOrderDeadlocks(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	a, b := sc.actor(), sc.actor()
	a.do("begin")
	a.do(upsertGuard, "r", 5)
	b.do("begin")
	b.do(upsertGuard, "s", 5)
	first := a.start(upsertGuard, "s", 5)
	errs := []error{b.try(upsertGuard, "r", 5)}
	b.do("rollback")
	errs = append(errs, (<-first).err)
	if isCode(errs[0], "40P01") == isCode(errs[1], "40P01") {
		t.Errorf("naive: got %v and %v, want one deadlock", errs[0], errs[1])
	}

	r, s := sc.old, claimed(t, sc.s, "s", 4)
	a, b = sc.actor(), sc.actor()
	a.do("begin")
	a.guard(r)
	b.do("begin")
	b.guard(s)
	a.guard(s) // neither waits
	b.guard(r)
}

// Every write of the holder updates the row of the mark, so that its own
// transactions wait for each other, or fail.
func TestRaisingEachTimeSerializesTheHolder(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	a, b := sc.actor(), sc.actor()
	a.do("begin")
	a.do(upsertGuard, "r", 4)
	b.do("begin")
	sibling := b.start(upsertGuard, "r", 4)
	a.do("commit")
	if got := <-sibling; got.err != nil {
		t.Fatal(got.err)
	}
	b.do("rollback")
	b.begin(pgx.RepeatableRead)
	a.do(upsertGuard, "r", 4)
	if err := b.try(upsertGuard, "r", 4); !isCode(err, "40001") {
		t.Errorf("naive: a sibling at repeatable read got %v, want 40001", err)
	}
	before := a.number("select xmin::text::bigint from naive where resource = 'r'")
	a.do(upsertGuard, "r", 4)
	if a.number("select xmin::text::bigint from naive where resource = 'r'") == before {
		t.Error("naive: the row was not written again")
	}

	for _, level := range levels {
		a, b = sc.actor(), sc.actor()
		const row = "select xmin::text::bigint from fencedstore.fence where resource = 'r'"
		before := a.number(row)
		a.begin(level)
		b.begin(level)
		a.guard(sc.old)
		a.do("update stock set value = value + 1 where id = 'x'")
		a.do("commit")
		b.guard(sc.old)
		b.do("update stock set value = value + 1 where id = 'y'")
		b.do("commit")
		if a.number(row) != before {
			t.Errorf("%s: a guard wrote the row of the fence", level)
		}
	}
}

// Any number is good for a resource that nobody has claimed, and a refused upsert
// locks the row all the same.
func TestUpsertGuardAcceptsAnyFirstFenceAndLocksWhenItRefuses(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	a, b := sc.actor(), sc.actor()
	if got := a.do(upsertGuard, "new", 3); got.RowsAffected() != 1 {
		t.Errorf("naive: got %v for a fence that nobody claimed", got)
	}
	a.do("begin")
	if got := a.do(upsertGuard, "r", 3); got.RowsAffected() != 0 {
		t.Fatalf("a stale upsert: %v", got)
	}
	if err := b.try("select from naive where resource = 'r' for update nowait"); !isCode(err, "55P03") {
		t.Errorf("naive: got %v, want the row locked by a refused holder", err)
	}

	if _, err := sc.s.Exec(t.Context(), fence("new", 3), "select 1"); !errors.Is(err, fencedstore.ErrNotClaimed) {
		t.Errorf("guard: got %v, want not claimed", err)
	}
}

// One statement has one snapshot. What comes after the wait in it is of before.
func TestStatementThatRaisesAndReadsMissesTheOldHoldersWrites(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	a, b := sc.actor(), sc.actor()
	const raise = "with g as (update naive set fence_id = 5 where resource = 'r' and fence_id <= 5 returning 1) "
	a.do("begin")
	a.do("select from naive where resource = 'r' for update")
	a.do("update stock set value = 70 where id = 'x'")
	a.do("insert into stock values ('z', 1)")
	copied := b.startNumber(raise + "update stock set value = (select value from stock where id = 'x')" +
		" where id = 'y' and exists (select from g) returning value")
	a.do("commit")
	if got := <-copied; got.err != nil || got.n != 100 {
		t.Errorf("naive: copied %d, %v, want the 100 of before", got.n, got.err)
	}
	a.do("begin")
	a.do("select from naive where resource = 'r' for update")
	a.do("insert into stock values ('new', 1)")
	changed := b.start(raise + "update stock set value = 2 where id = 'new' and exists (select from g)")
	a.do("commit")
	if got := <-changed; got.err != nil || got.tag.RowsAffected() != 0 {
		t.Errorf("naive: got %v, %v, want the old holder's row to be missed", got.tag, got.err)
	}

	sc = newScene(t)
	sc.claimWaits(pgx.ReadCommitted) // writes 4
	_, err := sc.s.Exec(t.Context(), sc.newer, "update stock set value = (select value from stock where id = 'x') where id = 'y'")
	if got := sc.value("y"); err != nil || got != 4 {
		t.Errorf("copied %d, %v, want the 4 that was written last", got, err)
	}
}
