package main

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/examples/billing/internal/ledger"
	"github.com/fenced-go/fenced/examples/billing/internal/nightly"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

// workLockless is one worker of -mode once or queue.
func workLockless(ctx context.Context, j job, observe func(nightly.Event), price priceFunc) error {
	cfg, err := poolConfig(j.Postgres)
	if err != nil {
		return err
	}
	if j.Mode == modeOnce {
		// what the lease is to a lock: who is paused in its transaction for longer
		// makes room for another
		ms := strconv.FormatInt(j.TTL.Milliseconds(), 10)
		cfg.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = ms
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	if j.Mode == modeOnce {
		return serve(ctx, &nightly.Once{DB: pool, Observe: observe, Price: price})
	}
	jobs, err := fencedpg.NewQueue(pool, pgx.Identifier{ledger.Schema, "jobs"}, nil)
	if err != nil {
		return err
	}
	return serve(ctx, &nightly.Queued{DB: pool, Jobs: jobs, Lease: j.TTL, Observe: observe, Price: price})
}
