package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// results are those of the caller's queries, behind a guard that let them pass.
// They keep apart what pgx does not: an error of the server, which undoes the
// batch, and one of a callback or of reading a value, which does not.
type results struct {
	ctx     context.Context
	op      string
	fences  fences
	session *session
	inner   pgx.BatchResults
	queries []*pgx.QueuedQuery
	next    int // the query whose result comes next
	closed  bool
	err     error // the outcome, once closed
}

var errClosed = errors.New("postgres: the batch is closed")

// ready is nil while results can be read.
func (r *results) ready() error {
	if !r.closed {
		return nil
	}
	if r.err != nil {
		return r.err
	}
	return errClosed
}

// Exec implements pgx.BatchResults.
func (r *results) Exec() (pgconn.CommandTag, error) {
	if err := r.ready(); err != nil {
		return pgconn.CommandTag{}, err
	}
	r.next++
	tag, err := r.inner.Exec()
	return tag, r.named(err)
}

// Query implements pgx.BatchResults.
func (r *results) Query() (pgx.Rows, error) {
	rows := r.query()
	return rows, rows.err
}

// QueryRow implements pgx.BatchResults.
func (r *results) QueryRow() pgx.Row { return row{r.query()} }

func (r *results) query() *rows {
	if err := r.ready(); err != nil {
		return failedRows(err)
	}
	r.next++
	inner, err := r.inner.Query()
	return &rows{Rows: inner, err: r.named(err), named: r.named}
}

// Tx implements pgx.BatchResults: the batch began no transaction.
func (r *results) Tx() pgx.Tx { return nil }

// Close reads what is left, runs its callbacks, and says what became of the
// batch.
func (r *results) Close() error {
	if r.closed {
		return r.err
	}
	failure := r.callbacks()
	// The guard's answer has arrived, so an error that is not the server's comes
	// from after the batch was sent.
	err := r.inner.Close()
	if err == nil {
		err = replicated(r.session.conn)
	}
	err = outcome(r.ctx, r.op, r.fences.of(err), err, false)
	if err == nil && failure != nil {
		err = &CallbackError{Err: failure}
	}
	r.end(err)
	return r.err
}

// callbacks runs what is left until one fails.
func (r *results) callbacks() error {
	for r.next < len(r.queries) {
		this := r.next
		if fn := r.queries[this].Fn; fn != nil {
			if err := fn(r); err != nil {
				return err
			}
		}
		if r.next == this {
			if _, err := r.Exec(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *results) end(err error) {
	r.closed, r.err = true, err
	r.session.release()
}

// named is err with a refusal turned into the contract's.
func (r *results) named(err error) error {
	if refusal := refused(r.fences.of(err), err); refusal != nil {
		return refusal
	}
	return err
}
