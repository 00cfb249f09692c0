package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// age makes every claim so far two days old.
func age(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	run(tb, pool, "update fencedstore.fence set claimed_at = claimed_at - interval '2 days'")
}

// ago is a fence ID as package fencedlock makes them.
func ago(d time.Duration) int64 { return time.Now().Add(-d).UnixMicro() }

func marks(tb testing.TB, pool *pgxpool.Pool) (n int) {
	tb.Helper()
	if err := pool.QueryRow(tb.Context(), "select count(*) from fencedstore.fence").Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func forget(tb testing.TB, s *postgres.Store, opts *postgres.ForgetOptions) int64 {
	tb.Helper()
	n, err := s.Forget(tb.Context(), 24*time.Hour, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// A slow holder of a resource whose mark is gone: with DELETE its first claim is
// accepted, after Forget it is not.
func TestForgottenResourceStillRefusesItsOlderHolders(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	slow, last := fence("r", ago(50*time.Hour)), fence("r", ago(49*time.Hour))
	if err := s.Claim(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	run(t, pool, "delete from fencedstore.fence")
	if err := s.Claim(t.Context(), slow); err != nil {
		t.Errorf("the naive way refuses: %v", err)
	}
	if err := s.Claim(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	age(t, pool)
	if n := forget(t, s, nil); n != 1 || marks(t, pool) != 0 {
		t.Fatalf("%d were forgotten, %d are left", n, marks(t, pool))
	}
	_, guard := s.Exec(t.Context(), slow, "select 1")
	_, guardLast := s.Exec(t.Context(), last, "select 1")
	for name, err := range map[string]error{
		"claim": s.Claim(t.Context(), slow), "guard": guard,
		"claim of the last": s.Claim(t.Context(), last), "guard of the last": guardLast,
		"claim of another resource": s.Claim(t.Context(), fence("s", slow.ID)),
	} {
		var stale *fencedstore.StaleError
		if !errors.As(err, &stale) || stale.Newest != last.ID {
			t.Errorf("%s: got %v, want stale by %d", name, err, last.ID)
		}
	}
	f := claimed(t, s, "r", ago(0)) // a new tenure
	if _, err := s.Exec(t.Context(), f, "select 1"); err != nil {
		t.Error(err)
	}
}

func TestForgettingBoundsTheTableOfFences(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	const resources, at = 500, 100
	var top int64
	for i := range resources {
		top = ago(50 * time.Hour)
		claimed(t, s, fmt.Sprint("old/", i), top)
	}
	age(t, pool)
	recent := claimed(t, s, "recent", ago(0))
	var forgotten int64
	for range resources {
		n := forget(t, s, &postgres.ForgetOptions{Max: at})
		if n > at {
			t.Fatalf("%d were forgotten at once", n)
		}
		if forgotten += n; n < at {
			break
		}
	}
	var floor int64
	if err := pool.QueryRow(t.Context(), "select fence_id from fencedstore.floor").Scan(&floor); err != nil {
		t.Fatal(err)
	}
	if forgotten != resources || marks(t, pool) != 1 || floor != top {
		t.Errorf("%d were forgotten, %d are left, the floor is %d, want %d, 1, %d", forgotten, marks(t, pool), floor, resources, top)
	}
	if _, err := s.Exec(t.Context(), recent, "select 1"); err != nil {
		t.Errorf("a recent claim: %v", err)
	}
}

func TestResourceWithAnOpenTransactionIsNotForgotten(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", ago(50*time.Hour))
	age(t, pool)
	err := s.InTx(t.Context(), f, func(tx pgx.Tx) error {
		if n := forget(t, s, nil); n != 0 {
			t.Errorf("%d were forgotten", n)
		}
		return put(t.Context(), tx, "k")
	})
	if err != nil || value(t, pool, "k") == "" {
		t.Error(err)
	}
}

// A claim that waits while its resource is being forgotten meets the floor.
func TestClaimThatMeetsForgettingIsHeldToTheFloor(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	last := claimed(t, s, "r", ago(49*time.Hour))
	age(t, pool)
	done := make(chan error, 1)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "select fencedstore.forget(now() - interval '1 day')")
		go func() { done <- s.Claim(t.Context(), last) }()
		untilWaiting(t, pool)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var stale *fencedstore.StaleError
	if err := <-done; !errors.As(err, &stale) || stale.Newest != last.ID {
		t.Errorf("got %v, want stale by the floor", err)
	}
}

func TestForgettingIsRefusedWhereAFloorWouldBeWrong(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	for name, id := range map[string]int64{"a counter": 7, "ahead of the clock": ago(-time.Hour), "milliseconds": time.Now().UnixMilli()} {
		run(t, pool, "delete from fencedstore.fence")
		claimed(t, s, "good", ago(50*time.Hour))
		claimed(t, s, "r", id)
		age(t, pool)
		if n, err := s.Forget(t.Context(), 24*time.Hour, nil); !errors.Is(err, postgres.ErrNumbering) || n != 0 || code(t, err) != "ZF006" || marks(t, pool) != 2 {
			t.Errorf("%s: %d, %v, %d marks are left", name, n, err, marks(t, pool))
		}
	}
	run(t, pool, "delete from fencedstore.fence")
	claimed(t, s, "r", 7)
	claimed(t, s, "s", 9)
	age(t, pool)
	if n := forget(t, s, &postgres.ForgetOptions{OneCounter: true}); n != 2 {
		t.Errorf("one counter: %d were forgotten", n)
	}
	var stale *fencedstore.StaleError
	if err := s.Claim(t.Context(), fence("r", 9)); !errors.As(err, &stale) || stale.Newest != 9 {
		t.Errorf("at the floor: %v", err)
	}
	claimed(t, s, "r", 10)
}

func TestForgetRefusesBadArguments(t *testing.T) {
	t.Parallel()
	s := newStore(t, unused{t}, nil)
	_, young := s.Forget(t.Context(), time.Minute, nil)
	_, negative := s.Forget(t.Context(), time.Hour, &postgres.ForgetOptions{Max: -1})
	_, many := s.Forget(t.Context(), time.Hour, &postgres.ForgetOptions{Max: 1001})
	for want, errs := range map[string][]error{"age": {young}, "Max": {negative, many}} {
		for _, err := range errs {
			var option *postgres.OptionError
			if !errors.As(err, &option) || option.Name != want {
				t.Errorf("got %v, want something about %s", err, want)
			}
		}
	}
	_, pool := setUp(t)
	script := &shop{}
	script.try(t, pool, []attempt{
		{"too young", "select fencedstore.forget(now())", "22023"},
		{"no time", "select fencedstore.forget(null)", "22023"},
		{"too many", "select fencedstore.forget(now() - interval '1 day', 1001)", "22023"},
		{"none", "select fencedstore.forget(now() - interval '1 day', 0)", "22023"},
		{"isolation", "begin isolation level repeatable read; select fencedstore.forget(now() - interval '1 day')", "ZF005"},
	})
	if n, err := newStore(t, openPool(t, pool.Config().ConnString(), setting("default_transaction_isolation", "serializable")), nil).
		Forget(t.Context(), time.Hour, nil); n != 0 || err != nil {
		t.Errorf("another default isolation level: %d, %v", n, err)
	}
}

func TestForgettingNeedsARightOfItsOwn(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	if _, err := s.store.Forget(t.Context(), time.Hour, nil); code(t, err) != "42501" {
		t.Errorf("without: %v", err)
	}
	run(t, s.admin, "grant execute on function fencedstore.forget to public")
	if _, err := s.store.Forget(t.Context(), time.Hour, nil); err != nil {
		t.Errorf("with: %v", err)
	}
}
