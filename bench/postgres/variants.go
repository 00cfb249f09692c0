package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/bench/internal/rounds"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

const (
	most       = 32  // connections
	rowsEach   = 256 // rows of a worker; enough that no page is hot
	updateText = "UPDATE account SET balance = balance + 1 WHERE id = $1"
)

const accounts = `CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL, fence_id bigint NOT NULL DEFAULT 0)
	WITH (fillfactor = 50);
	INSERT INTO account SELECT n, 0, 0 FROM generate_series(0, %d) n;`

// bank is the variants over one pool.
type bank struct {
	pool   *pgxpool.Pool
	store  *postgres.Store
	fence  fencedstore.Fence
	spread bool                    // every row is a resource of its own
	row    [most]int               // the next row of a worker
	claims [most]fencedstore.Fence // the last claim of a worker
}

// newBank claims the fence that all guarded work is under, or with spread one of
// the same number for each row, all at once.
func newBank(ctx context.Context, pool *pgxpool.Pool, spread bool) (*bank, error) {
	store, err := postgres.New(pool, nil)
	if err != nil {
		return nil, err
	}
	b := &bank{pool: pool, store: store, fence: fence("bench"), spread: spread}
	for i := range b.claims {
		b.claims[i] = fence(fmt.Sprintf("bench:%d", i))
	}
	const all = "WITH r AS (SELECT $1 || CASE WHEN $4 THEN '/' || n ELSE '' END AS name FROM generate_series(0, CASE WHEN $4 THEN $5 ELSE 0 END) n)," +
		" marks AS (INSERT INTO fencedstore.fence SELECT name, $2, sha256($3), now() FROM r ON CONFLICT (resource)" +
		" DO UPDATE SET fence_id = excluded.fence_id, holder = excluded.holder)" +
		" INSERT INTO naive SELECT name, $2 FROM r ON CONFLICT (resource) DO UPDATE SET fence_id = excluded.fence_id"
	_, err = pool.Exec(ctx, all, b.fence.Resource, b.fence.ID, []byte(b.fence.Holder), spread, most*rowsEach-1)
	return b, err
}

// fenceFor is the one that the worker's next write is under.
func (b *bank) fenceFor(worker int) fencedstore.Fence {
	f := b.fence
	if b.spread {
		f.Resource = fmt.Sprintf("%s/%d", f.Resource, worker*rowsEach+(b.row[worker]+1)%rowsEach)
	}
	return f
}

// fence is newer than every one that was made before.
func fence(resource string) fencedstore.Fence {
	return fencedstore.Fence{Resource: resource, ID: time.Now().UnixMicro(), Holder: fencedstore.NewHolder()}
}

// id is the row that a worker updates next.
func (b *bank) id(worker int) int {
	b.row[worker] = (b.row[worker] + 1) % rowsEach
	return worker*rowsEach + b.row[worker]
}

func (b *bank) update(ctx context.Context, worker int) error {
	_, err := b.pool.Exec(ctx, updateText, b.id(worker))
	return err
}

func (b *bank) tx(ctx context.Context, worker int) error {
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, updateText, b.id(worker))
		return err
	})
}

func (b *bank) exec(ctx context.Context, worker int) error {
	_, err := b.store.Exec(ctx, b.fenceFor(worker), updateText, b.id(worker))
	return err
}

func (b *bank) batch(ctx context.Context, worker int) error {
	f := b.fenceFor(worker)
	var batch pgx.Batch
	batch.Queue(updateText, b.id(worker))
	return b.store.SendBatch(ctx, f, &batch)
}

func (b *bank) inTx(ctx context.Context, worker int) error {
	return b.store.InTx(ctx, b.fenceFor(worker), func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, updateText, b.id(worker))
		return err
	})
}

func (b *bank) claim(ctx context.Context, worker int) error {
	b.claims[worker].ID++
	return b.store.Claim(ctx, b.claims[worker])
}

// ping is one round trip that does nothing.
func (b *bank) ping(ctx context.Context, _ int) error {
	_, err := b.pool.Exec(ctx, "SELECT 1")
	return err
}

func (b *bank) variants() []rounds.Variant {
	return []rounds.Variant{
		{Name: "update", Do: b.update},
		{Name: "two", Do: b.two},
		{Name: "tx", Do: b.tx},
		{Name: "upsert", Do: b.upsert},
		{Name: "share", Do: b.share},
		{Name: "bare", Do: b.bare},
		{Name: "exec", Do: b.exec},
		{Name: "batch", Do: b.batch},
		{Name: "late", Do: b.late},
		{Name: "cte", Do: b.cte},
		{Name: "row", Do: b.rowLevel},
		{Name: "separate", Do: b.separate},
		{Name: "intx", Do: b.inTx},
		{Name: "commit", Do: b.beforeCommit},
		{Name: "claim", Do: b.claim},
	}
}
