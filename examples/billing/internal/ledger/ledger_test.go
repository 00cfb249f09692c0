package ledger

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of migrations

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
	"github.com/fenced-go/fenced/migrations/migrate"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var night = time.Date(1999, time.December, 31, 0, 0, 0, 0, time.UTC)

// book is what both ledgers can do.
type book interface {
	Unbilled(ctx context.Context, night time.Time) ([]int64, error)
	Account(ctx context.Context, id int64) (Account, error)
	Bill(ctx context.Context, inv Invoice, balance int64) error
}

// books opens a ledger of each kind with two accounts. The context carries a
// fence that was claimed there.
func books(t *testing.T, test func(t *testing.T, ctx context.Context, b book, audit func() Audit)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		store := memstore.New()
		ctx, m := claimed(t, store), NewMemory(store)
		if err := m.OpenAccounts(ctx, 2); err != nil {
			t.Fatal(err)
		}
		test(t, ctx, m, func() Audit { return audited(t)(m.Audit(ctx)) })
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		pool := open(t)
		store, err := fencedpg.New(pool, nil)
		if err != nil {
			t.Fatal(err)
		}
		test(t, claimed(t, store), NewPostgres(store), func() Audit { return audited(t)(New(pool).Audit(t.Context())) })
	})
}

func audited(t *testing.T) func(Audit, error) Audit {
	t.Helper()
	return func(a Audit, err error) Audit {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
}

// claimed is a context with a new fence.
func claimed(t *testing.T, store fencedstore.Claimer) context.Context {
	t.Helper()
	f := fencedstore.Fence{Resource: "ledger", ID: time.Now().UnixMicro(), Holder: fencedstore.NewHolder()}
	if err := store.Claim(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	return fencedstore.NewContext(t.Context(), f)
}

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	url := testenv.Database(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := migrate.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.RuntimeParams["search_path"] = Schema
	conn, err := pgx.ConnectConfig(t.Context(), cfg.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if err := Install(t.Context(), conn, 2, true); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestBillingAddsAnInvoiceAndSetsTheBalance(t *testing.T) {
	t.Parallel()
	books(t, func(t *testing.T, ctx context.Context, b book, audit func() Audit) {
		t.Helper()
		a, err := b.Account(ctx, 2)
		if err != nil || a != (Account{ID: 2, Usage: 12, Balance: 500}) {
			t.Fatalf("account 2 is %+v, %v", a, err)
		}
		if err := b.Bill(ctx, Invoice{AccountID: 2, Night: night, Amount: 36}, 536); err != nil {
			t.Fatal(err)
		}
		if ids, err := b.Unbilled(ctx, night); err != nil || len(ids) != 1 || ids[0] != 1 {
			t.Errorf("unbilled are %v, %v, want account 1", ids, err)
		}
		if ids, err := b.Unbilled(ctx, night.AddDate(0, 0, 1)); err != nil || len(ids) != 2 {
			t.Errorf("unbilled in another night are %v, %v, want both", ids, err)
		}
		if got, want := audit(), (Audit{Accounts: 2, Invoices: 1}); got != want {
			t.Errorf("the audit says %+v, want %+v", got, want)
		}
	})
}

func TestSecondInvoiceOfANightChangesNothing(t *testing.T) {
	t.Parallel()
	books(t, func(t *testing.T, ctx context.Context, b book, audit func() Audit) {
		t.Helper()
		inv := Invoice{AccountID: 1, Night: night, Amount: 10}
		if err := b.Bill(ctx, inv, 510); err != nil {
			t.Fatal(err)
		}
		if err := b.Bill(ctx, inv, 520); err == nil {
			t.Error("billed twice")
		}
		if got, want := audit(), (Audit{Accounts: 2, Invoices: 1}); got != want {
			t.Errorf("the audit says %+v, want %+v", got, want)
		}
	})
}

func TestEveryCallNeedsAFence(t *testing.T) {
	t.Parallel()
	bare := t.Context()
	books(t, func(t *testing.T, _ context.Context, b book, _ func() Audit) {
		t.Helper()
		_, err1 := b.Unbilled(bare, night)
		_, err2 := b.Account(bare, 1)
		err3 := b.Bill(bare, Invoice{AccountID: 1, Night: night}, 0)
		for i, err := range []error{err1, err2, err3} {
			if !errors.Is(err, fencedstore.ErrNoFence) {
				t.Errorf("call %d: got %v, want ErrNoFence", i, err)
			}
		}
	})
}

func TestAuditFindsDuplicatesAndLostUpdates(t *testing.T) {
	t.Parallel()
	m := NewUnguardedMemory()
	if err := m.OpenAccounts(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := m.Bill(t.Context(), Invoice{AccountID: 1, Night: night, Amount: 10}, 510); err != nil {
			t.Fatal(err)
		}
	}
	got := audited(t)(m.Audit(t.Context()))
	if want := (Audit{Accounts: 2, Invoices: 3, Duplicates: 2, WrongBalances: 1}); got != want {
		t.Errorf("the audit says %+v, want %+v", got, want)
	}
}

func TestQueriesAreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("queries.sql")
	if err != nil {
		t.Fatal(err)
	}
	queries := []string{unbilledAccounts, getAccount, createInvoice, setBalance, openAccounts, audit, openJobs, jobsLeft}
	for _, q := range queries {
		if !strings.Contains(string(file), strings.TrimSpace(q)+";") {
			t.Errorf("queries.sql has another text for:\n%s", q)
		}
	}
	if n := strings.Count(string(file), "-- name:"); n != len(queries) {
		t.Errorf("queries.sql has %d queries, want %d", n, len(queries))
	}
}
