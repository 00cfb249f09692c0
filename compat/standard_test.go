package compat_test

import (
	"context"
	"database/sql"
	"errors"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"

	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

func withdrawSQL(ctx context.Context, db *sql.DB, f fencedstore.Fence, id, amount int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit: nothing
	if err := fencedpg.GuardSQL(ctx, tx, f); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - $1 WHERE id = $2", amount, id); err != nil {
		return err
	}
	return tx.Commit()
}

// inTx is the frame of withdrawSQL.
func inTx(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func paySQL(ctx context.Context, tx *sql.Tx, amount int64) error {
	_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - $1 WHERE id = 7", amount)
	return err
}

// inSavepoint is what nesting looks like in database/sql.
func inSavepoint(ctx context.Context, tx *sql.Tx, fn func() error) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT nested"); err != nil {
		return err
	}
	if err := fn(); err != nil {
		_, undo := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT nested")
		return errors.Join(err, undo)
	}
	_, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT nested")
	return err
}

func standard(db *sql.DB) way {
	return way{
		pay: func(ctx context.Context, f fencedstore.Fence, amount int64) error {
			return withdrawSQL(ctx, db, f, 7, amount)
		},
		nest: func(ctx context.Context, f fencedstore.Fence, amount int64, meanwhile func()) error {
			return inTx(ctx, db, func(tx *sql.Tx) error {
				if err := fencedpg.GuardSQL(ctx, tx, f); err != nil {
					return err
				}
				err := undoTwice(func() error {
					return inSavepoint(ctx, tx, func() error { return errors.Join(paySQL(ctx, tx, amount), errUndo) })
				})
				if err != nil {
					return err
				}
				meanwhile()
				return paySQL(ctx, tx, amount)
			})
		},
		guardInside: func(ctx context.Context, f fencedstore.Fence) error {
			return inTx(ctx, db, func(tx *sql.Tx) error {
				return inSavepoint(ctx, tx, func() error { return fencedpg.GuardSQL(ctx, tx, f) })
			})
		},
	}
}
