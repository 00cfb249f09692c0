package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

func TestStaleBatchIsReportedWhateverIsRead(t *testing.T) {
	t.Parallel()
	url := database(t)
	for _, mode := range execModes {
		pool := openPool(t, url, maxConns(1), execMode(mode))
		s := newStore(t, pool, nil)
		stale := claimed(t, s, mode.String(), 1)
		claimed(t, s, mode.String(), 2)
		b := &pgx.Batch{}
		b.Queue(upsert, []byte("k"), []byte("v")).Exec(func(tag) error { t.Error("a callback ran"); return nil })
		b.Queue("select 1").QueryRow(func(pgx.Row) error { t.Error("a callback ran"); return nil })
		ctx := fencedstore.NewContext(t.Context(), stale)
		unread := s.Repo().SendBatch(ctx, b)
		firstOnly := s.Repo().SendBatch(ctx, b)
		_, read := firstOnly.Exec()
		rows, query := s.Repo().Query(ctx, "select 1")
		for what, err := range map[string]error{
			"SendBatch": s.SendBatch(ctx, stale, b), "nothing read": unread.Close(),
			"first result": read, "after the first result": firstOnly.Close(),
			"Query": query, "Rows": rows.Err(), "Row": s.Repo().QueryRow(ctx, "select 1").Scan(nil),
		} {
			var e *fencedstore.StaleError
			if !errors.As(err, &e) || e.Newest != 2 || e.Fence != stale {
				t.Errorf("%v, %s: got %v, want stale by 2", mode, what, err)
			}
		}
		if value(t, pool, "k") != "" || pool.Stat().NewConnsCount() != 1 {
			t.Errorf("%v: wrote %q, used %d connections", mode, value(t, pool, "k"), pool.Stat().NewConnsCount())
		}
	}
}

func TestBatchRunsItsCallbacksInOrder(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	var seen []string
	b := &pgx.Batch{}
	b.Queue(upsert, []byte("k"), []byte("v")).Exec(func(tag tag) error { seen = append(seen, tag.String()); return nil })
	b.Queue("select 1") // without one
	b.Queue("select generate_series(1, 3)").Query(func(rows pgx.Rows) error {
		ns, err := pgx.CollectRows(rows, pgx.RowTo[int])
		seen = append(seen, fmt.Sprint(ns))
		return err
	})
	b.Queue("select $1::text", "x").QueryRow(func(row pgx.Row) error {
		var x string
		err := row.Scan(&x)
		seen = append(seen, x)
		return err
	})
	b.Queue("select 1 where false").QueryRow(func(row pgx.Row) error {
		if err := row.Scan(nil); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return nil
	})
	for range 2 { // a batch is left as it is
		seen = nil
		if err := s.SendBatch(t.Context(), f, b); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(seen); got != "[INSERT 0 1 [1 2 3] x]" {
			t.Errorf("the callbacks saw %s", got)
		}
	}
	if value(t, pool, "k") != "v" {
		t.Error("nothing was written")
	}
}

func TestBatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	deferred(t, pool)
	for code, last := range map[string]string{
		"22012": "select 1/0", "42P01": "select from nowhere", "23503": "insert into child values (1)",
	} {
		b := &pgx.Batch{}
		b.Queue(upsert, []byte("k"), []byte("v"))
		b.Queue(last)
		err := s.SendBatch(t.Context(), f, b)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != code || errors.Is(err, fencedstore.ErrUnknownOutcome) {
			t.Errorf("%s: got %v, want %s", last, err, code)
		}
		if value(t, pool, "k") != "" {
			t.Errorf("%s: the statement before it stayed", last)
		}
	}
}

