package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
)

// Guard puts a transaction of the caller's under the guard of f, from here to
// its end. Call it first, before any read or write: what came before was not
// guarded, and at repeatable read and serializable an older snapshot is an
// error (SQLSTATE 40001) that running the whole transaction again cures. Call
// it outside savepoints: rolling back to one gives the guard up.
//
// Refusals are those of [Store.InTx]. After any error the transaction can only
// be rolled back. What is left of ctx or of its lease becomes the transaction's
// idle_in_transaction_session_timeout, unless that is shorter. What COMMIT says
// is the caller's to sort: an answer that does not arrive is neither success nor
// failure.
//
// Called last, right before COMMIT, it protects what is written just as well, and a
// paused holder then keeps no claim waiting. But a claim is no barrier against such
// transactions: they go on reading, and hold the locks of their rows, until they
// are refused. That is why guards come first elsewhere in this package.
//
// A guarded transaction may be under several guards. To keep two of them from
// waiting for each other while claims queue, take them in the same order
// everywhere.
func Guard(ctx context.Context, tx pgx.Tx, f fencedstore.Fence) error {
	if err := begun(ctx, "guard", f); err != nil {
		return err
	}
	if tx == nil {
		return failed(ctx, "guard", f, errNilTx)
	}
	if _, err := tx.Exec(ctx, guardSQL, guardArgs(f, remainder(ctx, 0))...); err != nil {
		return failed(ctx, "guard", f, err)
	}
	return nil
}

// GuardSQL is [Guard] for database/sql, with pgx's driver or any other whose
// errors have an SQLState method.
func GuardSQL(ctx context.Context, tx *sql.Tx, f fencedstore.Fence) error {
	if err := begun(ctx, "guard", f); err != nil {
		return err
	}
	if tx == nil {
		return failed(ctx, "guard", f, errNilTx)
	}
	if _, err := tx.ExecContext(ctx, guardSQL, guardArgs(f, remainder(ctx, 0))...); err != nil {
		return failed(ctx, "guard", f, err)
	}
	return nil
}

var errNilTx = errors.New("the transaction is nil")
