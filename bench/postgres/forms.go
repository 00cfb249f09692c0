package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// What people write instead of the guard. Not all of it is safe: docs/design.md
// says what each lets through.

const (
	upsertText = "INSERT INTO naive AS n VALUES ($1, $2) ON CONFLICT (resource)" +
		" DO UPDATE SET fence_id = excluded.fence_id WHERE n.fence_id <= excluded.fence_id"
	// An error where there is no row.
	shareText = "SELECT 1 / count(*) FROM (SELECT FROM naive WHERE resource = $1 AND fence_id = $2 FOR SHARE) g"
	cteText   = "WITH g AS (SELECT FROM naive WHERE resource = $2 AND fence_id = $3 FOR SHARE)" +
		" UPDATE account SET balance = balance + 1 WHERE id = $1 AND EXISTS (SELECT FROM g)"
	rowText   = "UPDATE account SET balance = balance + 1, fence_id = $2 WHERE id = $1 AND fence_id <= $2"
	guardText = "SELECT fencedstore.guard($1::text, $2::int8, $3::bytea)"
)

// naiveTables are those of the other forms. bare_guard is the guard without its
// hash, its rights and its idle timeout.
const naiveTables = `CREATE TABLE naive (resource text PRIMARY KEY, fence_id bigint NOT NULL) WITH (fillfactor = 50);
	CREATE FUNCTION bare_guard(p_resource text, p_fence bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
	  PERFORM pg_advisory_xact_lock_shared(7, hashtext(p_resource));
	  PERFORM FROM naive WHERE resource = p_resource AND fence_id = p_fence;
	  IF NOT FOUND THEN RAISE EXCEPTION 'stale'; END IF;
	END $$;`

// twice sends two statements in one round trip and one transaction.
func (b *bank) twice(ctx context.Context, first string, args []any, worker int) error {
	var batch pgx.Batch
	batch.Queue(first, args...)
	batch.Queue(updateText, b.id(worker))
	return b.pool.SendBatch(ctx, &batch).Close()
}

func (b *bank) two(ctx context.Context, worker int) error {
	return b.twice(ctx, "SELECT 1", nil, worker)
}

func (b *bank) upsert(ctx context.Context, worker int) error {
	f := b.fenceFor(worker)
	return b.twice(ctx, upsertText, []any{f.Resource, f.ID}, worker)
}

func (b *bank) share(ctx context.Context, worker int) error {
	f := b.fenceFor(worker)
	return b.twice(ctx, shareText, []any{f.Resource, f.ID}, worker)
}

func (b *bank) bare(ctx context.Context, worker int) error {
	f := b.fenceFor(worker)
	return b.twice(ctx, "SELECT bare_guard($1::text, $2::int8)", []any{f.Resource, f.ID}, worker)
}

func (b *bank) late(ctx context.Context, worker int) error {
	f := b.fenceFor(worker)
	var batch pgx.Batch
	batch.Queue(updateText, b.id(worker))
	batch.Queue(guardText, f.Resource, f.ID, []byte(f.Holder))
	return b.pool.SendBatch(ctx, &batch).Close()
}

func (b *bank) cte(ctx context.Context, worker int) error {
	f := b.fenceFor(worker)
	_, err := b.pool.Exec(ctx, cteText, b.id(worker), f.Resource, f.ID)
	return err
}

func (b *bank) rowLevel(ctx context.Context, worker int) error {
	_, err := b.pool.Exec(ctx, rowText, b.id(worker), b.fence.ID)
	return err
}

// separate sends the guard as a statement of its own: four round trips.
func (b *bank) separate(ctx context.Context, worker int) error {
	f := b.fenceFor(worker)
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		if err := postgres.Guard(ctx, tx, f); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, updateText, b.id(worker))
		return err
	})
}

// beforeCommit sends the guard together with COMMIT.
func (b *bank) beforeCommit(ctx context.Context, worker int) error {
	f := b.fenceFor(worker)
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, updateText, b.id(worker)); err != nil {
		return err
	}
	var batch pgx.Batch
	batch.Queue(guardText, f.Resource, f.ID, []byte(f.Holder))
	batch.Queue("COMMIT")
	return conn.SendBatch(ctx, &batch).Close()
}
