package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// stuck is a transaction guarded by f that its holder has left open.
func stuck(tb testing.TB, pool *pgxpool.Pool, f fencedstore.Fence) pgx.Tx {
	tb.Helper()
	tx, err := pool.Begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(tb.Context())) })
	if err := postgres.Guard(tb.Context(), tx, f); err != nil {
		tb.Fatal(err)
	}
	return tx
}

func pid(tx pgx.Tx) int32 { return int32(tx.Conn().PgConn().PID()) } //nolint:gosec // as the server counts

func TestEvictEndsExactlyThoseInTheWay(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	hasty := newStore(t, pool, &postgres.Options{LockTimeout: 20 * time.Millisecond})
	f, other := claimed(t, s, "r", 1), claimed(t, s, "other", 1)
	if pids, err := s.Evict(t.Context(), "r"); err != nil || len(pids) != 0 {
		t.Errorf("nobody is in the way: %v, %v", pids, err)
	}
	inTheWay := []pgx.Tx{stuck(t, pool, f), stuck(t, pool, f)}
	bystanders := []pgx.Tx{stuck(t, pool, other)}
	plain, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bystanders = append(bystanders, plain)
	for _, tx := range slices.Concat(inTheWay, bystanders) {
		if err := put(t.Context(), tx, time.Now().String()); err != nil {
			t.Fatal(err)
		}
	}
	newer := fence("r", 2)
	var busy *postgres.BusyError
	if err := hasty.Claim(t.Context(), newer); !errors.As(err, &busy) {
		t.Fatalf("got %v, want busy", err)
	}
	pids, err := s.Evict(t.Context(), busy.Fence.Resource)
	if err != nil || !slices.Equal(slices.Sorted(slices.Values(pids)), slices.Sorted(slices.Values(busy.PIDs))) || len(pids) != 2 {
		t.Errorf("evicted %v (%v), in the way were %v", pids, err, busy.PIDs)
	}
	if err := s.Claim(t.Context(), newer); err != nil {
		t.Errorf("claim after it: %v", err)
	}
	for _, tx := range inTheWay {
		if !slices.Contains(pids, pid(tx)) {
			t.Errorf("session %d is not among %v", pid(tx), pids)
		}
		if err := tx.Commit(t.Context()); err == nil {
			t.Error("an evicted transaction was committed")
		}
	}
	for _, tx := range bystanders {
		if err := tx.Commit(t.Context()); err != nil {
			t.Errorf("a bystander: %v", err)
		}
	}
}

// A claim that is queued is not in the way: it is whom the eviction is for.
func TestEvictLetsTheQueuedClaimThrough(t *testing.T) {
	t.Parallel()
	_, pool := setUp(t)
	s := newStore(t, pool, &postgres.Options{LockTimeout: within})
	holder := stuck(t, pool, claimed(t, s, "r", 1))
	done := make(chan error, 1)
	go func() { done <- s.Claim(t.Context(), fence("r", 2)) }()
	untilWaiting(t, pool)
	if pids, err := s.Evict(t.Context(), "r"); err != nil || len(pids) != 1 || pids[0] != pid(holder) {
		t.Errorf("evicted %v, %v", pids, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestEvictNamesTheRightThatIsMissing(t *testing.T) {
	t.Parallel()
	owner, admin := setUp(t)
	app, keeper := appRole(t, admin, "app"), appRole(t, admin, "keeper")
	appName, keeperName := roleOf(app), roleOf(keeper)
	run(t, admin, "grant usage on schema fencedstore to "+appName+", "+keeperName)
	run(t, admin, "grant execute on all functions in schema fencedstore to "+keeperName)
	run(t, admin, "grant execute on function fencedstore.guard to "+appName)
	f := claimed(t, owner, "r", 1)
	holder := stuck(t, app, f)
	s := newStore(t, app, nil)
	refused := func(what string) error {
		pids, err := s.Evict(t.Context(), "r")
		var pg *pgconn.PgError
		if !errors.Is(err, postgres.ErrRights) || !errors.As(err, &pg) || pg.Code != "42501" || pids != nil {
			t.Errorf("%s: evicted %v, %v, want ErrRights", what, pids, err)
		}
		if _, err := holder.Exec(t.Context(), "select"); err != nil {
			t.Fatalf("%s: somebody was evicted: %v", what, err)
		}
		return err
	}
	_ = refused("no EXECUTE")
	run(t, admin, "grant execute on function fencedstore.evict to "+appName)
	run(t, admin, "alter function fencedstore.evict(text) owner to "+keeperName)
	superuser := stuck(t, admin, f)
	if err := refused("a superuser's session"); !strings.Contains(err.Error(), "superuser") {
		t.Errorf("a superuser's session: %v", err)
	}
	if err := superuser.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rights *postgres.RightsError
	if err := refused("another role's session"); !errors.As(err, &rights) {
		t.Fatalf("another role's session: %v", err)
	}
	_, command, _ := strings.Cut(rights.Error(), "run ")
	run(t, admin, command)
	if pids, err := s.Evict(t.Context(), "r"); err != nil || len(pids) != 1 || pids[0] != pid(holder) {
		t.Errorf("after %s: %v, %v", command, pids, err)
	}
}

func roleOf(pool *pgxpool.Pool) string {
	return pgx.Identifier{pool.Config().ConnConfig.User}.Sanitize()
}

// The owner of the function needs no membership to end sessions of its own.
func TestEvictOfTheOwnersSessionsNeedsNoMembership(t *testing.T) {
	t.Parallel()
	owner, admin := setUp(t)
	app := appRole(t, admin, "app")
	run(t, admin, "grant usage on schema fencedstore to "+roleOf(app))
	run(t, admin, "grant execute on all functions in schema fencedstore to "+roleOf(app))
	run(t, admin, "alter function fencedstore.evict(text) owner to "+roleOf(app))
	holder := stuck(t, app, claimed(t, owner, "r", 1))
	if pids, err := newStore(t, app, nil).Evict(t.Context(), "r"); err != nil || len(pids) != 1 || pids[0] != pid(holder) {
		t.Errorf("got %v, %v", pids, err)
	}
}

func TestEvictRefusesABadNameAndReportsWhatFails(t *testing.T) {
	t.Parallel()
	var invalid *fencedstore.InvalidFenceError
	if _, err := newStore(t, unused{t}, nil).Evict(t.Context(), ""); !errors.As(err, &invalid) {
		t.Errorf("no name: %v", err)
	}
	url := database(t)
	closed := openPool(t, url)
	closed.Close()
	if _, err := newStore(t, closed, nil).Evict(t.Context(), "r"); err == nil || errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("a closed pool: %v", err)
	}
	older := openPool(t, url)
	run(t, older, "drop function fencedstore.evict")
	var pg *pgconn.PgError
	if _, err := newStore(t, older, nil).Evict(t.Context(), "r"); !errors.As(err, &pg) || errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("no such function: %v", err)
	}
	k := openLossy(t, variant{mode: pgx.QueryExecModeExec, write: writeExec}, database(t))
	k.losing()
	if _, err := k.Evict(t.Context(), "r"); !errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("a lost answer: %v", err)
	}
}
