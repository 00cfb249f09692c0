package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore/postgres"
)

const shareRow = "select fence_id from naive where resource = 'r' and fence_id <= $1 for share"

// Two transactions of the new holder lock the row, shared, and then both want to
// raise it.
func TestShareThenRaiseDeadlocks(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	a, b := sc.actor(), sc.actor()
	for _, session := range []actor{a, b} {
		session.do("begin")
		session.do(shareRow, 5)
	}
	const raise = "update naive set fence_id = 5 where resource = 'r'"
	first := a.start(raise)
	errs := []error{b.try(raise)}
	b.do("rollback")
	errs = append(errs, (<-first).err)
	if isCode(errs[0], "40P01") == isCode(errs[1], "40P01") {
		t.Errorf("naive: got %v and %v, want one deadlock", errs[0], errs[1])
	}

	a, b = sc.actor(), sc.actor()
	claim := "select fencedstore.claim('r', 5, 'b', 30000)"
	a.do("begin")
	a.do(claim)
	again := b.start(claim)
	a.do("commit")
	if got := <-again; got.err != nil {
		t.Errorf("two claims of one holder: %v", got.err)
	}
	for _, session := range []actor{a, b} { // both are in at the same time
		session.do("begin")
		session.do("select fencedstore.guard('r', 5, 'b')")
	}
}

// A row lock whose condition fails once the wait is over stays all the same, on
// the new row, and the claim after next waits for somebody who was refused.
func TestRefusedShareLockStaysOnTheRow(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	a, b := sc.actor(), sc.actor()
	b.do("begin")
	b.do("update naive set fence_id = 5 where resource = 'r'")
	a.do("begin")
	shared := a.start(shareRow, 4)
	b.do("commit")
	if got := <-shared; got.err != nil || got.tag.RowsAffected() != 0 {
		t.Fatalf("naive: got %v, %v, want no row", got.tag, got.err)
	}
	if err := b.try("select from naive where resource = 'r' for update nowait"); !isCode(err, "55P03") {
		t.Errorf("naive: got %v, want the row locked by the refused holder", err)
	}

	a = sc.actor()
	b.do("begin")
	b.do("select fencedstore.claim('r', 5, 'b', 1000)")
	a.do("begin")
	guarded := a.start("select fencedstore.guard('r', 4, $1::bytea)", []byte(sc.old.Holder))
	b.do("commit")
	if got := <-guarded; !isCode(got.err, "ZF001") {
		t.Fatalf("guard: %v, want stale", got.err)
	}
	// a's transaction is still open, and in nobody's way
	if err := newStore(t, sc.pool, &postgres.Options{LockTimeout: time.Millisecond}).Claim(t.Context(), fence("r", 6)); err != nil {
		t.Errorf("claim beside a refused transaction: %v", err)
	}
}

// Rolling back to a savepoint gives up the locks that were taken since, of either
// kind, while the transaction goes on. InTx guards outside savepoints.
func TestGuardInsideASavepointIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(sc *scene, a actor){
		"guard":     func(sc *scene, a actor) { a.guard(sc.old) },
		"FOR SHARE": func(_ *scene, a actor) { a.do(shareRow, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc := newScene(t)
			a, b := sc.actor(), sc.actor()
			b.do("set lock_timeout = '1ms'")
			a.do("begin")
			a.do("savepoint s")
			take(sc, a)
			a.do("rollback to s")
			b.do("select fencedstore.claim('r', 5, 'b', 1)")
			b.do("update naive set fence_id = 5 where resource = 'r'")
			a.do("update stock set value = 4 where id = 'x'")
			a.do("commit")
			if got := sc.value("x"); got != 4 {
				t.Errorf("naive: x is %d, want the stale 4", got)
			}
		})
	}
	t.Run("InTx", func(t *testing.T) {
		t.Parallel()
		sc := newScene(t)
		b := sc.actor()
		err := sc.s.InTx(t.Context(), sc.old, func(tx pgx.Tx) error {
			nested, err := tx.Begin(t.Context())
			if err != nil {
				return err
			}
			if err := nested.Rollback(t.Context()); err != nil {
				return err
			}
			if err := b.try("select fencedstore.claim('r', 5, 'b', 1)"); !isCode(err, "55P03") {
				t.Errorf("claim after a rollback to a savepoint: %v, want it to wait", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
