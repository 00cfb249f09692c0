package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

const jobsTable = `create table jobs (id bigint generated always as identity primary key, attempt bigint not null default 0,
	due timestamptz not null default now(), done_at timestamptz, runs int not null default 0);
	create index on jobs (due) where done_at is null`

// setUpQueue is a queue of n jobs.
func setUpQueue(tb testing.TB, n int, changes ...func(*pgxpool.Config)) (*postgres.Queue, *pgxpool.Pool) {
	tb.Helper()
	url := database(tb)
	pool := openPool(tb, url)
	run(tb, pool, jobsTable)
	if _, err := pool.Exec(tb.Context(), "insert into jobs (due) select now() - interval '1 minute' from generate_series(1, $1)", n); err != nil {
		tb.Fatal(err)
	}
	return newQueue(tb, openPool(tb, url, changes...), nil), pool
}

func newQueue(tb testing.TB, db postgres.DB, opts *postgres.QueueOptions) *postgres.Queue {
	tb.Helper()
	q, err := postgres.NewQueue(db, pgx.Identifier{"jobs"}, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return q
}

// taken takes one job, which must be there or become due.
func taken(tb testing.TB, q *postgres.Queue, lease time.Duration) (j postgres.Job) {
	tb.Helper()
	testenv.Eventually(tb, within, "a job is due", func() bool {
		jobs, err := q.Take(tb.Context(), 1, lease)
		if err != nil {
			tb.Fatal(err)
		}
		if len(jobs) == 1 {
			j = jobs[0]
		}
		return len(jobs) == 1
	})
	return j
}

// count adds one to a job's runs.
func count(ctx context.Context, tx pgx.Tx, j postgres.Job) error {
	_, err := tx.Exec(ctx, "update jobs set runs = runs + 1 where id = $1", j.ID)
	return err
}

func runs(tb testing.TB, pool *pgxpool.Pool) (least, most, done int) {
	tb.Helper()
	err := pool.QueryRow(tb.Context(), "select min(runs), max(runs), count(done_at) from jobs").Scan(&least, &most, &done)
	if err != nil {
		tb.Fatal(err)
	}
	return least, most, done
}

func TestEveryJobIsFinishedOnceByManyWorkers(t *testing.T) {
	t.Parallel()
	const workers, n = 8, 60
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			q, pool := setUpQueue(t, n, setting("default_transaction_isolation", string(level)))
			var all sync.WaitGroup
			for range workers {
				all.Go(func() {
					for {
						jobs, err := q.Take(t.Context(), 3, time.Minute)
						if err != nil {
							t.Errorf("take: %v", err)
						}
						if len(jobs) == 0 {
							return
						}
						for _, j := range jobs {
							finish := func() error {
								return q.Finish(t.Context(), j, func(tx pgx.Tx) error { return count(t.Context(), tx, j) })
							}
							err := finish()
							for isCode(err, "40001") { // the callback's own, at serializable
								err = finish()
							}
							if err != nil {
								t.Errorf("finish: %v", err)
							}
						}
					}
				})
			}
			all.Wait()
			if least, most, done := runs(t, pool); least != 1 || most != 1 || done != n {
				t.Errorf("jobs were done %d to %d times, %d are finished", least, most, done)
			}
		})
	}
}

// The worker was paused for longer than its lease, and another has the job.
func TestOvertakenAttemptIsRefused(t *testing.T) {
	t.Parallel()
	q, pool := setUpQueue(t, 1)
	paused := taken(t, q, time.Millisecond)
	next := taken(t, q, time.Minute)
	if paused.ID != next.ID || paused.Attempt != 1 || next.Attempt != 2 {
		t.Fatalf("taken as %v and %v", paused, next)
	}
	work := func(j postgres.Job) func(pgx.Tx) error {
		return func(tx pgx.Tx) error { return count(t.Context(), tx, j) }
	}
	var stale *fencedstore.StaleError
	refused := func(err error) {
		t.Helper()
		if !errors.As(err, &stale) || stale.Newest != 2 || stale.Fence.Resource != "jobs/1" || stale.Fence.ID != 1 {
			t.Errorf("the paused worker got %v, want stale by 2", err)
		}
	}
	refused(q.Finish(t.Context(), paused, work(paused)))
	refused(q.Postpone(t.Context(), paused, time.Hour))
	if err := q.Finish(t.Context(), next, work(next)); err != nil {
		t.Fatal(err)
	}
	refused(q.Finish(t.Context(), paused, work(paused)))
	if err := q.Finish(t.Context(), next, work(next)); err != nil {
		t.Errorf("finished again: %v", err)
	}
	if err := q.Postpone(t.Context(), next, 0); !errors.Is(err, postgres.ErrJobDone) {
		t.Errorf("postponed when done: %v", err)
	}
	if _, most, _ := runs(t, pool); most != 1 {
		t.Errorf("the work was done %d times", most)
	}
}

