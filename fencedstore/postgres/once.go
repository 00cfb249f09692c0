package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
)

// ErrInProgress says that a transaction which is at work on the same key had not
// ended when the time was up. Nothing was done.
var ErrInProgress = errors.New("postgres: somebody else is at work on it")

const onceSQL = "select fencedstore.once($1::text, $2::int8, $3::int8)"

// RunOnce runs fn in a transaction, and records in the same transaction that key
// is done: of all callers, in all processes, exactly one commits fn's work for a
// key, and no lock is needed. ran is true for that one, when the server has
// acknowledged the commit, and false for all others, whose fn was not called. Use
// it where the key is known beforehand: a night to bill, a message's ID.
//
// While one is at work the others wait for it, at most until ctx ends or as long
// as the session's lock_timeout allows (ErrInProgress). If it fails or vanishes, one
// of them takes over; what it did is rolled back. A caller that is paused in its
// transaction is ended by the server after [DefaultIdleTimeout], or what ctx has
// left if that is less, as in [Store.InTx].
//
// fn must not end the transaction, and must send all its work through tx: what it
// does elsewhere may happen more than once. An error of fn is returned as it is. An
// ErrUnknownOutcome means that the answer to COMMIT did not arrive, and asking
// again with the same key converges: ran is then false if it had arrived after all.
// Every other error means that nothing was done. A bad argument is an
// *[OptionError]; a key has from 1 to 512 bytes. A database without the function is an
// [ErrSchema].
//
// It is two round trips beside those of fn. A key stays until forget_once of the
// schema deletes it, and rolls back with nothing but its transaction.
func RunOnce(ctx context.Context, db DB, key string, fn func(tx pgx.Tx) error) (ran bool, err error) {
	if err := checkOnce(db, key, fn); err != nil {
		return false, err
	}
	c := call{ctx, fmt.Sprintf("once %q", key)}
	if ctx.Err() != nil {
		return false, c.failed(ctx.Err())
	}
	ss, err := take(ctx, db)
	if err != nil {
		return false, c.failed(err)
	}
	defer ss.release()
	tx, first, err := ss.beginOnce(ctx, key)
	if err != nil {
		return false, c.asked(err)
	}
	defer func() { // also when fn panics
		if !ran {
			rollback(ctx, tx)
		}
	}()
	if !first {
		return false, nil
	}
	if err := fn(tx); err != nil {
		return false, err
	}
	if err := c.settled(ss.tryCommit(ctx, tx)); err != nil {
		return false, err
	}
	return true, nil
}

// Once is [RunOnce] inside a transaction of the caller's, which may also be one of
// [Store.InTx]: first says whether the transaction is the only one for key that
// will have committed. Its outcome is the caller's to sort. Call it before the
// work. After an error the transaction can only be rolled back.
func Once(ctx context.Context, tx pgx.Tx, key string) (first bool, err error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	c := call{ctx, fmt.Sprintf("once %q", key)}
	if tx == nil {
		return false, c.failed(errNilTx)
	}
	if err := tx.QueryRow(ctx, onceSQL, onceArgs(ctx, key, 0)...).Scan(&first); err != nil {
		return false, c.asked(err)
	}
	return first, nil
}

func onceArgs(ctx context.Context, key string, idle time.Duration) []any {
	var wait, left any
	if d := remainder(ctx, 0); d > 0 {
		wait = max((d - d/8).Milliseconds(), 1) // so that the server's answer arrives before ctx ends
	}
	if d := remainder(ctx, idle); d > 0 {
		left = max(d.Milliseconds(), 1)
	}
	return []any{encodeResource(key), wait, left}
}

// beginOnce sends BEGIN and the question together. At a higher isolation level
// the winner may have committed after the snapshot (40001): a new one sees it.
func (ss *session) beginOnce(ctx context.Context, key string) (tx pgx.Tx, first bool, err error) {
	for attempt := 1; ; attempt++ {
		b := &pgx.Batch{}
		b.BeginTx(pgx.TxOptions{})
		b.Queue(onceSQL, onceArgs(ctx, key, DefaultIdleTimeout)...).QueryRow(func(row pgx.Row) error { return row.Scan(&first) })
		tx, err = ss.begin(ctx, b)
		if !hasCode(err, codeSerialization) || attempt == maxAttempts {
			return tx, first, err
		}
	}
}

func checkOnce(db DB, key string, fn func(tx pgx.Tx) error) error {
	switch {
	case missing(db):
		return &OptionError{Name: "db", Reason: "is nil"}
	case fn == nil:
		return &OptionError{Name: "fn", Reason: "is nil"}
	}
	return checkKey(key)
}

func checkKey(key string) error {
	switch {
	case key == "":
		return &OptionError{Name: "key", Reason: "is empty"}
	case len(key) > fencedstore.MaxResource:
		return &OptionError{Name: "key", Reason: fmt.Sprintf("has %d bytes, at most %d are allowed", len(key), fencedstore.MaxResource)}
	}
	return nil
}

// asked is err of the question.
func (c call) asked(err error) error {
	switch {
	case hasCode(err, codeLockTimeout):
		err = fmt.Errorf("%w: %w", ErrInProgress, err)
	case hasCode(err, codeNoFunction), hasCode(err, codeNoSchema):
		err = fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return c.failed(err)
}
