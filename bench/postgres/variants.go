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

const accounts = `CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor = 50);
	INSERT INTO account SELECT n, 0 FROM generate_series(0, %d) n;`

// bank is the variants over one pool.
type bank struct {
	pool   *pgxpool.Pool
	store  *postgres.Store
	fence  fencedstore.Fence
	row    [most]int               // the next row of a worker
	claims [most]fencedstore.Fence // the last claim of a worker
}

// newBank claims the fence that all guarded work is under.
func newBank(ctx context.Context, pool *pgxpool.Pool) (*bank, error) {
	store, err := postgres.New(pool, nil)
	if err != nil {
		return nil, err
	}
	b := &bank{pool: pool, store: store, fence: fence("bench")}
	for i := range b.claims {
		b.claims[i] = fence(fmt.Sprintf("bench:%d", i))
	}
	return b, store.Claim(ctx, b.fence)
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
	_, err := b.store.Exec(ctx, b.fence, updateText, b.id(worker))
	return err
}

func (b *bank) batch(ctx context.Context, worker int) error {
	var batch pgx.Batch
	batch.Queue(updateText, b.id(worker))
	return b.store.SendBatch(ctx, b.fence, &batch)
}

func (b *bank) inTx(ctx context.Context, worker int) error {
	return b.store.InTx(ctx, b.fence, func(tx pgx.Tx) error {
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
		{Name: "tx", Do: b.tx},
		{Name: "exec", Do: b.exec},
		{Name: "batch", Do: b.batch},
		{Name: "intx", Do: b.inTx},
		{Name: "claim", Do: b.claim},
	}
}
