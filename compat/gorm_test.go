package compat_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

// Account is GORM's and bun's model.
type Account struct{ ID, Balance int64 }

// TableName implements GORM's Tabler.
func (Account) TableName() string { return "account" }

func withdrawGORM(ctx context.Context, db *gorm.DB, f fencedstore.Fence, id, amount int64) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := guardGORM(ctx, tx, f); err != nil {
			return err
		}
		return tx.Model(&Account{ID: id}).Update("balance", gorm.Expr("balance - ?", amount)).Error
	})
}

// guardGORM is the first call in a transaction, outside nested ones.
func guardGORM(ctx context.Context, tx *gorm.DB, f fencedstore.Fence) error {
	conn := tx.Statement.ConnPool
	if prepared, ok := conn.(*gorm.PreparedStmtTX); ok { // Config.PrepareStmt
		conn = prepared.Tx
	}
	sqlTx, ok := conn.(*sql.Tx)
	if !ok {
		return fmt.Errorf("%T is no transaction", conn)
	}
	return fencedpg.GuardSQL(ctx, sqlTx, f)
}

func payGORM(tx *gorm.DB, amount int64) error {
	return tx.Model(&Account{ID: 7}).Update("balance", gorm.Expr("balance - ?", amount)).Error
}

func gormWay(tb testing.TB, db *sql.DB, prepare bool) way {
	tb.Helper()
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{
		PrepareStmt: prepare, Logger: logger.Discard,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return way{
		pay: func(ctx context.Context, f fencedstore.Fence, amount int64) error {
			return withdrawGORM(ctx, g, f, 7, amount)
		},
		nest: func(ctx context.Context, f fencedstore.Fence, amount int64, meanwhile func()) error {
			return g.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
				if err := guardGORM(ctx, tx, f); err != nil {
					return err
				}
				err := undoTwice(func() error {
					return tx.Transaction(func(tx *gorm.DB) error { return errors.Join(payGORM(tx, amount), errUndo) })
				})
				if err != nil {
					return err
				}
				meanwhile()
				return tx.Transaction(func(tx *gorm.DB) error { return payGORM(tx, amount) })
			})
		},
		guardInside: func(ctx context.Context, f fencedstore.Fence) error {
			return g.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
				return tx.Transaction(func(tx *gorm.DB) error { return guardGORM(ctx, tx, f) })
			})
		},
	}
}

func TestGuardOfGORMOutsideATransactionIsAnError(t *testing.T) {
	t.Parallel()
	db := openSQL(t, "pgx", database(t))
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := guardGORM(t.Context(), g, fencedstore.Fence{}); err == nil {
		t.Error("no error")
	}
}
