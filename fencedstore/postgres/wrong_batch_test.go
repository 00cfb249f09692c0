package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const writeFour = "update stock set value = 4 where id = 'x'"

func batchOf(statements ...string) *pgx.Batch {
	b := &pgx.Batch{}
	for _, sql := range statements {
		b.Queue(sql)
	}
	return b
}

// A guard that returns no row does not stop what was sent behind it.
func TestGuardThatDoesNotRaiseLetsTheBatchGoOn(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	sc.claim()
	run(t, sc.pool, "update naive set fence_id = 5")
	b := &pgx.Batch{}
	b.Queue(upsertGuard, "r", 4)
	b.Queue(writeFour)
	if err := sc.pool.SendBatch(t.Context(), b).Close(); err != nil || sc.value("x") != 4 {
		t.Errorf("naive: got %v, x is %d, want the stale 4 and no error", err, sc.value("x"))
	}

	run(t, sc.pool, "update stock set value = 100")
	sc.isStale(sc.s.SendBatch(t.Context(), sc.old, batchOf(writeFour)))
	if got := sc.value("x"); got != 100 {
		t.Errorf("x is %d after a refused batch", got)
	}
}

// Nobody reads the CTE: one that selects is not even run, one that writes is run
// and stops nothing.
func TestGuardInACTEThatNobodyReadsStopsNothing(t *testing.T) {
	t.Parallel()
	for name, cte := range map[string]string{
		"select": "with g as (select fencedstore.guard('r', 4, 'x')) ",
		"update": "with g as (update naive set fence_id = 4 where resource = 'r' and fence_id <= 4 returning 1) ",
	} {
		sc := newScene(t)
		sc.claim()
		run(t, sc.pool, "update naive set fence_id = 5")
		if err := sc.actor().try(cte + writeFour); err != nil || sc.value("x") != 4 {
			t.Errorf("%s: got %v, x is %d, want the stale 4 and no error", name, err, sc.value("x"))
		}
	}
	sc := newScene(t)
	sc.claim()
	_, err := sc.s.Exec(t.Context(), sc.old, writeFour)
	sc.isStale(err)
	if got := sc.value("x"); got != 100 {
		t.Errorf("x is %d after a refused statement", got)
	}
}

// A CTE that locks, and a write that asks whether it found anything: safe, but
// no rows mean two things.
func TestCheckInACTECannotTellStaleFromAbsent(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	a := sc.actor()
	const cte = "with g as (select from naive where resource = 'r' and fence_id = %d for share)" +
		" update stock set value = 4 where id = '%s' and exists (select from g)"
	stale, absent := a.do(fmt.Sprintf(cte, 3, "x")), a.do(fmt.Sprintf(cte, 4, "absent"))
	if stale.RowsAffected() != 0 || stale != absent {
		t.Errorf("naive: stale %v, absent %v, want the same", stale, absent)
	}

	sc.claim()
	_, err := sc.s.Exec(t.Context(), sc.old, writeFour)
	sc.isStale(err)
	got, err := sc.s.Exec(t.Context(), sc.newer, "update stock set value = 4 where id = 'absent'")
	if err != nil || got.RowsAffected() != 0 {
		t.Errorf("no such row: %v, %v, want UPDATE 0 and no error", got, err)
	}
}

// COMMIT is skipped like everything else behind a guard that raises, and the
// connection stays in a transaction that has failed.
func TestBatchWithBeginAndCommitLeavesAFailedTransaction(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	sc.claim()
	a := sc.actor()
	err := a.conn.SendBatch(t.Context(), batchOf("begin", "select fencedstore.guard('r', 3, 'x')", writeFour, "commit")).Close()
	if !isCode(err, "ZF001") || a.conn.PgConn().TxStatus() != 'E' {
		t.Errorf("naive: got %v, state %c, want E", err, a.conn.PgConn().TxStatus())
	}

	conn := sc.actor().conn
	sc.isStale(newStore(t, conn, nil).SendBatch(t.Context(), sc.old, batchOf(writeFour)))
	if got := conn.PgConn().TxStatus(); got != 'I' {
		t.Errorf("after a refused batch: state %c, want I", got)
	}
}

// Every statement of the batch succeeds and the commit does not. Only Close tells.
func TestLastResultOfABatchIsNotItsOutcome(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	deferred(t, sc.pool)
	b := batchOf("insert into child values (1)", "select 1")
	br := sc.actor().conn.SendBatch(t.Context(), b)
	_, first := br.Exec()
	_, last := br.Exec()
	if first != nil || last != nil || !isCode(br.Close(), "23503") {
		t.Errorf("naive: got %v and %v, want no error before Close", first, last)
	}

	if err := sc.s.SendBatch(t.Context(), sc.old, b); !isCode(err, "23503") {
		t.Errorf("SendBatch: got %v, want the constraint's error", err)
	}
	if got, err := sc.s.Exec(t.Context(), sc.old, "insert into child values (1)"); !isCode(err, "23503") || got != (pgconn.CommandTag{}) {
		t.Errorf("Exec: got %v, %v, want the constraint's error and no tag", got, err)
	}
}

// A guard in LANGUAGE sql is planned anew for every call. Measured in the server,
// in turns, by the least disturbed one.
func TestGuardInLanguageSQLCostsMoreThanTheGuard(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	a := sc.actor()
	a.do(`create function sql_guard(p_resource text, p_fence bigint, p_holder bytea) returns void
		language sql security definer set search_path = pg_catalog, pg_temp as $$
		select pg_advisory_xact_lock_shared(7, hashtext(p_resource));
		select 1 / count(*) from fencedstore.fence
		 where resource = p_resource and fence_id = p_fence and holder = sha256(p_holder) $$`)
	a.do(`create function cost(p_call text, p_holder bytea) returns float8 language plpgsql as $$
		declare v_began timestamptz := clock_timestamp();
		begin
		  for i in 1..200 loop
		    if p_call = 'sql' then perform sql_guard('r', 4, p_holder);
		    else perform fencedstore.guard('r', 4, p_holder); end if;
		  end loop;
		  return extract(epoch from clock_timestamp() - v_began);
		end $$`)
	cost := map[string]float64{}
	for range 20 {
		for _, call := range []string{"sql", "guard"} {
			var took float64
			if err := a.conn.QueryRow(t.Context(), "select cost($1, $2)", call, []byte(sc.old.Holder)).Scan(&took); err != nil {
				t.Fatal(err)
			}
			if best, ok := cost[call]; !ok || took < best {
				cost[call] = took
			}
		}
	}
	ratio := cost["sql"] / cost["guard"]
	t.Logf("LANGUAGE sql ÷ guard: %.1f", ratio)
	if ratio < 1.5 {
		t.Errorf("LANGUAGE sql costs %.1f times the guard, want more than 1.5", ratio)
	}
}

func isCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}
