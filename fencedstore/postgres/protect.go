package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenced-go/fenced/fencedstore"
)

// Execer runs one statement: a *pgxpool.Pool, a *pgx.Conn, or a pgx.Tx, such as
// that of a migration of the application.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// DefaultProtectTimeout is the default of [ProtectOptions].LockTimeout.
const DefaultProtectTimeout = 5 * time.Second

// ProtectOptions change [Protect], [ProtectBy] and [Unprotect]. A nil
// *ProtectOptions and the zero value mean the defaults.
type ProtectOptions struct {
	// WarnOnly lets every statement through and counts, in the view
	// fencedstore.warnings, those that would be refused: by whom, where and
	// why. It is for rolling protection out.
	WarnOnly bool
	// Always also refuses sessions in which session_replication_role is
	// replica. Leave it off on a table that receives logical replication: its
	// first copy and TRUNCATE would be refused.
	Always bool
	// LockTimeout is how long the call waits for the transactions that use the
	// table; new ones wait behind it. The session's lock_timeout shortens it.
	// Zero means DefaultProtectTimeout; the least is a millisecond.
	LockTimeout time.Duration
}

const (
	protectSQL   = "select fencedstore.protect($1::text::regclass, $2::text, $3::bool, $4::bool, $5::int8)"
	protectBySQL = "select fencedstore.protect_by($1::text::regclass, $2::text::name, $3::text, $4::bool, $5::bool, $6::int8)"
	unprotectSQL = "select fencedstore.unprotect($1::text::regclass, $2::int8)"
)

// Protect makes a table belong to a resource as a whole: from now on the
// database refuses every statement that would change it, whoever sends it,
// unless its transaction is under the guard of the resource's newest fence. All
// guards of this package are; other clients call fencedstore.guard or
// fencedstore.enter. See "Protected tables" in the package documentation for
// what is refused and what is not.
//
// table is a name as SQL has it: perhaps with a schema, quoted where SQL wants
// quotes. Partitions, and tables that inherit from it, are protected with it.
// Partitions that are attached later are protected row by row until Protect is
// called again, which is always safe to do and replaces what was said before.
//
// It is for the table's owner, who needs EXECUTE on some functions, see package
// migrations. It is one statement: in a transaction of a migration it is rolled
// back with it. A migration in SQL calls fencedstore.protect(table, resource)
// itself. Errors are an *[OptionError], an ErrInvalidFence, an ErrUnknownOutcome,
// after which the same call may be made again, or the server's: 55P03 (busy,
// LockTimeout), 42P01 (no such table), 42809 (not a table).
func Protect(ctx context.Context, db Execer, table, resource string, opts *ProtectOptions) error {
	if err := fencedstore.ValidateResource(resource); err != nil {
		return err
	}
	o, wait, err := protectOptions(db, table, opts)
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, protectSQL, table, encodeResource(resource), o.WarnOnly, o.Always, wait)
	return protectFailed(ctx, "protect", table, err)
}

// ProtectBy is [Protect] for a table whose rows belong to different resources:
// each to the one named prefix followed by the row's value of a column, which is
// text, an integer or a uuid. NULL counts as empty. An UPDATE needs the resource
// that the row belonged to and the one that it belongs to then. TRUNCATE is
// always refused; a statement that meets no row is not.
//
// The column is a bare name, without quotes. A column that is not there is the
// server's 42703, one of another type 42804.
func ProtectBy(ctx context.Context, db Execer, table, column, prefix string, opts *ProtectOptions) error {
	if column == "" {
		return &OptionError{Name: "column", Reason: "is empty"}
	}
	if len(prefix) > fencedstore.MaxResource {
		return &OptionError{Name: "prefix", Reason: fmt.Sprintf("has %d bytes, more than a resource", len(prefix))}
	}
	o, wait, err := protectOptions(db, table, opts)
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, protectBySQL, table, column, encodeResource(prefix), o.WarnOnly, o.Always, wait)
	return protectFailed(ctx, "protect", table, err)
}

// Unprotect undoes [Protect] and [ProtectBy]. A table that is not protected
// stays as it is. A partition cannot leave a table that is protected as a whole
// (55000): detach it first.
func Unprotect(ctx context.Context, db Execer, table string, opts *ProtectOptions) error {
	_, wait, err := protectOptions(db, table, opts)
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, unprotectSQL, table, wait)
	return protectFailed(ctx, "unprotect", table, err)
}

// protectOptions checks what the three calls have in common. wait is in
// milliseconds.
func protectOptions(db Execer, table string, opts *ProtectOptions) (o ProtectOptions, wait int64, err error) {
	if opts != nil {
		o = *opts
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = DefaultProtectTimeout
	}
	switch {
	case db == nil:
		err = &OptionError{Name: "db", Reason: "is nil"}
	case table == "":
		err = &OptionError{Name: "table", Reason: "is empty"}
	case o.LockTimeout < time.Millisecond:
		err = &OptionError{Name: "LockTimeout", Reason: fmt.Sprintf("is %v, less than a millisecond", o.LockTimeout)}
	}
	return o, o.LockTimeout.Milliseconds(), err
}

// protectFailed names the table.
func protectFailed(ctx context.Context, op, table string, err error) error {
	switch {
	case err == nil:
		return nil
	case notDone(err, false):
		return fmt.Errorf("postgres: %s %s: %w", op, table, withCause(ctx, err))
	}
	return fmt.Errorf("postgres: %s %s: %w: %w", op, table, fencedstore.ErrUnknownOutcome, withCause(ctx, err))
}