// Naive: the job is marked done by its ID alone, and both have done it.
func TestFinishingByIDAloneLetsTheOvertakenWorkerFinish(t *testing.T) {
	t.Parallel()
	q, pool := setUpQueue(t, 1)
	for _, j := range []postgres.Job{taken(t, q, time.Millisecond), taken(t, q, time.Minute)} {
		run(t, pool, "update jobs set runs = runs + 1, done_at = now() where id = "+number64(j.ID))
	}
	if _, most, _ := runs(t, pool); most != 2 {
		t.Errorf("naive: the work was done %d times, want 2", most)
	}
}

// Who finishes is not disturbed by the end of its lease.
func TestJobThatIsBeingFinishedIsSkipped(t *testing.T) {
	t.Parallel()
	q, pool := setUpQueue(t, 2)
	first := taken(t, q, time.Millisecond)
	err := q.Finish(t.Context(), first, func(tx pgx.Tx) error {
		if other := taken(t, q, time.Minute); other.ID == first.ID {
			t.Errorf("%v was handed out while it was being finished", other)
		}
		jobs, err := q.Take(t.Context(), 10, time.Minute)
		if err != nil || len(jobs) != 0 {
			t.Errorf("then %v was handed out (%v)", jobs, err)
		}
		return count(t.Context(), tx, first)
	})
	if _, most, done := runs(t, pool); err != nil || most != 1 || done != 1 {
		t.Errorf("finish: %v, done %d times, %d jobs", err, most, done)
	}
}

func TestFailedWorkIsUndoneAndTheJobComesAgain(t *testing.T) {
	t.Parallel()
	q, pool := setUpQueue(t, 1, setting("idle_in_transaction_session_timeout", "30ms"))
	j := taken(t, q, time.Hour)
	err := q.Finish(t.Context(), j, func(tx pgx.Tx) error { return errors.Join(count(t.Context(), tx, j), errCallback) })
	if !errors.Is(err, errCallback) {
		t.Errorf("got %v, want the callback's error", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = q.Finish(t.Context(), j, func(pgx.Tx) error { panic(errCallback) })
	}()
	err = q.Finish(t.Context(), j, func(tx pgx.Tx) error {
		err := count(t.Context(), tx, j)
		testenv.Eventually(t, within, "the server ends the paused transaction", func() bool {
			var n int
			const query = "select count(*) from pg_stat_activity where pid = $1"
			return errors.Join(pool.QueryRow(t.Context(), query, tx.Conn().PgConn().PID()).Scan(&n)) == nil && n == 0
		})
		return err
	})
	if err == nil || errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("the paused worker got %v, want a plain failure", err)
	}
	if err := q.Postpone(t.Context(), j, 0); err != nil {
		t.Fatal(err)
	}
	again := taken(t, q, time.Hour)
	if least, _, done := runs(t, pool); again.Attempt != 2 || least != 0 || done != 0 {
		t.Errorf("taken again as %v, done %d times, %d finished", again, least, done)
	}
}

func TestPostponedJobStaysWithItsWorker(t *testing.T) {
	t.Parallel()
	q, _ := setUpQueue(t, 1)
	j := taken(t, q, time.Hour)
	if err := q.Postpone(t.Context(), j, time.Hour); err != nil {
		t.Fatal(err)
	}
	if jobs, err := q.Take(t.Context(), 1, time.Hour); err != nil || len(jobs) != 0 {
		t.Errorf("%v was handed out twice (%v)", jobs, err)
	}
	if err := q.Finish(t.Context(), j, nil); err != nil {
		t.Error(err)
	}
}

func TestJobIsHandedOutAtMostSoOften(t *testing.T) {
	t.Parallel()
	_, pool := setUpQueue(t, 1)
	q := newQueue(t, pool, &postgres.QueueOptions{MaxAttempts: 2})
	for want := int64(1); want <= 2; want++ {
		if j := taken(t, q, time.Minute); j.Attempt != want {
			t.Errorf("attempt %d, want %d", j.Attempt, want)
		}
		run(t, pool, "update jobs set due = now()")
	}
	if jobs, err := q.Take(t.Context(), 1, time.Minute); err != nil || len(jobs) != 0 {
		t.Errorf("handed out a third time: %v (%v)", jobs, err)
	}
}

func TestJobsComeInTheOrderInWhichTheyWereDue(t *testing.T) {
	t.Parallel()
	q, pool := setUpQueue(t, 0)
	run(t, pool, "insert into jobs (due) select now() - n * interval '1 minute' from unnest(array[1, 3, -5, 2]) n")
	for _, want := range []int64{2, 4, 1} {
		if j := taken(t, q, time.Hour); j.ID != want {
			t.Errorf("got job %d, want %d", j.ID, want)
		}
	}
	if jobs, err := q.Take(t.Context(), 1, time.Hour); err != nil || len(jobs) != 0 {
		t.Errorf("a job that is not due was handed out: %v (%v)", jobs, err)
	}
}
