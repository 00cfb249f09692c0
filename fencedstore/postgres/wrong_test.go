package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

// The tests in wrong_*_test.go play one interleaving each, twice: with SQL that
// looks right and lets an older holder through, and with the guard. Nothing is
// left to chance: a step begins when the one before has ended, or when the
// server says that it waits for a lock. The table in docs/design.md lists them.

var levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

// scene is a database in which fence 4 is the newest: of "r" for the guard, and
// in the table naive for the forms that are wrong.
type scene struct {
	tb         testing.TB
	url        string
	pool       *pgxpool.Pool // for looking
	s          *postgres.Store
	old, newer fencedstore.Fence // 4, claimed, and 5, which is not
}

func newScene(tb testing.TB) *scene {
	tb.Helper()
	url := database(tb)
	pool := openPool(tb, url)
	run(tb, pool, `create table naive (resource text primary key, fence_id bigint not null);
		insert into naive values ('r', 4);
		create table stock (id text primary key, value bigint not null);
		insert into stock values ('x', 100), ('y', 100)`)
	s := newStore(tb, pool, &postgres.Options{LockTimeout: within})
	return &scene{tb: tb, url: url, pool: pool, s: s, old: claimed(tb, s, "r", 4), newer: fence("r", 5)}
}

// claim claims the newer fence.
func (sc *scene) claim() {
	sc.tb.Helper()
	if err := sc.s.Claim(sc.tb.Context(), sc.newer); err != nil {
		sc.tb.Fatalf("claim: %v", err)
	}
}

func (sc *scene) value(id string) (v int64) {
	sc.tb.Helper()
	if err := sc.pool.QueryRow(sc.tb.Context(), "select value from stock where id = $1", id).Scan(&v); err != nil {
		sc.tb.Fatal(err)
	}
	return v
}

// claimWaits checks that a claim which comes between the guard and the write of
// the old holder waits for its commit, and that its next transaction is refused.
func (sc *scene) claimWaits(level pgx.TxIsoLevel) {
	sc.tb.Helper()
	opts := pgx.TxOptions{IsoLevel: level}
	claim := make(chan error, 1)
	err := sc.s.InTxOptions(sc.tb.Context(), sc.old, opts, func(tx pgx.Tx) error {
		go func() { claim <- sc.s.Claim(sc.tb.Context(), sc.newer) }()
		untilWaiting(sc.tb, sc.pool)
		_, err := tx.Exec(sc.tb.Context(), "update stock set value = 4 where id = 'x'")
		return err
	})
	if err != nil {
		sc.tb.Fatalf("guard, %s: %v", level, err)
	}
	if err := <-claim; err != nil {
		sc.tb.Fatalf("claim, %s: %v", level, err)
	}
	sc.isStale(sc.s.InTxOptions(sc.tb.Context(), sc.old, opts, nil))
}

func (sc *scene) isStale(err error) {
	sc.tb.Helper()
	var e *fencedstore.StaleError
	if !errors.As(err, &e) || e.Fence != sc.old || e.Newest != sc.newer.ID {
		sc.tb.Errorf("the old holder got %v, want stale by %d", err, sc.newer.ID)
	}
}

// actor is a session that plays a part, one statement at a time.
type actor struct {
	sc   *scene
	conn *pgx.Conn
}

func (sc *scene) actor() actor {
	sc.tb.Helper()
	conn, err := pgx.Connect(sc.tb.Context(), sc.url)
	if err != nil {
		sc.tb.Fatal(err)
	}
	sc.tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(sc.tb.Context())) })
	a := actor{sc, conn}
	a.do("set deadlock_timeout = '10ms'")
	return a
}

// do runs a statement that must succeed.
func (a actor) do(sql string, args ...any) tag {
	a.sc.tb.Helper()
	got, err := a.conn.Exec(a.sc.tb.Context(), sql, args...)
	if err != nil {
		a.sc.tb.Fatalf("%s: %v", sql, err)
	}
	return got
}

// begin begins a transaction and takes its snapshot.
func (a actor) begin(level pgx.TxIsoLevel) {
	a.sc.tb.Helper()
	a.do("begin isolation level " + string(level))
	a.do("select count(*) from kv")
}

// try runs a statement and returns its error.
func (a actor) try(sql string, args ...any) error {
	a.sc.tb.Helper()
	_, err := a.conn.Exec(a.sc.tb.Context(), sql, args...)
	return err
}

// number runs a query that must return one number.
func (a actor) number(sql string) (n int64) {
	a.sc.tb.Helper()
	if err := a.conn.QueryRow(a.sc.tb.Context(), sql).Scan(&n); err != nil {
		a.sc.tb.Fatalf("%s: %v", sql, err)
	}
	return n
}

// answer is what a statement that has to wait returns in the end.
type answer struct {
	tag tag
	n   int64
	err error
}

// start begins a statement and returns once it waits for a lock.
func (a actor) start(sql string, args ...any) <-chan answer {
	a.sc.tb.Helper()
	return a.waits(sql, func() (got answer) {
		got.tag, got.err = a.conn.Exec(a.sc.tb.Context(), sql, args...)
		return got
	})
}

// startNumber is start for a query of one number.
func (a actor) startNumber(sql string) <-chan answer {
	a.sc.tb.Helper()
	return a.waits(sql, func() (got answer) {
		got.err = a.conn.QueryRow(a.sc.tb.Context(), sql).Scan(&got.n)
		return got
	})
}

func (a actor) waits(what string, call func() answer) <-chan answer {
	a.sc.tb.Helper()
	pid := a.conn.PgConn().PID()
	done := make(chan answer, 1)
	go func() { done <- call() }()
	testenv.Eventually(a.sc.tb, within, what+": waits for a lock", func() (is bool) {
		const query = "select coalesce(wait_event_type = 'Lock', false) from pg_stat_activity where pid = $1"
		if err := a.sc.pool.QueryRow(a.sc.tb.Context(), query, pid).Scan(&is); err != nil {
			a.sc.tb.Fatal(err)
		}
		return is
	})
	return done
}

// guard calls the guard's SQL by hand.
func (a actor) guard(f fencedstore.Fence) {
	a.sc.tb.Helper()
	a.do("select fencedstore.guard($1::text, $2::int8, $3::bytea)", f.Resource, f.ID, []byte(f.Holder))
}
