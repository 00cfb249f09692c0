package postgres_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

func number64(n int64) string { return strconv.FormatInt(n, 10) }

// The server has committed and its answer is lost: neither success nor failure.
func TestCommitWhoseAnswerIsLostIsUnknownAndARetryConverges(t *testing.T) {
	t.Parallel()
	url := database(t)
	k := openLossy(t, variant{mode: pgx.QueryExecModeExec, write: writeTx("")}, url)
	look := openPool(t, url)
	older, f := claimed(t, k.Store, "r", 4), claimed(t, k.Store, "r", 5)
	write := func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), upsert, []byte("k"), []byte("of 5"))
		k.losing()
		return err
	}
	err := k.InTx(t.Context(), f, write)
	var unknown *fencedstore.UnknownOutcomeError
	if !errors.As(err, &unknown) || unknown.Op != "commit" || unknown.Fence != f || errors.Is(err, fencedstore.ErrStale) {
		t.Fatalf("got %v, want an unknown outcome", err)
	}
	if got := value(t, look, "k"); got != "of 5" {
		t.Fatalf("the server has %q: the test lost more than the answer", got)
	}
	if err := k.InTx(t.Context(), f, write); err != nil || value(t, look, "k") != "of 5" {
		t.Errorf("again: %v, %q", err, value(t, look, "k"))
	}
	if err := k.InTx(t.Context(), older, write); !errors.Is(err, fencedstore.ErrStale) || value(t, look, "k") != "of 5" {
		t.Errorf("the older holder got %v, wrote %q", err, value(t, look, "k"))
	}
}

// A standby that has not heard of the last claim is promoted. The holder of that
// claim is told that it was lost, and claims again; until then the one before it
// is let in, which nobody can prevent but synchronous replication.
func TestPromotedStandbyThatLostAClaimSaysSo(t *testing.T) {
	t.Parallel()
	primary := testenv.NewPostgres(t, "-c", "hot_standby=on") // a setting: one of its own, on this machine
	prepare(t, primary.DirectURL("postgres"))
	standby := testenv.NewStandby(t, primary)
	s := newStore(t, openPool(t, primary.DirectURL("postgres")), nil)
	older := claimed(t, s, "r", 5)
	standby.CatchUp(t)
	standby.Link.Cut()
	f := claimed(t, s, "r", 6)
	if _, err := s.Exec(t.Context(), f, upsert, []byte("k"), []byte("of 6")); err != nil {
		t.Fatal(err)
	}
	readOnly := newStore(t, openPool(t, standby.DirectURL("postgres")), nil)
	if err := readOnly.Check(t.Context()); !errors.Is(err, postgres.ErrReadOnly) {
		t.Errorf("Check of a standby: %v, want read-only", err)
	}
	primary.Kill(t)
	standby.Promote(t)

	pool := openPool(t, standby.DirectURL("postgres"))
	s = newStore(t, pool, nil)
	var lost *fencedstore.NotClaimedError
	if _, err := s.Exec(t.Context(), f, "select"); !errors.As(err, &lost) || lost.Newest != 5 || lost.Fence != f {
		t.Errorf("the holder got %v, want not claimed, 5 being the newest", err)
	}
	if _, err := s.Exec(t.Context(), older, "select"); err != nil {
		t.Errorf("the older holder got %v: docs/guarantees.md says that it is let in", err)
	}
	if err := s.Claim(t.Context(), f); err != nil {
		t.Fatalf("claim again: %v", err)
	}
	if got := value(t, pool, "k"); got != "" {
		t.Errorf("read again: %q, want what the standby has, which is nothing", got)
	}
	if _, err := s.Exec(t.Context(), f, "select"); err != nil {
		t.Errorf("the holder, after its second claim: %v", err)
	}
	if _, err := s.Exec(t.Context(), older, "select"); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("the older holder, after the second claim: %v, want stale", err)
	}
}

// Somebody cancels commits that wait for the standby. The server says success,
// with a warning; a connection that watches knows better.
func TestCancelledWaitForTheStandbyIsUnknown(t *testing.T) {
	t.Parallel()
	pg := newSynchronousServer(t)
	standby := testenv.NewStandby(t, pg)
	url := pg.DirectURL("postgres")
	look := openPool(t, url)
	warned := make(chan string, 100)
	pool := openPool(t, url, setting("synchronous_commit", "on"), func(c *pgxpool.Config) {
		c.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { warned <- n.Code }
		postgres.WatchReplication(c.ConnConfig)
	})
	s := newStore(t, pool, nil)
	f := claimed(t, s, "r", 5) // the standby is there
	standby.Link.Cut()
	all := commits(t, s, f)
	for name, call := range all {
		err := cancelled(t, look, call)
		var unknown *fencedstore.UnknownOutcomeError
		if !errors.As(err, &unknown) || unknown.Op != name || !errors.Is(err, postgres.ErrNotReplicated) {
			t.Errorf("%s: got %v, want an unknown outcome", name, err)
		}
		if code := <-warned; code != "01000" {
			t.Errorf("%s: the caller's own OnNotice got %s", name, code)
		}
	}
	again := make(chan error, 1)
	go func() { again <- s.Claim(t.Context(), f) }()
	untilInSync(t, look, 1) // it waits, as it did the first time
	standby.Link.Heal()
	if err := <-again; err != nil {
		t.Errorf("claim again, with the standby: %v", err)
	}
	for name, call := range all {
		if err := call(); err != nil {
			t.Errorf("%s, with the standby: %v", name, err)
		}
	}
	if pool.Stat().NewConnsCount() > 2 {
		t.Errorf("%d connections: one was lost over a warning", pool.Stat().NewConnsCount())
	}
}

// commits are calls that each commit something, by what they are called in the
// error.
func commits(tb testing.TB, s *postgres.Store, f fencedstore.Fence) map[string]func() error {
	tb.Helper()
	const insert = "insert into kv values (gen_random_uuid()::text::bytea, 'v')"
	ctx := fencedstore.NewContext(tb.Context(), f)
	return map[string]func() error{
		"claim":  func() error { return s.Claim(ctx, f) },
		"commit": func() error { return s.InTx(ctx, f, func(tx pgx.Tx) error { return put(ctx, tx, "k") }) },
		"exec":   func() error { _, err := s.Exec(ctx, f, insert); return err },
		"batch":  func() error { return s.SendBatch(ctx, f, batchOf(insert)) },
		"query": func() error {
			var key []byte
			return s.Repo().QueryRow(ctx, insert+" returning key").Scan(&key)
		},
	}
}

// Other warnings mean nothing.
func TestWarningOfAFunctionIsNoUnknownOutcome(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t), func(c *pgxpool.Config) { postgres.WatchReplication(c.ConnConfig) })
	s := newStore(t, pool, nil)
	f := claimed(t, s, "r", 1)
	if _, err := s.Exec(t.Context(), f, "do $$ begin raise warning 'canceling wait'; end $$"); err != nil {
		t.Error(err)
	}
}
