package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenced-go/fenced/fencedstore"
)

// DBTX is the interface that sqlc generates for pgx, with the methods that it
// adds for :batch and :copyfrom queries.
type DBTX interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error)
}

// Repo returns a DBTX that guards every call with the fence in its context, see
// [fencedstore.NewContext]. Without one, a call is an ErrNoFence and sends
// nothing. Give it to the New function that sqlc generates, and a repository
// written for an unguarded database is guarded.
//
// Each call is a transaction of its own in one round trip (CopyFrom: three). Of
// statements that belong together make an [Store.InTx] and use the repository's
// WithTx.
//
// Reads are guarded too: a holder that was replaced is told so instead of being
// given data. Rows report it, and the outcome of a query that writes, through
// their Err after the last Next or Close; a Row through Scan. Rows must be
// closed, as with pgx: they hold a connection, and keep a newer claim waiting.
// Errors are those of [Store.SendBatch]; reading a value into the wrong type
// leaves the query's effect in place.
func (s *Store) Repo() DBTX { return repo{s} }

type repo struct{ s *Store }

// Exec implements DBTX.
func (r repo) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	f, err := fencedstore.FromContext(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return r.s.Exec(ctx, f, sql, args...)
}

// Query implements DBTX.
func (r repo) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows := r.query(ctx, sql, args)
	return rows, rows.err
}

// QueryRow implements DBTX.
func (r repo) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return row{r.query(ctx, sql, args)}
}

func (r repo) query(ctx context.Context, sql string, args []any) *rows {
	f, err := fencedstore.FromContext(ctx)
	if err != nil {
		return failedRows(err)
	}
	res := r.s.send(ctx, "query", fences{f}, []*pgx.QueuedQuery{{SQL: sql, Arguments: args}})
	rows := res.query()
	rows.end = res.Close
	if rows.err != nil {
		rows.Close()
	}
	return rows
}

// SendBatch implements DBTX.
func (r repo) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	f, err := fencedstore.FromContext(ctx)
	if err != nil {
		return &results{closed: true, err: err}
	}
	return r.s.sendBatch(ctx, fences{f}, b)
}

// CopyFrom implements DBTX.
func (r repo) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	f, err := fencedstore.FromContext(ctx)
	if err != nil {
		return 0, err
	}
	var n int64
	err = r.s.InTx(ctx, f, func(tx pgx.Tx) error {
		n, err = tx.CopyFrom(ctx, table, columns, src)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
