package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
)

// RowTable is a table in row mode: each of its rows is a resource and carries
// its own mark, in the columns that [FenceRows] adds. What a holder writes
// raises the mark of that row; there is no claim before, and nothing else to be
// guarded. See "Row mode" in the package documentation for when that is enough.
//
// Every call is one statement, one transaction and one round trip; what belongs
// into one transaction with other writes is written in SQL. A fence older
// than the row's is a *[fencedstore.StaleError], an equal one of another holder a
// *[fencedstore.FenceReusedError]; a row that is not there, or is marked as
// deleted, is a [fencedstore.ErrNotFound]. Without an error, the returned bool
// says whether anything was changed: false means that the row was found and left
// as it was, see the calls. ErrInvalidFence and *[OptionError] are returned before
// anything is sent; an answer that did not arrive is an ErrUnknownOutcome, after
// which the same call may be made again. Every other error means that nothing was
// changed. The fence's Resource is the caller's name for the row, and not sent.
//
// A RowTable is safe for concurrent use where its [Store] is.
type RowTable struct {
	store *Store
	table string
	key   []string
}

// Rows returns the table whose rows are told apart by the columns of key, which
// must be unique together and never NULL. It sends nothing.
func (s *Store) Rows(table pgx.Identifier, key ...string) (*RowTable, error) {
	if len(table) == 0 || slices.Contains(table, "") {
		return nil, &OptionError{Name: "table", Reason: "is empty"}
	}
	if len(key) == 0 || slices.Contains(key, "") {
		return nil, &OptionError{Name: "key", Reason: "is empty"}
	}
	for i, column := range key {
		if slices.Contains(key[:i], column) || isMark(column) {
			return nil, &OptionError{Name: "key", Reason: fmt.Sprintf("has the column %q, which cannot be", column)}
		}
	}
	return &RowTable{store: s, table: table.Sanitize(), key: slices.Clone(key)}, nil
}

// Claim raises the row's mark to f and changes nothing else. A holder that is
// going to write what follows from what it has read claims first: from then on
// the row is not changed by an older one. The mark of a deleted row is raised,
// too, before it is reported as ErrNotFound.
func (t *RowTable) Claim(ctx context.Context, f fencedstore.Fence, key ...any) error {
	st, err := t.statement(f, nil, key)
	if err != nil {
		return err
	}
	r, err := t.run(ctx, "claim", f, t.update("", "true"), st.args)
	switch {
	case err != nil:
		return err
	case r.deleted:
		return fencedstore.ErrNotFound
	case r.changed == 0:
		return fmt.Errorf("postgres: claim with %v: %w", f, errSuppressed)
	}
	return nil
}

// errSuppressed is about a claim that a trigger of the table swallowed.
var errSuppressed = errors.New("the database left the row as it was")

// Update sets columns of a row to values. It returns false when the database
// left the row as it was, which a trigger or a rule of the table can do. One that
// writes the row by itself and swallows the statement looks the same.
func (t *RowTable) Update(ctx context.Context, f fencedstore.Fence, set map[string]any, key ...any) (bool, error) {
	if len(set) == 0 {
		return false, &OptionError{Name: "set", Reason: "is empty: use Claim"}
	}
	st, err := t.statement(f, set, key)
	if err != nil {
		return false, err
	}
	r, err := t.run(ctx, "update", f, t.update(st.assignments(), "not fence_deleted"), st.args)
	if err == nil && r.deleted {
		err = fencedstore.ErrNotFound
	}
	return err == nil && r.changed > 0, err
}

// Upsert inserts a row or sets its columns, and brings a deleted one back. It
// returns false when the database left the row as it was. The key needs a unique
// index. Where there is no row there is no mark: of two holders that insert, the
// older is refused only if it comes second.
func (t *RowTable) Upsert(ctx context.Context, f fencedstore.Fence, set map[string]any, key ...any) (bool, error) {
	st, err := t.statement(f, set, key)
	if err != nil {
		return false, err
	}
	r, err := t.run(ctx, "upsert", f, t.upsert(st), st.args)
	return err == nil && r.changed > 0, err
}

