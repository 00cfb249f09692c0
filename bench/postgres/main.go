package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx", for migrations

	"github.com/fenced-go/fenced/bench/internal/rounds"
	"github.com/fenced-go/fenced/internal/testenv"
	"github.com/fenced-go/fenced/migrations/migrate"
)

func main() { rounds.Main(run) }

// defaults undo what testenv chooses for tests.
func defaults() []string {
	var args []string
	for _, setting := range []string{
		"fsync=on", "full_page_writes=on", "synchronous_commit=on", "wal_level=replica",
		"max_connections=100", "shared_buffers=128MB", "jit=on",
	} {
		args = append(args, "-c", setting)
	}
	return args
}

func run(ctx context.Context, p *rounds.Program) (err error) {
	server, err := testenv.StartPostgres(defaults()...) //nolint:contextcheck // a server outlives the call that starts it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if err := prepare(ctx, server.DirectURL("postgres")); err != nil {
		return err
	}
	for _, conns := range []int{1, 8, most} {
		if err := throughput(ctx, p, server, conns); err != nil {
			return err
		}
	}
	for _, conns := range []int{1, 8, most} {
		if err := manyResources(ctx, p, server, conns); err != nil {
			return err
		}
	}
	if err := footprints(ctx, p, server); err != nil {
		return err
	}
	if err := triggers(ctx, p, server); err != nil {
		return err
	}
	return latency(ctx, p, server)
}

// prepare makes the tables.
func prepare(ctx context.Context, url string) (err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := migrate.Up(ctx, db); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf(accounts, most*rowsEach-1)+naiveTables+shieldedTables+protectTables)
	return err
}

// connect makes the variants over a pool of its own.
func connect(ctx context.Context, url string, conns int, spread bool) (*bank, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = int32(conns), int32(conns)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	b, err := newBank(ctx, pool, spread)
	if err != nil {
		pool.Close()
	}
	return b, err
}

// throughput compares how much work gets done over a number of connections.
func throughput(ctx context.Context, p *rounds.Program, server *testenv.Postgres, conns int) error {
	b, err := connect(ctx, server.DirectURL("postgres"), conns, false)
	if err != nil {
		return err
	}
	defer b.pool.Close()
	r, err := p.Compare(ctx, rounds.Plan{
		Name:   fmt.Sprintf("one row in one transaction, connections: %d", conns),
		Rounds: rounds.Pick(p, 60, 3), Slice: 100 * time.Millisecond, Workers: conns,
	}, append(b.variants(), b.protected()...)...)
	if err != nil {
		return err
	}
	named := func(what string) string { return fmt.Sprintf("%s_%d", what, conns) }
	perSecond := func(name, base string) rounds.Spread { return r.Ratio(rounds.PerSecond, name, base) }
	p.Report.AtLeast(named("exec_vs_update"), perSecond("exec", "update"), map[int]float64{1: 0.85, 8: 0.75, most: 0.65}[conns])
	p.Report.AtLeast(named("exec_vs_tx"), perSecond("exec", "tx"), 1)
	p.Report.AtLeast(named("intx_vs_tx"), perSecond("intx", "tx"), 0.7)
	p.Report.AtLeast(named("claim_vs_update"), perSecond("claim", "update"), 0.55)
	if conns == most {
		p.Report.AtLeast(named("exec_vs_upsert"), perSecond("exec", "upsert"), 4)
	}
	return nil
}

// manyResources is the same with a resource for each row, so that nothing of the
// guard is shared by two writes. It has no goals of its own.
func manyResources(ctx context.Context, p *rounds.Program, server *testenv.Postgres, conns int) error {
	b, err := connect(ctx, server.DirectURL("postgres"), conns, true)
	if err != nil {
		return err
	}
	defer b.pool.Close()
	_, err = p.Compare(ctx, rounds.Plan{
		Name:   fmt.Sprintf("each of %d rows is a resource, connections: %d", most*rowsEach, conns),
		Rounds: rounds.Pick(p, 40, 2), Slice: 100 * time.Millisecond, Workers: conns,
	}, b.variants()...)
	return err
}

// oneWay is what the network of the latency comparison adds in each direction.
const oneWay = 500 * time.Microsecond

// latency compares how long a lone caller waits when the server is not on the
// same machine.
func latency(ctx context.Context, p *rounds.Program, server *testenv.Postgres) error {
	b, err := connect(ctx, server.URL("postgres"), 1, false)
	if err != nil {
		return err
	}
	defer b.pool.Close()
	server.Proxy.Delay(oneWay)
	defer server.Proxy.Heal() //nolint:contextcheck // it dials nobody
	r, err := p.Compare(ctx, rounds.Plan{
		Name:   "the same over a network that adds 1 ms or more, connections: 1",
		Rounds: rounds.Pick(p, 60, 3), Slice: 100 * time.Millisecond, Workers: 1,
	}, append([]rounds.Variant{{Name: "ping", Do: b.ping}}, b.variants()...)...)
	if err != nil {
		return err
	}
	p.Report.AtMost("exec_vs_update_p50_1ms", r.Ratio(rounds.P50, "exec", "update"), 1.1)
	p.Report.AtMost("intx_vs_tx_p50_1ms", r.Ratio(rounds.P50, "intx", "tx"), 1.05)
	return nil
}
