package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// The check is a plain SELECT and the comparison is made in the program. A claim
// comes between the check and the write, and the write is committed after it.
// At serializable, too: old before new is a legal order.
func TestComparingInTheProgramLetsAStaleWriteThrough(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			sc := newScene(t)
			a, b := sc.actor(), sc.actor()
			a.begin(level)
			if n := a.number("select fence_id from naive where resource = 'r'"); n != 4 {
				t.Fatalf("the check saw %d", n)
			}
			b.begin(level)
			b.do("update naive set fence_id = 5 where resource = 'r'")
			b.do("commit")
			a.do("update stock set value = 4 where id = 'x'")
			a.do("commit")
			if got := sc.value("x"); got != 4 {
				t.Errorf("naive: x is %d, want the stale 4", got)
			}
			sc.claimWaits(level)
		})
	}
}

// FOR KEY SHARE does not conflict with the UPDATE of a column that is in no key.
func TestKeyShareLockDoesNotStopAClaim(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			sc := newScene(t)
			a, b := sc.actor(), sc.actor()
			const check = "select fence_id from naive where resource = 'r' for key share"
			claim := func() { b.do("update naive set fence_id = 5 where resource = 'r'") }
			a.begin(level)
			if level == pgx.ReadCommitted {
				a.do(check)
				claim() // returns while the lock is held
			} else {
				claim()
				if n := a.number(check); n != 4 { // of the old snapshot
					t.Fatalf("the check saw %d", n)
				}
			}
			a.do("update stock set value = 4 where id = 'x'")
			a.do("commit")
			if got := sc.value("x"); got != 4 {
				t.Errorf("naive: x is %d, want the stale 4", got)
			}
			sc.claimWaits(level)
		})
	}
}

// The right lock, but the check is in the same statement, or in a function that
// shares its snapshot: the snapshot is older than the wait.
func TestCheckInTheStatementThatLocksSeesTheWorldBeforeTheClaim(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]string{
		"one statement": "select fence_id from (select pg_advisory_xact_lock_shared(7, 0), fence_id from naive where resource = 'r' offset 0) n",
		"CTE": "with held as materialized (select pg_advisory_xact_lock_shared(7, 0))" +
			" select fence_id from naive, held where resource = 'r'",
		"STABLE function": "select stable_check()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc := newScene(t)
			a, b := sc.actor(), sc.actor()
			a.do(`create function stable_check() returns bigint language plpgsql stable as $$ begin
				perform pg_advisory_xact_lock_shared(7, 0);
				return (select fence_id from naive where resource = 'r'); end $$`)
			b.do("begin")
			b.do("select pg_advisory_xact_lock(7, 0)")
			b.do("update naive set fence_id = 5 where resource = 'r'")
			a.do("begin")
			checked := a.startNumber(check)
			b.do("commit")
			if got := <-checked; got.err != nil || got.n != 4 {
				t.Fatalf("naive: the check saw %d, %v, want the old 4", got.n, got.err)
			}
			a.do("update stock set value = 4 where id = 'x'")
			a.do("commit")
			if got := sc.value("x"); got != 4 {
				t.Errorf("naive: x is %d, want the stale 4", got)
			}
		})
	}
	t.Run("guard", func(t *testing.T) {
		t.Parallel()
		sc := newScene(t)
		b := sc.actor()
		b.do("begin")
		b.do("select fencedstore.claim('r', 5, 'b', 1000)")
		guarded := make(chan error, 1)
		go func() { guarded <- sc.s.InTx(t.Context(), sc.old, nil) }()
		untilWaiting(t, sc.pool)
		b.do("commit")
		sc.isStale(<-guarded)
	})
}

// At repeatable read and serializable a plain read after the lock still sees the
// snapshot of the transaction's first statement.
func TestPlainReadUnderTheLockIsOldAtHigherLevels(t *testing.T) {
	t.Parallel()
	for _, level := range levels[1:] {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			sc := newScene(t)
			a, b := sc.actor(), sc.actor()
			a.begin(level)
			b.do("begin")
			b.do("select pg_advisory_xact_lock(7, 0)")
			b.do("update naive set fence_id = 5 where resource = 'r'")
			b.do("commit")
			a.do("select pg_advisory_xact_lock_shared(7, 0)")
			if n := a.number("select fence_id from naive where resource = 'r'"); n != 4 {
				t.Fatalf("naive: the check saw %d, want the old 4", n)
			}
			a.do("update stock set value = 4 where id = 'x'")
			a.do("commit")
			if got := sc.value("x"); got != 4 {
				t.Errorf("naive: x is %d, want the stale 4", got)
			}
			tx, err := sc.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			if _, err := tx.Exec(t.Context(), "select count(*) from kv"); err != nil {
				t.Fatal(err)
			}
			sc.claim()
			if err := postgres.Guard(t.Context(), tx, sc.old); !isCode(err, "40001") {
				t.Errorf("guard after an older snapshot: %v, want 40001", err)
			}
			sc.isStale(sc.s.InTxOptions(t.Context(), sc.old, pgx.TxOptions{IsoLevel: level}, nil))
		})
	}
}
