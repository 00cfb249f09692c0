package postgres_test

import (
	"errors"
	"testing"

	"github.com/fenced-go/fenced/fencedstore"
)

// Forms that keep the fence in the rows themselves.

const (
	items = "create table item (id int primary key, value bigint not null, fence_id bigint not null)"
	// putItem is an upsert by a fence, $3.
	putItem = "insert into item as i values ($1, $2, $3) on conflict (id)" +
		" do update set value = excluded.value, fence_id = excluded.fence_id where i.fence_id <= excluded.fence_id"
)

func (sc *scene) items() actor {
	sc.tb.Helper()
	a := sc.actor()
	a.do(items)
	a.do("insert into item values (1, 0, 4), (2, 0, 4)")
	return a
}

// The new holder has not been at the other row yet.
func TestFenceInTheRowsDoesNotProtectAResourceOfManyRows(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	a := sc.items()
	a.do(putItem, 1, 50, 5)
	if got := a.do(putItem, 2, 40, 4); got.RowsAffected() != 1 {
		t.Errorf("naive: the old holder's write of the other row: %v, want it through", got)
	}
	stale := a.do("update item set value = 40, fence_id = 4 where id = 1 and fence_id <= 4")
	absent := a.do("update item set value = 40, fence_id = 4 where id = 3 and fence_id <= 4")
	if stale.RowsAffected() != 0 || stale != absent {
		t.Errorf("naive: stale %v, absent %v, want the same", stale, absent)
	}

	sc.claim()
	for _, id := range []int{1, 2, 3} {
		_, err := sc.s.Exec(t.Context(), sc.old, putItem, id, 40, 4)
		sc.isStale(err)
	}
}

// Strictly newer means that a holder can write once.
func TestStrictComparisonRefusesTheHoldersOwnSecondWrite(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	a := sc.items()
	const write = "update item set value = value + 1, fence_id = 5 where id = 1 and fence_id < 5"
	if first, second := a.do(write), a.do(write); first.RowsAffected() != 1 || second.RowsAffected() != 0 {
		t.Errorf("naive: got %v and %v, want the second one refused", first, second)
	}

	for range 2 {
		if _, err := sc.s.Exec(t.Context(), sc.old, "update item set value = value + 1 where id = 2"); err != nil {
			t.Error(err)
		}
	}
	if got := a.number("select value from item where id = 2"); got != 2 {
		t.Errorf("value is %d after two writes", got)
	}
}

// The fence goes with the row, and the old holder puts it back.
func TestDeletedRowForgetsItsFence(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	a := sc.items()
	a.do("delete from item where id = 1 and fence_id <= 5")
	if got := a.do(putItem, 1, 40, 4); got.RowsAffected() != 1 {
		t.Errorf("naive: got %v, want the old holder to bring the row back", got)
	}

	sc.claim()
	if _, err := sc.s.Exec(t.Context(), sc.newer, "delete from item"); err != nil {
		t.Fatal(err)
	}
	_, err := sc.s.Exec(t.Context(), sc.old, putItem, 1, 40, 4)
	sc.isStale(err)
	if got := a.number("select count(*) from item"); got != 0 {
		t.Errorf("%d rows are back", got)
	}
}

// Whoever deletes a mark lets a slow older holder in again. Nothing of ours does,
// and the roles that may claim cannot.
func TestDeletedMarkLetsAnOlderHolderIn(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	slow := fence("r", 3) // acquired first, and claims last
	sc.claim()
	if err := sc.s.Claim(t.Context(), slow); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("a slow claim: %v, want stale", err)
	}
	run(t, sc.pool, "truncate stock, kv")
	if err := sc.s.Claim(t.Context(), slow); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("a slow claim after all data was deleted: %v, want stale", err)
	}
	run(t, sc.pool, "delete from fencedstore.fence")
	if err := sc.s.Claim(t.Context(), slow); err != nil {
		t.Errorf("naive: a slow claim after the mark was deleted: %v, want it through", err)
	}
}