// Delete marks a row as deleted and keeps it, for its mark: otherwise an older
// holder could insert it again. Readers have to leave rows out whose fence_deleted
// is set. It returns false when the row was deleted already.
func (t *RowTable) Delete(ctx context.Context, f fencedstore.Fence, key ...any) (bool, error) {
	st, err := t.statement(f, nil, key)
	if err != nil {
		return false, err
	}
	r, err := t.run(ctx, "delete", f, t.update("fence_deleted = true, ", "true"), st.args)
	return err == nil && !r.deleted && r.changed > 0, err
}

// found is what a statement says of its row.
type found struct {
	rows    int64 // 0 or 1
	deleted bool  // it was, before
	changed int64
}

// run sends one statement. At the higher isolation levels it is sent again when
// another one of the row came between, for nothing has happened then.
func (t *RowTable) run(ctx context.Context, op string, f fencedstore.Fence, sql string, args []any) (found, error) {
	if err := begun(ctx, op, f); err != nil {
		return found{}, err
	}
	ss, err := t.store.session(ctx)
	if err != nil {
		return found{}, failed(ctx, op, f, err)
	}
	defer ss.release()
	for attempt := 1; ; attempt++ {
		var r found
		b := &pgx.Batch{}
		b.Queue(sql, args...)
		br := ss.SendBatch(ctx, b)
		scan := br.QueryRow().Scan(&r.rows, &r.deleted, &r.changed)
		err := br.Close()
		switch {
		case err == nil && scan != nil:
			return found{}, failed(ctx, op, f, scan)
		case err == nil && r.rows == 0:
			return found{}, fencedstore.ErrNotFound
		case err == nil:
			return r, nil
		case !hasCode(err, codeSerialization) || attempt == maxAttempts:
			return found{}, outcome(ctx, op, f, err, ss.alive())
		}
	}
}

// FenceRows makes a table fit for row mode: it adds the columns fence_id, the
// row's mark or 0, fence_holder, the SHA-256 of its holder, and fence_deleted; a
// constraint; and triggers that refuse, whoever writes, to lower a mark, to share
// one with another holder, and to remove a row. It may be called again. Columns of
// these names that have other types are the server's error 42804. On a partitioned
// table it holds for later partitions, too, except that their TRUNCATE is refused
// only once it was called again; a partition that is detached loses the triggers.
//
// It is for the table's owner, in a migration: in SQL, fencedstore.fence_rows. It
// waits for the transactions that use the table as long as lockTimeout, zero
// meaning DefaultProtectTimeout. No row is read or rewritten. Errors are those of
// [Protect].
func FenceRows(ctx context.Context, db Execer, table string, lockTimeout time.Duration) error {
	_, wait, err := protectOptions(db, table, &ProtectOptions{LockTimeout: lockTimeout})
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, "select fencedstore.fence_rows($1::text::regclass, $2::int8)", table, wait)
	return protectFailed(ctx, "fence rows of", table, err)
}

// rowStatement is what the statements of a call have in common. Its arguments
// are the fence's ID, its holder, the key, and the values.
type rowStatement struct {
	columns []string // that are set, sorted
	first   int      // the parameter of the first of them
	args    []any
}

func (t *RowTable) statement(f fencedstore.Fence, set map[string]any, key []any) (*rowStatement, error) {
	if len(key) != len(t.key) {
		return nil, &OptionError{Name: "key", Reason: fmt.Sprintf("has %d values, and the table's %d columns", len(key), len(t.key))}
	}
	st := &rowStatement{columns: slices.Sorted(maps.Keys(set)), first: 3 + len(key)}
	st.args = append([]any{f.ID, []byte(f.Holder)}, key...)
	for _, column := range st.columns {
		if column == "" || isMark(column) || slices.Contains(t.key, column) {
			return nil, &OptionError{Name: "set", Reason: fmt.Sprintf("has the column %q, which is not the caller's", column)}
		}
		st.args = append(st.args, set[column])
	}
	return st, nil
}

// isMark says that a column is one of row mode's own.
func isMark(column string) bool {
	return column == "fence_id" || column == "fence_holder" || column == "fence_deleted"
}
