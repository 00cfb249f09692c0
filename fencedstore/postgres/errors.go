package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenced-go/fenced/fencedstore"
)

// The SQLSTATEs of the SQL functions. Class ZF belongs to no standard, so that
// code that repeats a transaction on 40001 leaves them alone.
const (
	codeStale      = "ZF001"
	codeReused     = "ZF002"
	codeNotClaimed = "ZF003"
	codeNoFence    = "ZF004"
	codeIsolation  = "ZF005"
	codeNumbering  = "ZF006"

	codeSerialization     = "40001"
	codeCompletionUnknown = "40003"
	codeActiveTransaction = "25001"
	codeIdleTimeout       = "25P03"
	codePrivilege         = "42501"
	codeLockTimeout       = "55P03"
	codeNoFunction        = "42883"
	codeNoSchema          = "3F000"
)

// ErrBusy says that a claim gave up waiting: a guarded transaction of an older
// holder did not end. Nothing was claimed. Facts: *[BusyError].
var ErrBusy = errors.New("postgres: an older transaction did not end")

// BusyError is an [ErrBusy].
type BusyError struct {
	// Fence is the one that was not claimed.
	Fence fencedstore.Fence
	// PIDs are the server processes that were in the way just after, those
	// that waited longest first. It is empty when they had gone by then.
	PIDs []int32
	// Err is the server's error.
	Err error
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("postgres: claim of %v: older guarded transactions did not end, server processes %v", e.Fence, e.PIDs)
}

// Is makes errors.Is(e, ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Unwrap returns the server's error.
func (e *BusyError) Unwrap() error { return e.Err }

// UnfencedError is a [fencedstore.ErrNoFence] of the server: a table that is
// protected was to be changed, and the transaction showed no fence of its
// resource. See [Protect].
type UnfencedError struct {
	// Resource is what the table or the row is fenced by, written as the table of
	// fences has it; it ends in * where every row is its own.
	Resource string
	// Err is the server's error. It names the table.
	Err error
}

func (e *UnfencedError) Error() string { return fmt.Sprintf("postgres: no fence was shown: %v", e.Err) }

// Is makes errors.Is(e, fencedstore.ErrNoFence) true.
func (e *UnfencedError) Is(target error) bool { return target == fencedstore.ErrNoFence }

// Unwrap returns the server's error.
func (e *UnfencedError) Unwrap() error { return e.Err }

// CallbackError says that a guarded batch was committed, and then a callback of
// it, or reading its result, failed. Repeating the batch would do it twice.
type CallbackError struct {
	// Err is what the callback returned.
	Err error
}

func (e *CallbackError) Error() string {
	return "postgres: the batch was committed, but a callback failed: " + e.Err.Error()
}

// Unwrap returns what the callback returned.
func (e *CallbackError) Unwrap() error { return e.Err }

// refusal is a verdict of the contract with the server's error behind it.
type refusal struct{ verdict, cause error }

func (e *refusal) Error() string   { return e.verdict.Error() }
func (e *refusal) Unwrap() []error { return []error{e.verdict, e.cause} }

// refused turns a server's error of class ZF into the contract's, nil when err
// is something else. An error that was turned before stays as it is.
func refused(f fencedstore.Fence, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*refusal](err); ok {
		return err
	}
	code, detail := sqlState(err)
	mark, _ := fencedstore.ParseID(detail) // 0, not known, if it is no fence ID
	var verdict error
	switch code {
	case codeStale:
		verdict = &fencedstore.StaleError{Fence: f, Newest: mark}
	case codeReused:
		verdict = &fencedstore.FenceReusedError{Fence: f}
	case codeNotClaimed:
		verdict = &fencedstore.NotClaimedError{Fence: f, Newest: mark}
	case codeNoFence:
		verdict = &UnfencedError{Resource: detail, Err: err}
	default:
		return nil
	}
	return &refusal{verdict: verdict, cause: err}
}

// sqlState reads code and detail from the error of any driver that has them:
// pgx, its database/sql driver, or lib/pq.
func sqlState(err error) (code, detail string) {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code, pg.Detail
	}
	var other interface{ SQLState() string }
	if !errors.As(err, &other) {
		return "", ""
	}
	if d, ok := other.(interface{ Get(field byte) string }); ok {
		detail = d.Get('D')
	}
	return other.SQLState(), detail
}

func hasCode(err error, code string) bool {
	got, _ := sqlState(err)
	return got == code
}

// failed is err of a call that certainly had no effect.
func failed(ctx context.Context, op string, f fencedstore.Fence, err error) error {
	if r := refused(f, err); r != nil {
		return r
	}
	return fmt.Errorf("postgres: %s with %v: %w", op, f, withCause(ctx, err))
}

// outcome is err of a call that may have had an effect. unsent says that an
// error that is not the server's can only come from before anything was sent.
func outcome(ctx context.Context, op string, f fencedstore.Fence, err error, unsent bool) error {
	switch {
	case err == nil:
		return nil
	case notDone(err, unsent):
		return failed(ctx, op, f, err)
	}
	return &fencedstore.UnknownOutcomeError{Op: op, Fence: f, Err: withCause(ctx, err)}
}

// call sorts the errors of what has no fence, as failed and outcome do.
type call struct {
	ctx  context.Context
	what string
}

// failed is err of a call that had no effect.
func (c call) failed(err error) error {
	return fmt.Errorf("postgres: %s: %w", c.what, withCause(c.ctx, err))
}

// settled is err of a commit. sent says that it may have had an effect.
func (c call) settled(sent bool, err error) error {
	switch {
	case err == nil:
		return nil
	case !sent || notDone(err, false):
		return c.failed(err)
	}
	return c.failed(&fencedstore.UnknownOutcomeError{Op: "commit", Err: err})
}

// notDone says that after err nothing was committed.
func notDone(err error, unsent bool) bool {
	if errors.Is(err, ErrNotReplicated) {
		return false
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return !ended(pg) && pg.Code != codeCompletionUnknown
	}
	var before pgx.ErrPreprocessingBatch
	var connect *pgconn.ConnectError
	return unsent || errors.As(err, &before) || errors.As(err, &connect) ||
		errors.Is(err, pgx.ErrTxCommitRollback) || pgconn.SafeToRetry(err)
}

// ended says that the server ended the session with this error. It may have
// committed before, unless it was idle inside a transaction.
func ended(pg *pgconn.PgError) bool {
	severity := pg.SeverityUnlocalized
	if severity == "" {
		severity = pg.Severity
	}
	return severity != "ERROR" && pg.Code != codeIdleTimeout
}

// withCause adds why ctx ended, when it did and err does not say so.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, cause)
}
