package compat_test

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

func withdrawBun(ctx context.Context, db *bun.DB, f fencedstore.Fence, id, amount int64) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if err := fencedpg.GuardSQL(ctx, tx.Tx, f); err != nil {
			return err
		}
		_, err := tx.NewUpdate().Table("account").Set("balance = balance - ?", amount).Where("id = ?", id).Exec(ctx)
		return err
	})
}

func payBun(ctx context.Context, tx bun.Tx, amount int64) error {
	_, err := tx.NewUpdate().Table("account").Set("balance = balance - ?", amount).Where("id = 7").Exec(ctx)
	return err
}

func bunWay(db *sql.DB) way {
	b := bun.NewDB(db, pgdialect.New())
	return way{
		pay: func(ctx context.Context, f fencedstore.Fence, amount int64) error {
			return withdrawBun(ctx, b, f, 7, amount)
		},
		nest: func(ctx context.Context, f fencedstore.Fence, amount int64, meanwhile func()) error {
			return b.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				if err := fencedpg.GuardSQL(ctx, tx.Tx, f); err != nil {
					return err
				}
				err := undoTwice(func() error {
					return tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
						return errors.Join(payBun(ctx, tx, amount), errUndo)
					})
				})
				if err != nil {
					return err
				}
				meanwhile()
				return tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return payBun(ctx, tx, amount) })
			})
		},
		guardInside: func(ctx context.Context, f fencedstore.Fence) error {
			return b.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				return tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
					return fencedpg.GuardSQL(ctx, tx.Tx, f)
				})
			})
		},
	}
}
