package postgres

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
)

// DB is what a [Store] needs of pgx. *pgxpool.Pool and *pgx.Conn have it, and
// so has a wrapper around one of them. A pgx.Tx does not: a claim and the
// beginning of guarded work are transactions of their own. For guarded work
// inside a transaction of the caller's there is [Guard].
type DB interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Defaults of [Options].
const (
	DefaultLockTimeout = 5 * time.Second
	DefaultIdleTimeout = 30 * time.Second
)

// Options change a [Store]. A nil *Options and the zero value mean the defaults.
type Options struct {
	// LockTimeout is how long a claim waits for the guarded transactions of
	// older holders to end before it fails with a *[BusyError]. The context's
	// deadline and the session's lock_timeout shorten it. Zero means
	// DefaultLockTimeout; the least is a millisecond.
	LockTimeout time.Duration
	// IdleTimeout is how long a transaction of InTx may wait for its holder's
	// next statement before the server ends it, so that a paused holder does
	// not keep its successor waiting. The rest of the lease, the context's
	// deadline and the session's idle_in_transaction_session_timeout shorten it.
	// Zero means DefaultIdleTimeout; the least is a millisecond.
	IdleTimeout time.Duration
}

// OptionError says what is wrong with an argument of [New], [RunOnce], [Once] or
// [NewQueue].
type OptionError struct {
	// Name is the argument or the field of [Options].
	Name string
	// Reason completes the sentence that Name begins.
	Reason string
}

func (e *OptionError) Error() string { return "postgres: " + e.Name + " " + e.Reason }

// Store guards work in one Postgres database. It opens and keeps nothing: there
// is nothing to close. It is safe for concurrent use if the DB is: a pool is, a connection
// is not.
type Store struct {
	db   DB
	opts Options
	// explicit is set once a claim was told that the session's default
	// isolation level is not read committed.
	explicit atomic.Bool
}

var _ fencedstore.Claimer = (*Store)(nil)

// New returns a Store on db, which stays the caller's. It sends nothing; see
// [Store.Check]. A bad argument is an *[OptionError].
func New(db DB, opts *Options) (*Store, error) {
	if missing(db) {
		return nil, &OptionError{Name: "db", Reason: "is nil"}
	}
	s := &Store{db: db}
	if opts != nil {
		s.opts = *opts
	}
	for _, o := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"LockTimeout", &s.opts.LockTimeout, DefaultLockTimeout},
		{"IdleTimeout", &s.opts.IdleTimeout, DefaultIdleTimeout},
	} {
		if *o.value == 0 {
			*o.value = o.zero
		}
		if *o.value < time.Millisecond {
			return nil, &OptionError{Name: o.name, Reason: fmt.Sprintf("is %v, less than a millisecond", *o.value)}
		}
	}
	return s, nil
}

func missing(db DB) bool {
	switch db := db.(type) {
	case nil:
		return true
	case *pgxpool.Pool:
		return db == nil
	case *pgx.Conn:
		return db == nil
	}
	return false
}

// begun is what every call checks before it sends anything.
func begun(ctx context.Context, op string, f fencedstore.Fence) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("postgres: %s with %v: %w", op, f, withCause(ctx, ctx.Err()))
	}
	return nil
}
