package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
)

// Queue hands out the rows of a table of jobs, each to one worker at a time, with
// no lock. The table is the caller's, and has at least these columns:
//
//	CREATE TABLE jobs (
//	  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
//	  attempt bigint      NOT NULL DEFAULT 0,     -- how often it was handed out
//	  due     timestamptz NOT NULL DEFAULT now(), -- not to be handed out before
//	  done_at timestamptz                         -- when it was finished
//	);
//	CREATE INDEX ON jobs (due) WHERE done_at IS NULL;
//
// A job that is taken is due again when its lease ends, so that it survives its
// worker. A worker that was paused for longer may meet its successor: the number
// of the attempt is the fence of the row, and [Queue.Finish] refuses all but the
// last one taken. Each attempt is a lease like that of a lock, for one row.
//
// The clock is the server's. A server that loses committed transactions (a standby
// promoted, a backup restored) may hand out the same attempt twice. Rights: SELECT
// and UPDATE on the table; the schema fencedstore is not needed. It is safe for
// concurrent use if the DB is.
type Queue struct {
	db    DB
	table string // quoted
	max   int
	// explicit is set once Take was told 40001: the session's default isolation
	// level does not go with SKIP LOCKED.
	explicit atomic.Bool
}

// QueueOptions change a [Queue]. A nil *QueueOptions and the zero value mean the
// defaults.
type QueueOptions struct {
	// MaxAttempts is how often a job is handed out; after that it stays in the
	// table, not done, for people to look at. Zero means no limit.
	MaxAttempts int
}

// Job is a row that was handed out.
type Job struct {
	// ID is the row.
	ID int64
	// Attempt counts from 1, and is the job's fence.
	Attempt int64
}

// NewQueue returns the queue of a table, such as pgx.Identifier{"public", "jobs"}.
// It sends nothing. A bad argument is an *[OptionError].
func NewQueue(db DB, table pgx.Identifier, opts *QueueOptions) (*Queue, error) {
	q := &Queue{db: db, table: table.Sanitize()}
	if opts != nil {
		q.max = opts.MaxAttempts
	}
	switch {
	case missing(db):
		return nil, &OptionError{Name: "db", Reason: "is nil"}
	case len(table) == 0 || slices.Contains(table, ""):
		return nil, &OptionError{Name: "table", Reason: "is empty"}
	case q.max < 0:
		return nil, &OptionError{Name: "MaxAttempts", Reason: fmt.Sprintf("is %d", q.max)}
	}
	return q, nil
}

// fence is an attempt in the words of the contract.
func (q *Queue) fence(j Job) fencedstore.Fence {
	return fencedstore.Fence{Resource: fmt.Sprintf("%s/%d", strings.ReplaceAll(q.table, `"`, ""), j.ID), ID: j.Attempt}
}

// maxTake bounds how many jobs are taken at once.
const maxTake = 10_000

// Take hands out at most n jobs that are due, for as long as lease: those that have
// been due for longest first, in the order of their IDs. Jobs that another Take or
// Finish is at are skipped, and nobody waits. No job is no error. lease is at least
// a millisecond, and should be several times what the work takes; see
// [Queue.Postpone]. n is from 1 to 10 000.
//
// It is one round trip, or three where default_transaction_isolation is not read
// committed. After an ErrUnknownOutcome jobs may have been handed out to nobody:
// they are due again when the lease ends.
func (q *Queue) Take(ctx context.Context, n int, lease time.Duration) ([]Job, error) {
	switch {
	case n < 1 || n > maxTake:
		return nil, &OptionError{Name: "n", Reason: fmt.Sprintf("is %d, it must be from 1 to %d", n, maxTake)}
	case lease < time.Millisecond:
		return nil, &OptionError{Name: "lease", Reason: fmt.Sprintf("is %v, less than a millisecond", lease)}
	}
	c := call{ctx, "take from " + q.table}
	if ctx.Err() != nil {
		return nil, c.failed(ctx.Err())
	}
	ss, err := take(ctx, q.db)
	if err != nil {
		return nil, c.failed(err)
	}
	defer ss.release()
	jobs, sent, err := q.take(ctx, ss, n, lease)
	if err := c.settled(sent, err); err != nil {
		return nil, err
	}
	slices.SortFunc(jobs, func(a, b Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs, nil
}

// take is one statement where the session's default isolation level allows it.
// sent says that an error may hide a commit.
func (q *Queue) take(ctx context.Context, ss *session, n int, lease time.Duration) (jobs []Job, sent bool, err error) {
	if !q.explicit.Load() {
		jobs, err = q.takeIn(ctx, ss, n, lease)
		if err == nil {
			return jobs, true, replicated(ss.conn)
		}
		if !hasCode(err, codeSerialization) {
			return nil, !ss.alive(), err
		}
		q.explicit.Store(true)
	}
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	tx, err := ss.begin(ctx, b)
	if err != nil {
		return nil, false, err
	}
	if jobs, err = q.takeIn(ctx, tx, n, lease); err != nil {
		rollback(ctx, tx)
		return nil, false, err
	}
	sent, err = ss.tryCommit(ctx, tx)
	return jobs, sent, err
}

// takeIn does it. now() and not clock_timestamp(), so that the index can be used;
// a CTE that locks is not folded into the UPDATE, which might take more than n.
func (q *Queue) takeIn(ctx context.Context, db sender, n int, lease time.Duration) ([]Job, error) {
	sql := "with due as (select id from " + q.table + " where done_at is null and due <= now()" +
		" and ($3::int8 = 0 or attempt < $3::int8) order by due, id limit $1::int8 for update skip locked)" +
		" update " + q.table + " j set attempt = j.attempt + 1, due = clock_timestamp() + $2::int8 * interval '1 microsecond'" +
		" from due where j.id = due.id returning j.id, j.attempt"
	b := &pgx.Batch{}
	var jobs []Job
	b.Queue(sql, n, lease.Microseconds(), q.max).Query(func(rows pgx.Rows) (err error) {
		jobs, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Job])
		return err
	})
	err := db.SendBatch(ctx, b).Close()
	return jobs, err
}
