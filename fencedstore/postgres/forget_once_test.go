package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore/postgres"
)

func TestForgottenKeysAreTheOldestAndMayRunAgain(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t))
	run(t, pool, `insert into fencedstore.once select 'k' || n, now() - n * interval '1 day' from generate_series(1, 10) n`)
	forget := func(query string) (n int64) {
		if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const old = "select fencedstore.forget_once(now() - interval '3.5 days', 5)"
	if first, second, third := forget(old), forget(old), forget(old); first != 5 || second != 2 || third != 0 {
		t.Errorf("forgot %d, %d and %d keys, want 5, 2 and none", first, second, third)
	}
	for key, want := range map[string]bool{"k3": false, "k4": true} {
		ran, err := postgres.RunOnce(t.Context(), pool, key, func(pgx.Tx) error { return nil })
		if err != nil || ran != want {
			t.Errorf("%s: ran is %v, %v", key, ran, err)
		}
	}
	for _, bad := range []string{"null, 1", "now(), null", "now(), 0"} {
		if _, err := pool.Exec(t.Context(), "select fencedstore.forget_once("+bad+")"); !isCode(err, "22023") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// The work needs no right but EXECUTE on the one function.
func TestRightsOfOnce(t *testing.T) {
	t.Parallel()
	_, admin := setUp(t)
	pool := appRole(t, admin, "jobs")
	call := func() (bool, error) {
		return postgres.RunOnce(t.Context(), pool, "k", func(pgx.Tx) error { return nil })
	}
	if _, err := call(); !isCode(err, "42501") {
		t.Errorf("without rights: %v", err)
	}
	role := pgx.Identifier{pool.Config().ConnConfig.User}.Sanitize()
	run(t, admin, "grant usage on schema fencedstore to "+role+"; grant execute on function fencedstore.once to "+role)
	if ran, err := call(); !ran || err != nil {
		t.Errorf("with EXECUTE: %v, %v", ran, err)
	}
	for _, query := range []string{"select fencedstore.forget_once(now(), 1)", "select * from fencedstore.once", "select fencedstore.raise()"} {
		if _, err := pool.Exec(t.Context(), query); !isCode(err, "42501") {
			t.Errorf("%s: got %v, want permission denied", query, err)
		}
	}
}
