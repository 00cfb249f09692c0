package main

import (
	"context"
	"time"

	"github.com/fenced-go/fenced/bench/internal/rounds"
	"github.com/fenced-go/fenced/fencedstore/postgres"
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

// shield makes and protects the tables.
func (b *bank) shield(ctx context.Context) error {
	if _, err := b.pool.Exec(ctx, shieldedTables); err != nil {
		return err
	}
	if err := postgres.Protect(ctx, b.pool, "one_account", b.fence.Resource, nil); err != nil {
		return err
	}
	return postgres.ProtectBy(ctx, b.pool, "row_account", "owner", "", nil)
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
	if err := b.shield(ctx); err != nil {
		return err
	}
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
