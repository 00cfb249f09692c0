package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
)

const (
	// rollbackWithin bounds a rollback, which runs after its context has ended.
	rollbackWithin = 5 * time.Second
	// maxAttempts bounds how often a guard is sent again because a claim came
	// between its snapshot and its lock.
	maxAttempts = 3
)

// errEnded is about a callback that sent COMMIT or ROLLBACK.
var errEnded = fmt.Errorf("the callback ended the transaction itself: %w", pgx.ErrTxClosed)

// InTx runs fn in a transaction guarded by f: f is the newest claim of its
// resource from before fn begins until the transaction has ended. It commits
// when fn returns nil, and returns nil only when the server has acknowledged
// that. It rolls back when fn returns an error, when it panics, and when ctx
// has ended. It uses one connection and as many round trips as an unguarded
// transaction: BEGIN and the guard travel together.
//
// fn must not end the transaction itself, and must send what belongs to it
// through tx: anything else is not guarded. Savepoints (tx.Begin) are fine: the
// guard is outside them.
//
// A stale f is a *[fencedstore.StaleError], another holder's a
// *[fencedstore.FenceReusedError], one that was never claimed here a
// *[fencedstore.NotClaimedError]; fn was not called then. An error of fn is
// returned as it is. When the answer to COMMIT did not arrive the error is an
// ErrUnknownOutcome; every other error means that nothing was committed.
// Errors of the server are found by errors.As(err, *pgconn.PgError): a 40001
// is returned, not repeated, because fn has run.
func (s *Store) InTx(ctx context.Context, f fencedstore.Fence, fn func(tx pgx.Tx) error) error {
	return s.InTxOptions(ctx, f, pgx.TxOptions{}, fn)
}

// InTxOptions is [Store.InTx] with an isolation level and access mode. Every
// level is guarded. At repeatable read and serializable the guard locks the row
// of the fence, which a read-only transaction may not do (SQLSTATE 25006).
func (s *Store) InTxOptions(ctx context.Context, f fencedstore.Fence, opts pgx.TxOptions, fn func(tx pgx.Tx) error) error {
	return s.inTx(ctx, fences{f}, opts, fn)
}

func (s *Store) inTx(ctx context.Context, fs fences, opts pgx.TxOptions, fn func(tx pgx.Tx) error) error {
	if err := fs.begun(ctx, "begin"); err != nil {
		return err
	}
	ss, err := s.session(ctx)
	if err != nil {
		return failed(ctx, "begin", fs[0], err)
	}
	defer ss.release()
	tx, err := s.begin(ctx, ss, fs, opts)
	if err != nil {
		return failed(ctx, "begin", fs.of(err), err)
	}
	committed := false
	defer func() { // also when fn panics
		if !committed {
			rollback(ctx, tx)
		}
	}()
	if err := fn(tx); err != nil {
		if r := refused(fs.of(err), err); r != nil {
			return r
		}
		return err
	}
	err = ss.commit(ctx, tx, fs[0])
	committed = err == nil
	return err
}

func (ss *session) commit(ctx context.Context, tx pgx.Tx, f fencedstore.Fence) error {
	sent, err := ss.tryCommit(ctx, tx)
	if err != nil && !sent {
		return failed(ctx, "commit", f, err)
	}
	return outcome(ctx, "commit", f, err, false)
}

// tryCommit commits unless there is a reason not to. sent says that an error may
// hide a commit.
func (ss *session) tryCommit(ctx context.Context, tx pgx.Tx) (sent bool, err error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if tx.Conn().PgConn().TxStatus() == 'I' {
		return false, errEnded
	}
	if err := tx.Commit(ctx); err != nil {
		return true, err
	}
	return true, replicated(ss.conn)
}

// begin sends BEGIN and the guard together. A guard that meets a snapshot older
// than the claim it waited for gets a new one: nothing else has run yet.
func (s *Store) begin(ctx context.Context, ss *session, fs fences, opts pgx.TxOptions) (pgx.Tx, error) {
	for attempt := 1; ; attempt++ {
		b := &pgx.Batch{}
		b.BeginTx(opts)
		query, args := fs.guard(remainder(ctx, s.opts.IdleTimeout))
		b.Queue(query, args...)
		tx, err := ss.begin(ctx, b)
		if !hasCode(err, codeSerialization) || attempt == maxAttempts {
			return tx, err
		}
	}
}

// rollback ends a transaction whatever ctx says, so that its connection can be
// used again and tx no longer. It is called even where the server has ended it
// already: only that gives a connection back that tx owns.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackWithin)
	defer cancel()
	_ = tx.Rollback(ctx) // pgx closes the connection when it fails
}
