package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
)

// ErrSavepoint says that a guard was asked for inside a savepoint, where rolling
// back to it would give the guard up unnoticed and let the transaction write on.
// Guard the transaction before its first savepoint.
var ErrSavepoint = errors.New("postgres: a guard inside a savepoint would be lost with it")

// Guard puts a transaction of the caller's under the guard of f, from here to
// its end. Call it first, before any read or write: what came before was not
// guarded, and at repeatable read and serializable an older snapshot is an
// error (SQLSTATE 40001) that running the whole transaction again cures.
//
// Inside a savepoint, which is what a nested transaction of pgx or of an ORM
// is, it is an [ErrSavepoint]; so it is after one was rolled back, which leaves
// it in place. The server itself is asked, by
// pg_export_snapshot, which it allows outside savepoints only: it holds the
// first snapshot until the transaction ends, and PREPARE TRANSACTION is refused.
//
// Refusals are those of [Store.InTx]. After any error the transaction can only
// be rolled back. What is left of ctx or of its lease becomes the transaction's
// idle_in_transaction_session_timeout, unless that is shorter. What COMMIT says
// is the caller's to sort: an answer that does not arrive is neither success nor
// failure.
//
// A transaction on several resources is guarded by one [GuardMany]. Several
// calls of Guard are sound, but two transactions that make them in different
// orders wait for each other while claims queue, for deadlock_timeout.
//
// Called last, right before COMMIT, it protects what is written just as well, and a
// paused holder then keeps no claim waiting. But a claim is no barrier against such
// transactions: they go on reading, and hold the locks of their rows, until they
// are refused. That is why guards come first elsewhere in this package.
func Guard(ctx context.Context, tx pgx.Tx, f fencedstore.Fence) error {
	return guardTx(ctx, tx, fences{f})
}

// GuardSQL is [Guard] for database/sql, with pgx's driver or any other whose
// errors have an SQLState method, such as lib/pq.
func GuardSQL(ctx context.Context, tx *sql.Tx, f fencedstore.Fence) error {
	return guardSQLTx(ctx, tx, fences{f})
}

var errNilTx = errors.New("the transaction is nil")

func guardTx(ctx context.Context, tx pgx.Tx, fs fences) error {
	if err := fs.begun(ctx, "guard"); err != nil {
		return err
	}
	if tx == nil {
		return failed(ctx, "guard", fs[0], errNilTx)
	}
	query, args := fs.guard(remainder(ctx, 0))
	_, err := tx.Exec(ctx, outsideSavepoints(query), args...)
	return guardFailed(ctx, fs, err)
}

func guardSQLTx(ctx context.Context, tx *sql.Tx, fs fences) error {
	if err := fs.begun(ctx, "guard"); err != nil {
		return err
	}
	if tx == nil {
		return failed(ctx, "guard", fs[0], errNilTx)
	}
	query, args := fs.guard(remainder(ctx, 0))
	_, err := tx.ExecContext(ctx, outsideSavepoints(query), args...)
	return guardFailed(ctx, fs, err)
}

// outsideSavepoints is a guard that the server refuses inside a savepoint.
func outsideSavepoints(query string) string {
	return "select pg_catalog.pg_export_snapshot()," + strings.TrimPrefix(query, "select")
}

func guardFailed(ctx context.Context, fs fences, err error) error {
	if err == nil {
		return nil
	}
	if hasCode(err, codeActiveTransaction) {
		return fmt.Errorf("%w: guard with %v: %w", ErrSavepoint, fs[0], err)
	}
	return failed(ctx, "guard", fs.of(err), err)
}
