package compat_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

// way is one driver or ORM on a database, used as its own documentation says.
type way struct {
	// pay withdraws from account 7 in a transaction that f guards.
	pay func(ctx context.Context, f fencedstore.Fence, amount int64) error
	// nest pays in a transaction that f guards. Before, inside it, it nests two
	// more that pay and are rolled back, and calls meanwhile.
	nest func(ctx context.Context, f fencedstore.Fence, amount int64, meanwhile func()) error
	// guardInside begins a transaction, nests another, and guards that one only;
	// nil where nesting is an error already.
	guardInside func(ctx context.Context, f fencedstore.Fence) error
}

var errUndo = errors.New("roll this one back")

// ways are all of them, each with what it needs opened.
var ways = map[string]func(tb testing.TB, url string) way{
	"pgx pool":                  pgxPool,
	"pgx conn":                  pgxConn,
	"pgx, transaction by hand":  pgxByHand,
	"database/sql with pgx":     func(tb testing.TB, url string) way { tb.Helper(); return standard(openSQL(tb, "pgx", url)) },
	"database/sql with lib/pq":  func(tb testing.TB, url string) way { tb.Helper(); return standard(openSQL(tb, "postgres", url)) },
	"sqlc for pgx, Repo":        sqlcRepo,
	"sqlc for pgx, InTx":        sqlcInTx,
	"sqlc for database/sql":     func(tb testing.TB, url string) way { tb.Helper(); return sqlcStandard(openSQL(tb, "pgx", url)) },
	"sqlc for lib/pq":           func(tb testing.TB, url string) way { tb.Helper(); return sqlcStandard(openSQL(tb, "postgres", url)) },
	"GORM":                      func(tb testing.TB, url string) way { tb.Helper(); return gormWay(tb, openSQL(tb, "pgx", url), false) },
	"GORM, prepared statements": func(tb testing.TB, url string) way { tb.Helper(); return gormWay(tb, openSQL(tb, "pgx", url), true) },
	"GORM with lib/pq": func(tb testing.TB, url string) way {
		tb.Helper()
		return gormWay(tb, openSQL(tb, "postgres", url), false)
	},
	"bun with pgx":    func(tb testing.TB, url string) way { tb.Helper(); return bunWay(openSQL(tb, "pgx", url)) },
	"bun with lib/pq": func(tb testing.TB, url string) way { tb.Helper(); return bunWay(openSQL(tb, "postgres", url)) },
	"ent with pgx":    func(tb testing.TB, url string) way { tb.Helper(); return entWay(openSQL(tb, "pgx", url)) },
	"ent with lib/pq": func(tb testing.TB, url string) way { tb.Helper(); return entWay(openSQL(tb, "postgres", url)) },
}

// env is what a test of one way has.
type env struct {
	way
	pool  *pgxpool.Pool     // the test's own
	fence fencedstore.Fence // number 5, claimed
}

// forEach runs a test for each way, on a database of its own.
func forEach(t *testing.T, test func(t *testing.T, e env)) {
	t.Helper()
	for name, open := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			pool := openPool(t, url)
			test(t, env{open(t, url), pool, claimed(t, newStore(t, pool, nil), 5)})
		})
	}
}

func (e env) balance(tb testing.TB) (n int64) {
	tb.Helper()
	if err := e.pool.QueryRow(tb.Context(), "SELECT balance FROM account WHERE id = 7").Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func TestHolderWrites(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, e env) {
		t.Helper()
		for range 2 {
			if err := e.pay(t.Context(), e.fence, 10); err != nil {
				t.Fatal(err)
			}
		}
		if got := e.balance(t); got != 80 {
			t.Errorf("got a balance of %d, want 80", got)
		}
	})
}

func TestOthersAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, e env) {
		t.Helper()
		for _, c := range []struct {
			id   int64
			want error
			code string
		}{
			{4, fencedstore.ErrStale, "ZF001"},
			{5, fencedstore.ErrFenceReused, "ZF002"},
			{6, fencedstore.ErrNotClaimed, "ZF003"},
			{0, fencedstore.ErrInvalidFence, ""},
		} {
			g := fencedstore.Fence{Resource: e.fence.Resource, ID: c.id, Holder: fencedstore.NewHolder()}
			err := e.pay(t.Context(), g, 10)
			var server interface{ SQLState() string } // of pgx and of lib/pq
			if !errors.Is(err, c.want) || errors.As(err, &server) != (c.code != "") || c.code != "" && server.SQLState() != c.code {
				t.Errorf("%v: got %v, want %v by %q", g, err, c.want, c.code)
			}
			var stale *fencedstore.StaleError
			if errors.As(err, &stale) && (stale.Newest != e.fence.ID || stale.Fence != g) {
				t.Errorf("%v is stale by %v, want by %d", stale.Fence, stale.Newest, e.fence.ID)
			}
			if errors.Is(err, fencedstore.ErrUnknownOutcome) {
				t.Errorf("a refusal is an unknown outcome: %v", err)
			}
		}
		if got := e.balance(t); got != 100 {
			t.Errorf("got a balance of %d, want all of 100", got)
		}
	})
}

// A transaction that is nested and rolled back takes neither the guard nor
// another's work with it.
func TestNestedTransactionsKeepTheGuard(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, e env) {
		t.Helper()
		if e.nest == nil {
			return // one statement is one transaction here
		}
		hasty := newStore(t, e.pool, &fencedpg.Options{LockTimeout: 20 * time.Millisecond})
		newer := fencedstore.Fence{Resource: e.fence.Resource, ID: 6, Holder: e.fence.Holder}
		called := false
		err := e.nest(t.Context(), e.fence, 10, func() {
			called = true
			if err := hasty.Claim(t.Context(), newer); !errors.Is(err, fencedpg.ErrBusy) {
				t.Errorf("a newer claim got %v, want to be kept waiting", err)
			}
		})
		if err != nil || !called {
			t.Fatal(err)
		}
		if got := e.balance(t); got != 90 {
			t.Errorf("got a balance of %d, want 90", got)
		}
	})
}

func TestGuardInsideANestedTransactionIsRefused(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, e env) {
		t.Helper()
		if e.guardInside == nil {
			return // its transactions do not nest
		}
		if err := e.guardInside(t.Context(), e.fence); !errors.Is(err, fencedpg.ErrSavepoint) {
			t.Errorf("got %v, want ErrSavepoint", err)
		}
	})
}

// undoTwice runs two functions that must fail with errUndo.
func undoTwice(nest func() error) error {
	for range 2 {
		if err := nest(); !errors.Is(err, errUndo) {
			return errors.Join(errors.New("a nested transaction did not end as it should"), err)
		}
	}
	return nil
}
