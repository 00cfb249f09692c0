package fenced_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// The README shows this function, and the integration tests run it.
//
//nolint:errcheck,contextcheck // an example for readers leaves the error of Close out
func bill(ctx context.Context, rdb redis.UniversalClient, db *pgxpool.Pool) error {
	store, err := postgres.New(db, nil)
	if err != nil {
		return err
	}
	locker, err := fencedlock.New(rdb, &fencedlock.Options{Stores: []fencedstore.Claimer{store}})
	if err != nil {
		return err
	}
	defer locker.Close()
	return locker.Do(ctx, "billing/2026-12", nil, func(ctx context.Context, f fencedstore.Fence) error {
		return store.InTx(ctx, f, func(tx pgx.Tx) error { // refused if somebody newer holds the lock
			_, err := tx.Exec(ctx, "INSERT INTO invoices SELECT id, usage FROM accounts")
			return err
		})
	})
}
