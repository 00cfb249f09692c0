package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"text/tabwriter"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/bench/internal/rounds"
	"github.com/fenced-go/fenced/internal/testenv"
)

// footprint is what a guarded write leaves in the server, beyond what its UPDATE
// does.
type footprint struct {
	wal        float64 // bytes of log, for one write
	versions   float64 // row versions in the table of the marks, dead after the next one
	multixacts float64
}

// footprints prints what the forms leave behind, and checks that the guard leaves
// nothing. Log bytes are the least of several rounds: the server writes some of
// its own now and then.
func footprints(ctx context.Context, p *rounds.Program, server *testenv.Postgres) error {
	b, err := connect(ctx, server.DirectURL("postgres"), most, false)
	if err != nil {
		return err
	}
	defer b.pool.Close()
	names := []string{"update", "exec", "share", "upsert", "claim"}
	do := map[string]func(context.Context, int) error{
		"update": b.update, "exec": b.exec, "share": b.share, "upsert": b.upsert, "claim": b.claim,
	}
	least := map[string]footprint{}
	for range rounds.Pick(p, 7, 3) {
		for _, name := range names {
			got, err := leaves(ctx, b.pool, do[name])
			if err != nil {
				return fmt.Errorf("footprint of %s: %w", name, err)
			}
			if before, ok := least[name]; ok {
				got.wal = math.Min(got.wal, before.wal)
				got.multixacts = math.Max(got.multixacts, before.multixacts)
			}
			least[name] = got
		}
	}
	guard, plain := least["exec"], least["update"]
	p.Report.AtMost("guard_wal_bytes", exact(math.Round(guard.wal-plain.wal)), 0)
	p.Report.AtMost("guard_row_versions", exact(guard.versions), 0)
	p.Report.AtMost("guard_multixacts", exact(guard.multixacts), 0)
	return writeFootprints(os.Stdout, names, least)
}

func exact(v float64) rounds.Spread { return rounds.Spread{Low: v, Mid: v, High: v} }

// perWorker is how many writes every worker does in a round.
const perWorker = 40

// leaves runs a form over all connections, once to warm up, so that no page is
// logged whole any more, and once to measure.
func leaves(ctx context.Context, pool *pgxpool.Pool, do func(context.Context, int) error) (f footprint, err error) {
	var multixacts, wal, versions [2]float64
	if multixacts[0], err = nextMultixact(ctx, pool); err != nil {
		return f, err
	}
	for i := range 2 {
		if err := together(ctx, do); err != nil {
			return f, err
		}
		if wal[i], versions[i], err = written(ctx, pool); err != nil {
			return f, err
		}
	}
	if multixacts[1], err = nextMultixact(ctx, pool); err != nil {
		return f, err
	}
	const n = most * perWorker
	return footprint{
		wal: (wal[1] - wal[0]) / n, versions: (versions[1] - versions[0]) / n, multixacts: (multixacts[1] - multixacts[0]) / (2 * n),
	}, nil
}

func together(ctx context.Context, do func(context.Context, int) error) error {
	errs := make(chan error, most)
	var all sync.WaitGroup
	for worker := range most {
		all.Go(func() {
			for range perWorker {
				if err := do(ctx, worker); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// written is how much of the log there is, and how many row versions were made.
// Sessions report what they changed when they are idle, so every one is asked to.
func written(ctx context.Context, pool *pgxpool.Pool) (wal, versions float64, err error) {
	if err := pool.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8").Scan(&wal); err != nil {
		return 0, 0, err
	}
	for _, c := range pool.AcquireAllIdle(ctx) {
		_, flushErr := c.Exec(ctx, "SELECT pg_stat_force_next_flush()")
		c.Release()
		err = errors.Join(err, flushErr)
	}
	if err != nil {
		return 0, 0, err
	}
	const query = "SELECT sum(n_tup_upd)::float8 FROM pg_stat_all_tables" +
		" WHERE schemaname || '.' || relname IN ('fencedstore.fence', 'public.naive')"
	err = pool.QueryRow(ctx, query).Scan(&versions)
	return wal, versions, err
}

// nextMultixact is known after a checkpoint only.
func nextMultixact(ctx context.Context, pool *pgxpool.Pool) (id float64, err error) {
	if _, err := pool.Exec(ctx, "CHECKPOINT"); err != nil {
		return 0, err
	}
	err = pool.QueryRow(ctx, "SELECT next_multixact_id::text::float8 FROM pg_control_checkpoint()").Scan(&id)
	return id, err
}

func writeFootprints(w io.Writer, names []string, least map[string]footprint) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(w, "\nwhat a write leaves behind, connections: %d\n\n", most)
	_, _ = fmt.Fprint(t, "log bytes\tover update\trow versions\tmultixacts\t \n")
	for _, name := range names {
		f := least[name]
		_, _ = fmt.Fprintf(t, "%.0f\t%+.0f\t%.2f\t%.2f\t %s\n", f.wal, f.wal-least["update"].wal, f.versions, f.multixacts, name)
	}
	return t.Flush()
}
