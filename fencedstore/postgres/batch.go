package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenced-go/fenced/fencedstore"
)

// SendBatch runs b under the guard of f: guard and batch are one transaction
// and one round trip. It commits all of b or nothing.
//
// Results are read by callbacks on the queued queries, which run as in pgx. The
// error of SendBatch is that of the whole: nil only when the server has
// acknowledged the commit, whatever was read. A *[CallbackError] means that it
// was committed and a callback failed, an ErrUnknownOutcome that the answer did
// not arrive, and any other error that nothing happened. Refusals are those of
// [Store.InTx]; no callback runs then.
//
// b must not begin or end a transaction. It is copied and left as it is.
func (s *Store) SendBatch(ctx context.Context, f fencedstore.Fence, b *pgx.Batch) error {
	return s.sendBatch(ctx, fences{f}, b).Close()
}

// Exec runs one statement under the guard of f: one transaction, one round
// trip. The tag is that of the statement; no rows affected is a success. Errors
// are those of [Store.SendBatch]. Of pgx's option arguments only query
// rewriters, such as pgx.NamedArgs, are understood.
func (s *Store) Exec(ctx context.Context, f fencedstore.Fence, sql string, args ...any) (pgconn.CommandTag, error) {
	r := s.send(ctx, "exec", fences{f}, []*pgx.QueuedQuery{{SQL: sql, Arguments: args}})
	tag, _ := r.Exec()
	if err := r.Close(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return tag, nil
}

// errBegins is about a batch made with Batch.BeginTx.
var errBegins = errors.New("the batch begins a transaction of its own: use InTxOptions")

func (s *Store) sendBatch(ctx context.Context, fs fences, b *pgx.Batch) *results {
	if b == nil {
		b = &pgx.Batch{}
	}
	// pgx shows in no other way that a batch begins a transaction
	if pgx.FailedBatchResults(b, errBegins).Tx() != nil {
		return &results{closed: true, err: failed(ctx, "batch", fs[0], errBegins)}
	}
	return s.send(ctx, "batch", fs, b.QueuedQueries)
}

// send sends the guard and queries together and waits for the guard's verdict.
// The results are closed already when it is not good.
func (s *Store) send(ctx context.Context, op string, fs fences, queries []*pgx.QueuedQuery) *results {
	if err := fs.begun(ctx, op); err != nil {
		return &results{closed: true, err: err}
	}
	ss, err := s.session(ctx)
	if err != nil {
		return &results{closed: true, err: failed(ctx, op, fs[0], err)}
	}
	r := &results{ctx: ctx, op: op, fences: fs, session: ss, queries: queries}
	for attempt := 1; ; attempt++ {
		r.inner = ss.SendBatch(ctx, guarded(fs, queries))
		if _, err = r.inner.Exec(); err == nil {
			return r
		}
		_ = r.inner.Close()
		// the guard met a snapshot older than the claim that it waited for
		if !hasCode(err, codeSerialization) || attempt == maxAttempts {
			r.end(outcome(ctx, op, fs.of(err), err, ss.alive()))
			return r
		}
	}
}

// guarded is a batch of the guard and copies of queries, without callbacks:
// pgx writes to what it sends, and results runs the callbacks.
func guarded(fs fences, queries []*pgx.QueuedQuery) *pgx.Batch {
	b := &pgx.Batch{}
	query, args := fs.guard(0) // no idle time inside a batch
	b.Queue(query, args...)
	for _, q := range queries {
		b.Queue(q.SQL, q.Arguments...)
	}
	return b
}
