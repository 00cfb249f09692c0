package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenced-go/fenced/fencedstore"
)

// idleSQL lowers a timeout for the rest of the transaction and never raises it.
const idleSQL = "select set_config(name, case when setting::int8 = 0 or setting::int8 > $1::int8 then $1::int8::text" +
	" else setting end, true) from pg_settings where name = 'idle_in_transaction_session_timeout'"

// ErrJobDone says that this very attempt has finished the job.
var ErrJobDone = errors.New("postgres: the job is done")

// Finish runs fn in a transaction and records in the same transaction that the job
// is done. It first makes sure that the attempt is the last one that was taken, and
// until the transaction has ended nobody else can take the job: fn's work is
// committed for one attempt only, once.
//
// An attempt that has been overtaken is a *[fencedstore.StaleError], whose Fence
// has the attempt as its ID and the table and the row as its resource; one that the
// row does not know yet, because the database lost it, is a
// *[fencedstore.NotClaimedError]; a row that is gone is a [fencedstore.ErrNotFound].
// fn was not called then. An attempt that was finished before returns nil without
// calling fn, so that Finish may be repeated after an ErrUnknownOutcome. An error
// of fn is returned as it is: nothing is done, and the job is due again when its
// lease ends, or see [Queue.Postpone]. A 40001 of fn or of COMMIT is returned:
// repeat the call. fn may be nil, and what is said of the
// function of [RunOnce] holds for it.
func (q *Queue) Finish(ctx context.Context, j Job, fn func(tx pgx.Tx) error) error {
	const op = "finish"
	f := q.fence(j)
	if ctx.Err() != nil {
		return failed(ctx, op, f, ctx.Err())
	}
	ss, err := take(ctx, q.db)
	if err != nil {
		return failed(ctx, op, f, err)
	}
	defer ss.release()
	tx, err := q.beginFinish(ctx, ss, j)
	if err != nil {
		return failed(ctx, op, f, err)
	}
	committed := false
	defer func() { // also when fn panics
		if !committed {
			rollback(ctx, tx.Tx)
		}
	}()
	if err := tx.verdict(f); err != nil {
		if errors.Is(err, ErrJobDone) {
			return nil
		}
		return err
	}
	if fn != nil {
		if err := fn(tx.Tx); err != nil {
			return err
		}
	}
	sent, err := ss.tryCommit(ctx, tx.Tx)
	committed = err == nil
	if err != nil && !sent {
		return failed(ctx, op, f, err)
	}
	return outcome(ctx, op, f, err, false)
}

// Postpone makes a job due d from now, if the attempt is the last one that was
// taken and is not done: a longer lease for work that goes on, or with a short d,
// 0 at least, a job given back. Errors are those of [Queue.Finish], and
// [ErrJobDone].
func (q *Queue) Postpone(ctx context.Context, j Job, d time.Duration) error {
	const op = "postpone"
	f := q.fence(j)
	if d < 0 {
		return &OptionError{Name: "d", Reason: fmt.Sprintf("is %v", d)}
	}
	if ctx.Err() != nil {
		return failed(ctx, op, f, ctx.Err())
	}
	ss, err := take(ctx, q.db)
	if err != nil {
		return failed(ctx, op, f, err)
	}
	defer ss.release()
	var s jobState
	for attempt := 1; ; attempt++ {
		b := &pgx.Batch{}
		b.Queue("update "+q.table+" set due = clock_timestamp() + $3::int8 * interval '1 microsecond'"+
			" where id = $1::int8 and attempt = $2::int8 and done_at is null", j.ID, j.Attempt, d.Microseconds())
		s, err = q.ask(b, j, func() error { return ss.SendBatch(ctx, b).Close() })
		if !hasCode(err, codeSerialization) || attempt == maxAttempts {
			break
		}
	}
	if err == nil {
		err = replicated(ss.conn)
	}
	if err := outcome(ctx, op, f, err, ss.alive()); err != nil {
		return err
	}
	return s.verdict(f)
}

// jobState is a row as a statement about an attempt left it.
type jobState struct {
	found   bool
	changed bool // by the statement
	attempt int64
}

// verdict is nil when the statement changed the row.
func (s jobState) verdict(f fencedstore.Fence) error {
	switch {
	case s.changed:
		return nil
	case !s.found:
		return fmt.Errorf("postgres: %s: %w", f.Resource, fencedstore.ErrNotFound)
	case s.attempt > f.ID:
		return &fencedstore.StaleError{Fence: f, Newest: s.attempt}
	case s.attempt < f.ID:
		return &fencedstore.NotClaimedError{Fence: f, Newest: s.attempt}
	}
	return ErrJobDone
}

// ask adds to a batch, whose last statement is about an attempt, what that did.
func (q *Queue) ask(b *pgx.Batch, j Job, send func() error) (s jobState, err error) {
	b.QueuedQueries[len(b.QueuedQueries)-1].Exec(func(tag pgconn.CommandTag) error {
		s.changed = tag.RowsAffected() > 0
		return nil
	})
	b.Queue("select attempt from "+q.table+" where id = $1::int8", j.ID).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			s.found = true
			if err := rows.Scan(&s.attempt); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	err = send()
	return s, err
}

// finishing is the transaction of a Finish.
type finishing struct {
	pgx.Tx
	jobState
}

// beginFinish sends BEGIN, the check and the mark together. At a higher isolation
// level the row may have changed after the snapshot (40001): a new one sees it.
func (q *Queue) beginFinish(ctx context.Context, ss *session, j Job) (tx finishing, err error) {
	for attempt := 1; ; attempt++ {
		b := &pgx.Batch{}
		b.BeginTx(pgx.TxOptions{})
		b.Queue(idleSQL, max(remainder(ctx, DefaultIdleTimeout).Milliseconds(), 1))
		b.Queue("update "+q.table+" set done_at = clock_timestamp()"+
			" where id = $1::int8 and attempt = $2::int8 and done_at is null", j.ID, j.Attempt)
		tx.jobState, err = q.ask(b, j, func() (err error) {
			tx.Tx, err = ss.begin(ctx, b)
			return err
		})
		if !hasCode(err, codeSerialization) || attempt == maxAttempts {
			return tx, err
		}
	}
}
