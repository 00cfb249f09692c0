package postgres_test

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

// Every replica asks each night; one of them bills.
func ExampleRunOnce() {
	ctx, pool := context.Background(), new(pgxpool.Pool) // from pgxpool.New
	ran, err := fencedpg.RunOnce(ctx, pool, "billing/2026-12-01", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into invoices select id, usage from accounts")
		return err
	})
	switch {
	case errors.Is(err, fencedstore.ErrUnknownOutcome):
		log.Print("ask again with the same key: ", err)
	case err != nil:
		log.Print("nothing was billed: ", err)
	case ran:
		log.Print("billed here")
	default:
		log.Print("billed before, or by somebody else")
	}
}

// A worker takes jobs, works for as long as its lease lasts, and finishes each in
// the transaction that writes its results.
func ExampleQueue() {
	ctx, pool := context.Background(), new(pgxpool.Pool) // from pgxpool.New
	queue, err := fencedpg.NewQueue(pool, pgx.Identifier{"jobs"}, &fencedpg.QueueOptions{MaxAttempts: 5})
	if err != nil {
		log.Fatal(err)
	}
	jobs, err := queue.Take(ctx, 10, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		err := queue.Finish(ctx, job, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into invoices select id, usage from accounts where id = $1", job.ID)
			return err
		})
		if errors.Is(err, fencedstore.ErrStale) {
			log.Print("it took too long, and somebody else has the job: ", err)
		} else if err != nil {
			log.Print(err)
		}
	}
}

// A pool whose commits say so when a synchronous standby may not have them.
func ExampleWatchReplication() {
	config, err := pgxpool.ParseConfig("postgres://app@db.example/billing")
	if err != nil {
		log.Fatal(err)
	}
	fencedpg.WatchReplication(config.ConnConfig)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
}
