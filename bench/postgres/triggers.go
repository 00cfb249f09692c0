package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/bench/internal/rounds"
	"github.com/fenced-go/fenced/internal/testenv"
)

// shieldedTables are copies of account: one that no trigger protects, one that is
// a resource, and one whose rows name theirs.
const shieldedTables = `CREATE TABLE open_account WITH (fillfactor = 50) AS SELECT id, balance, 'bench'::text AS owner FROM account;
	CREATE TABLE one_account WITH (fillfactor = 50) AS TABLE open_account;
	CREATE TABLE row_account WITH (fillfactor = 50) AS TABLE open_account;
	ALTER TABLE open_account ADD PRIMARY KEY (id);
	ALTER TABLE one_account ADD PRIMARY KEY (id);
	ALTER TABLE row_account ADD PRIMARY KEY (id);`

// manyRows is how many rows the longer statements change.
const manyRows = 1000

// protectTables are their triggers. What postgres.Protect does is done in SQL, by
// the connection that makes the tables.
const protectTables = `SELECT fencedstore.protect('one_account', 'bench');
	SELECT fencedstore.protect_by('row_account', 'owner', '');`

const updateOneText = "UPDATE one_account SET balance = balance + 1 WHERE id = $1"

// guarded is a guarded write to a protected table.
func (b *bank) guarded(ctx context.Context, worker int) error {
	_, err := b.store.Exec(ctx, b.fence, updateOneText, b.id(worker))
	return err
}

// shown sets by hand what the trigger looks at, in place of a guard.
func (b *bank) shown(ctx context.Context, worker int) error {
	text := fmt.Sprintf("\n=%s\n:%d:%x;", b.fence.Resource, b.fence.ID, b.fence.Holder)
	return b.oneWith(ctx, "SELECT set_config('fencedstore.shown', $1, true)", text, worker)
}

// enter is a guard by the text of the fence.
func (b *bank) enter(ctx context.Context, worker int) error {
	return b.oneWith(ctx, "SELECT fencedstore.enter($1)", b.fence.String(), worker)
}

func (b *bank) oneWith(ctx context.Context, first, arg string, worker int) error {
	var batch pgx.Batch
	batch.Queue(first, arg)
	batch.Queue(updateOneText, b.id(worker))
	return b.pool.SendBatch(ctx, &batch).Close()
}

// changes is a guarded UPDATE of that many rows of a table.
func (b *bank) changes(table string, rows int) func(context.Context, int) error {
	text := "UPDATE " + table + " SET balance = balance + 1 WHERE id BETWEEN $1 AND $2"
	return func(ctx context.Context, worker int) error {
		first := b.id(worker)
		_, err := b.store.Exec(ctx, b.fence, text, first, first+rows-1)
		return err
	}
}

// triggers compares guarded statements on tables with and without protection. No
// commit waits for the disk, which would hide what a trigger costs.
func triggers(ctx context.Context, p *rounds.Program, server *testenv.Postgres) error {
	b, err := connect(ctx, server.DirectURL("postgres")+"&synchronous_commit=off", 1, false)
	if err != nil {
		return err
	}
	defer b.pool.Close()
	r, err := p.Compare(ctx, rounds.Plan{
		Name:   "guarded statements of one row and of a thousand, by what protects the table, connections: 1",
		Rounds: rounds.Pick(p, 60, 3), Slice: 200 * time.Millisecond, Workers: 1,
	},
		rounds.Variant{Name: "open 1", Do: b.changes("open_account", 1)},
		rounds.Variant{Name: "protect 1", Do: b.changes("one_account", 1)},
		rounds.Variant{Name: "protect_by 1", Do: b.changes("row_account", 1)},
		rounds.Variant{Name: "open 1000", Do: b.changes("open_account", manyRows)},
		rounds.Variant{Name: "protect 1000", Do: b.changes("one_account", manyRows)},
		rounds.Variant{Name: "protect_by 1000", Do: b.changes("row_account", manyRows)},
	)
	if err != nil {
		return err
	}
	p.Report.AtMost("protect_1_row_p50", r.Ratio(rounds.P50, "protect 1", "open 1"), 1.5)
	p.Report.AtMost("protect_1000_rows_p50", r.Ratio(rounds.P50, "protect 1000", "open 1000"), 1.1)
	p.Report.AtMost("protect_by_1_row_p50", r.Ratio(rounds.P50, "protect_by 1", "open 1"), 2)
	p.Report.AtMost("protect_by_1000_rows_p50", r.Ratio(rounds.P50, "protect_by 1000", "open 1000"), 1.8)
	return nil
}

// protected are the ways to write to a protected table.
func (b *bank) protected() []rounds.Variant {
	return []rounds.Variant{
		{Name: "trigger", Do: b.guarded},
		{Name: "shown", Do: b.shown},
		{Name: "enter", Do: b.enter},
	}
}