func TestCallbackErrorSaysThatTheBatchIsCommitted(t *testing.T) {
	t.Parallel()
	url := database(t)
	for _, mode := range execModes {
		pool := openPool(t, url, maxConns(1), execMode(mode))
		s := newStore(t, pool, nil)
		f := claimed(t, s, mode.String(), 1)
		later := 0
		for name, queue := range map[string]func(b *pgx.Batch){
			"own error": func(b *pgx.Batch) { b.Queue("select 1").Exec(func(tag) error { return errCallback }) },
			"wrong type": func(b *pgx.Batch) {
				b.Queue("select 'text'").QueryRow(func(row pgx.Row) error { return row.Scan(new(int)) })
			},
			"wrong type in a list": func(b *pgx.Batch) {
				b.Queue("select 'text' from generate_series(1, 3)").Query(func(rows pgx.Rows) error {
					_, err := pgx.CollectRows(rows, pgx.RowTo[int])
					return err
				})
			},
		} {
			b := &pgx.Batch{}
			queue(b)
			b.Queue(upsert, []byte(mode.String()+name), []byte("v")).Exec(func(tag) error { later++; return nil })
			err := s.SendBatch(t.Context(), f, b)
			var callback *postgres.CallbackError
			if !errors.As(err, &callback) || later != 0 {
				t.Errorf("%v, %s: got %v, and %d callbacks after it", mode, name, err, later)
			}
			if value(t, pool, mode.String()+name) != "v" {
				t.Errorf("%v, %s: not committed", mode, name)
			}
		}
		if pool.Stat().NewConnsCount() != 1 {
			t.Errorf("%v: a connection was lost", mode)
		}
	}
}

func TestServerErrorAfterACallbackErrorIsNoCommit(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	b := &pgx.Batch{}
	b.Queue(upsert, []byte("k"), []byte("v"))
	b.Queue("select 'text'").QueryRow(func(row pgx.Row) error { return row.Scan(new(int)) })
	b.Queue("select 1/0")
	err := s.SendBatch(t.Context(), f, b)
	var pg *pgconn.PgError
	var callback *postgres.CallbackError
	if !errors.As(err, &pg) || errors.As(err, &callback) || value(t, pool, "k") != "" {
		t.Errorf("got %v and wrote %q, want the server's error", err, value(t, pool, "k"))
	}
}

// A value that cannot be sent is a mistake of the caller: nothing was sent, and
// so the outcome is known.
func TestUnsendableArgumentIsAPlainFailure(t *testing.T) {
	t.Parallel()
	url := database(t)
	for _, mode := range execModes {
		pool := openPool(t, url, execMode(mode))
		s := newStore(t, pool, nil)
		f := claimed(t, s, mode.String(), 1)
		b := &pgx.Batch{}
		b.Queue(upsert, []byte("k"), []byte("v"))
		b.Queue("select $1::int", make(chan int))
		_, exec := s.Exec(t.Context(), f, "select $1::int", make(chan int))
		for _, err := range []error{exec, s.SendBatch(t.Context(), f, b)} {
			if err == nil || errors.Is(err, fencedstore.ErrUnknownOutcome) {
				t.Errorf("%v: got %v, want a plain failure", mode, err)
			}
		}
		if value(t, pool, "k") != "" {
			t.Errorf("%v: a part of the batch was committed", mode)
		}
	}
}

func TestBatchThatBeginsATransactionIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := setUp(t)
	f := claimed(t, s, "r", 1)
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	if err := s.SendBatch(t.Context(), f, b); err == nil {
		t.Error("a batch with BeginTx was accepted")
	}
	if err := s.SendBatch(t.Context(), f, nil); err != nil {
		t.Errorf("no batch: %v", err)
	}
}

func TestExecReturnsTheTagOfItsStatement(t *testing.T) {
	t.Parallel()
	s, _ := setUp(t)
	f := claimed(t, s, "r", 1)
	for query, want := range map[string]string{
		"insert into kv select n::text::bytea from generate_series(1, 3) n": "INSERT 0 3",
		"update kv set value = 'x' where key = 'no such key'":               "UPDATE 0",
	} {
		if got, err := s.Exec(t.Context(), f, query); err != nil || got.String() != want {
			t.Errorf("%s: got %q, %v", query, got, err)
		}
	}
	got, err := s.Exec(t.Context(), f, "update kv set value = @v", pgx.NamedArgs{"v": []byte("y")})
	if err != nil || got.RowsAffected() != 3 {
		t.Errorf("named arguments: got %q, %v", got, err)
	}
}
