package compat_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"

	"github.com/fenced-go/fenced/compat/ent"
	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

// guardedDriver guards every transaction of an ent client by the fence in its
// context: ent.NewClient(ent.Driver(guardedDriver{entsql.OpenDB(dialect.Postgres, db)})).
type guardedDriver struct{ *entsql.Driver }

func (d guardedDriver) Tx(ctx context.Context) (dialect.Tx, error) { return d.BeginTx(ctx, nil) }

func (d guardedDriver) BeginTx(ctx context.Context, opts *sql.TxOptions) (dialect.Tx, error) {
	f, err := fencedstore.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := d.DB().BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := fencedpg.GuardSQL(ctx, tx, f); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return &entsql.Tx{Conn: entsql.Conn{ExecQuerier: tx}, Tx: tx}, nil
}

func withdrawEnt(ctx context.Context, client *ent.Client, f fencedstore.Fence, id, amount int64) error {
	tx, err := client.Tx(fencedstore.NewContext(ctx, f)) // a lock's context has it already
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit: nothing
	if err := tx.Account.UpdateOneID(id).AddBalance(-amount).Exec(ctx); err != nil {
		return err
	}
	return tx.Commit()
}

func entClient(db *sql.DB) *ent.Client {
	return ent.NewClient(ent.Driver(guardedDriver{entsql.OpenDB(dialect.Postgres, db)}))
}

func entWay(db *sql.DB) way {
	client := entClient(db)
	return way{
		pay: func(ctx context.Context, f fencedstore.Fence, amount int64) error {
			return withdrawEnt(ctx, client, f, 7, amount)
		},
	}
}

// An ent client inside a transaction cannot begin another, so that there is no
// savepoint to lose a guard in; one without a fence begins none at all.
func TestTransactionsOfEntDoNotNest(t *testing.T) {
	t.Parallel()
	url := database(t)
	client := entClient(openSQL(t, "pgx", url))
	if _, err := client.Tx(t.Context()); !errors.Is(err, fencedstore.ErrNoFence) {
		t.Errorf("without a fence: got %v, want ErrNoFence", err)
	}
	f := claimed(t, newStore(t, openPool(t, url), nil), 5)
	ctx := fencedstore.NewContext(t.Context(), f)
	tx, err := client.Tx(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Client().Tx(ctx); !errors.Is(err, ent.ErrTxStarted) {
		t.Errorf("nested: got %v, want ErrTxStarted", err)
	}
}
