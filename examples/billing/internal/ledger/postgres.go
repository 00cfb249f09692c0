package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

// Postgres is a ledger in a database. It is safe for concurrent use.
type Postgres struct {
	queries *Queries
	inTx    func(ctx context.Context, fn func(tx pgx.Tx) error) error
}

// NewPostgres returns the ledger of a guarded store: each call carries the fence
// of its context to the database, which refuses it unless it is the newest.
func NewPostgres(store *fencedpg.Store) *Postgres {
	return &Postgres{
		queries: New(store.Repo()),
		inTx: func(ctx context.Context, fn func(tx pgx.Tx) error) error {
			f, err := fencedstore.FromContext(ctx)
			if err != nil {
				return err
			}
			return store.InTx(ctx, f, fn)
		},
	}
}

// NewUnguarded returns the same ledger with nothing that checks a fence. It is
// here to show what happens then.
func NewUnguarded(pool *pgxpool.Pool) *Postgres {
	return &Postgres{
		queries: New(pool),
		inTx: func(ctx context.Context, fn func(tx pgx.Tx) error) error {
			return pgx.BeginFunc(ctx, pool, fn)
		},
	}
}

// NewWithin returns the ledger inside a transaction of the caller's, which is what
// keeps others out.
func NewWithin(tx pgx.Tx) *Postgres {
	return &Postgres{
		queries: New(tx),
		inTx:    func(_ context.Context, fn func(tx pgx.Tx) error) error { return fn(tx) },
	}
}

// Unbilled lists the accounts that have no invoice for night.
func (p *Postgres) Unbilled(ctx context.Context, night time.Time) ([]int64, error) {
	return p.queries.UnbilledAccounts(ctx, night)
}

// Account reads one account.
func (p *Postgres) Account(ctx context.Context, id int64) (Account, error) {
	return p.queries.GetAccount(ctx, id)
}

// Bill adds an invoice and sets the balance in one transaction.
func (p *Postgres) Bill(ctx context.Context, inv Invoice, balance int64) error {
	return p.inTx(ctx, func(tx pgx.Tx) error {
		q := p.queries.WithTx(tx)
		if err := q.CreateInvoice(ctx, inv); err != nil {
			return err
		}
		return q.SetBalance(ctx, inv.AccountID, balance)
	})
}
