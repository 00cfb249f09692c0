package postgres

import "github.com/jackc/pgx/v5"

// rows are those of one guarded query. pgx mixes the error of reading a value
// with the outcome of the batch; here the value is read beside it.
type rows struct {
	pgx.Rows
	err   error // of the query, of a scan, or of the end
	named func(error) error
	end   func() error // ends the batch of a lone query; nil inside a batch
}

func failedRows(err error) *rows {
	inner, _ := pgx.FailedBatchResults(&pgx.Batch{}, err).Query()
	return &rows{Rows: inner, err: err, named: func(err error) error { return err }}
}

// Next implements pgx.Rows.
func (r *rows) Next() bool {
	if r.err == nil && r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Close ends the rows, and with a lone query its batch: only then is it known
// whether it was committed, and that comes before any error of reading.
func (r *rows) Close() {
	r.Rows.Close()
	if r.err == nil {
		r.err = r.named(r.Rows.Err())
	}
	if r.end == nil {
		return
	}
	end := r.end
	r.end = nil
	if err := end(); err != nil {
		r.err = err
	}
}

// Err implements pgx.Rows.
func (r *rows) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.named(r.Rows.Err())
}

// Scan implements pgx.Rows.
func (r *rows) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	if err := r.scan(dest); err != nil {
		r.err = err
		r.Close()
		return r.err
	}
	return nil
}

func (r *rows) scan(dest []any) error {
	if len(dest) == 1 {
		if s, ok := dest[0].(pgx.RowScanner); ok {
			return s.ScanRow(r)
		}
	}
	conn := r.Conn()
	if conn == nil { // rows of a DB that is not pgx
		return r.Rows.Scan(dest...)
	}
	return pgx.ScanRow(conn.TypeMap(), r.FieldDescriptions(), r.RawValues(), dest...)
}

// row is the first of rows.
type row struct{ rows *rows }

// Scan implements pgx.Row.
func (r row) Scan(dest ...any) error {
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
