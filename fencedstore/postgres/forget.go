package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
)

// DefaultForgetMax is the default of [ForgetOptions].Max.
const DefaultForgetMax = 1000

// ErrNumbering says that a fence cannot be forgotten because it does not come
// from a clock. Nothing was forgotten. See [ForgetOptions].
var ErrNumbering = errors.New("postgres: fences are not numbered by a clock")

// ForgetOptions change [Store.Forget]. A nil *ForgetOptions and the zero value
// mean the defaults.
type ForgetOptions struct {
	// Max is how many resources a call forgets at most. Zero means
	// DefaultForgetMax, which is also the most: each takes a lock until the end.
	Max int
	// OneCounter says that fence IDs do not come from a clock but from one
	// counter that numbers the tenures of all resources.
	OneCounter bool
}

const forgetSQL = "select fencedstore.forget(now() - make_interval(secs => $1::float8), $2::int4, $3::bool)"

// Forget deletes the marks of resources whose last claim is older than a given
// age, an hour or more, and returns how many it deleted. The table of fences
// then stays as small as what is in use; call it now and then, until it returns
// less than Max.
//
// It lets nobody in. All forgotten resources share one mark, the floor: the
// highest fence that was forgotten. A fence of a resource without a mark of its
// own has to exceed it, or is a *[fencedstore.StaleError] with the floor as
// Newest. A holder that is still at work after that age is refused as well and
// has to acquire again; one with a transaction open is not forgotten.
//
// A floor for all is right only where the fences of all resources grow together,
// or it would refuse new tenures of resources that count slowly. Fences of package
// fencedlock do: they are microseconds since 1970, and a Locker whose Stores refuse
// a fence takes one above their mark. Others, and those ahead of the server's
// clock, are an [ErrNumbering] unless OneCounter is set.
//
// The role needs EXECUTE on fencedstore.forget, which holders do not. Other errors
// are an *[OptionError], and an ErrUnknownOutcome when the answer to COMMIT did not
// arrive; calling again does no harm.
func (s *Store) Forget(ctx context.Context, age time.Duration, opts *ForgetOptions) (int64, error) {
	var o ForgetOptions
	if opts != nil {
		o = *opts
	}
	if o.Max == 0 {
		o.Max = DefaultForgetMax
	}
	switch {
	case age < time.Hour:
		return 0, &OptionError{Name: "age", Reason: fmt.Sprintf("is %v, less than an hour", age)}
	case o.Max < 0 || o.Max > DefaultForgetMax:
		return 0, &OptionError{Name: "Max", Reason: fmt.Sprintf("is %d, not between 1 and %d", o.Max, DefaultForgetMax)}
	case ctx.Err() != nil:
		return 0, fmt.Errorf("postgres: forget: %w", withCause(ctx, ctx.Err()))
	}
	n, unsent, err := s.forget(ctx, age, o)
	switch {
	case err == nil:
		return n, nil
	case hasCode(err, codeNumbering):
		return 0, fmt.Errorf("%w: %w", ErrNumbering, err)
	case notDone(err, unsent):
		return 0, fmt.Errorf("postgres: forget: %w", withCause(ctx, err))
	}
	return 0, fmt.Errorf("postgres: forget: %w: %w", fencedstore.ErrUnknownOutcome, withCause(ctx, err))
}

// forget says with an error that is not the server's whether COMMIT was not sent.
func (s *Store) forget(ctx context.Context, age time.Duration, o ForgetOptions) (n int64, unsent bool, err error) {
	tx, err := s.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return 0, true, err
	}
	if err := tx.QueryRow(ctx, forgetSQL, age.Seconds(), o.Max, o.OneCounter).Scan(&n); err != nil {
		rollback(ctx, tx)
		return 0, true, err
	}
	if err := tx.Commit(ctx); err != nil {
		rollback(ctx, tx)
		return 0, false, err
	}
	return n, false, nil
}
