package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DBTX is a connection, a pool, a transaction, or a guarded store's Repo.
type DBTX interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// New returns the queries on db.
func New(db DBTX) *Queries { return &Queries{db: db} }

// Queries are those of queries.sql.
type Queries struct{ db DBTX }

// WithTx returns the queries inside tx.
func (q *Queries) WithTx(tx pgx.Tx) *Queries { return &Queries{db: tx} }
