package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

func TestNewRefusesBadArguments(t *testing.T) {
	t.Parallel()
	var noPool *pgxpool.Pool
	var noConn *pgx.Conn
	db := unused{t}
	for name, c := range map[string]struct {
		db   postgres.DB
		opts *postgres.Options
	}{
		"db":          {nil, nil},
		"db ":         {noPool, nil},
		"db  ":        {noConn, nil},
		"LockTimeout": {db, &postgres.Options{LockTimeout: -1}},
		"IdleTimeout": {db, &postgres.Options{IdleTimeout: time.Millisecond - 1}},
	} {
		_, err := postgres.New(c.db, c.opts)
		var option *postgres.OptionError
		if !errors.As(err, &option) || option.Name != strings.TrimSpace(name) || !strings.HasPrefix(err.Error(), "postgres: ") {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if _, err := postgres.New(db, &postgres.Options{}); err != nil {
		t.Errorf("the zero options: %v", err)
	}
}

// calls are those that may have an unknown outcome, by what they are called in
// the error.
func calls(ctx context.Context, s *postgres.Store, f fencedstore.Fence) map[string]func() error {
	ctx = fencedstore.NewContext(ctx, f)
	return map[string]func() error{
		"claim": func() error { return s.Claim(ctx, f) },
		"exec":  func() error { _, err := s.Exec(ctx, f, "select 1"); return err },
		"batch": func() error { b := &pgx.Batch{}; b.Queue("select 1"); return s.SendBatch(ctx, f, b) },
		"query": func() error { var n int; return s.Repo().QueryRow(ctx, "select 1").Scan(&n) },
	}
}

func TestCallWhoseAnswerIsLostHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	url := database(t)
	for name := range calls(t.Context(), nil, fencedstore.Fence{}) {
		k := openLossy(t, variant{mode: pgx.QueryExecModeExec, write: writeExec}, url)
		f := claimed(t, k.Store, name, 1)
		k.losing()
		var unknown *fencedstore.UnknownOutcomeError
		if err := calls(t.Context(), k.Store, f)[name](); !errors.As(err, &unknown) || unknown.Op != name || unknown.Fence != f {
			t.Errorf("%s: got %v, want an unknown outcome", name, err)
		}
		if err := calls(t.Context(), k.Store, f)[name](); err != nil {
			t.Errorf("%s again: %v", name, err)
		}
	}
}

func TestContextThatEndsWhileWaitingForAnAnswerIsUnknownWithItsCause(t *testing.T) {
	t.Parallel()
	url := database(t)
	k := openLossy(t, variant{mode: pgx.QueryExecModeExec, write: writeExec}, url)
	f := claimed(t, k.Store, "r", 1)
	lost := errors.New("the lock was lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(lost) })
	_, err := k.Exec(ctx, f, "select pg_sleep(60)")
	if !errors.Is(err, fencedstore.ErrUnknownOutcome) || !errors.Is(err, lost) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want an unknown outcome by the cause", err)
	}
}

func TestCallThatWasNeverSentIsAPlainFailure(t *testing.T) {
	t.Parallel()
	pg := testenv.SharedPostgres(t)
	proxy, err := testenv.NewProxy(pg.DirectAddr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	f := fence("r", 1)
	refusing := openPool(t, "postgres://postgres@"+proxy.Addr()+"/postgres?sslmode=disable")
	proxy.Refuse()
	closed := openPool(t, database(t))
	closed.Close()
	busy := openPool(t, database(t), maxConns(1))
	taken, err := busy.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Release()
	for why, pool := range map[string]*pgxpool.Pool{"connection refused": refusing, "pool closed": closed, "no connection free": busy} {
		s := newStore(t, pool, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		all := calls(ctx, s, f)
		all["transaction"] = func() error { return s.InTx(ctx, f, nil) }
		for name, call := range all {
			if err := call(); err == nil || errors.Is(err, fencedstore.ErrUnknownOutcome) || !strings.HasPrefix(err.Error(), "postgres: ") {
				t.Errorf("%s, %s: got %v, want a plain failure", why, name, err)
			}
		}
	}
}

// A wrapper around a pool may hide what happened; then nothing is promised.
type wrapped struct{ *pgxpool.Pool }

func TestWrappedPoolWorks(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t))
	s := newStore(t, wrapped{pool}, nil)
	f := claimed(t, s, "r", 1)
	for name, call := range calls(t.Context(), s, f) {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.InTx(t.Context(), f, func(tx pgx.Tx) error { return put(t.Context(), tx, "k") }); err != nil || value(t, pool, "k") == "" {
		t.Error(err)
	}
	if err := s.InTx(t.Context(), fence("r", 1), nil); !errors.Is(err, fencedstore.ErrFenceReused) {
		t.Errorf("another holder: %v", err)
	}
	end := func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "commit"); return err }
	if err := s.InTx(t.Context(), f, end); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("a callback that commits: %v", err)
	}
	if pool.Stat().AcquiredConns() != 0 {
		t.Error("a connection is still taken")
	}
	closePool(t, pool)
	if err := s.InTx(t.Context(), f, nil); err == nil || errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("a closed pool: %v", err)
	}
}

func TestTransactionCannotBeUsedAfterItsCallback(t *testing.T) {
	t.Parallel()
	s, _ := setUp(t)
	f := claimed(t, s, "r", 1)
	for name, end := range map[string]string{"committed": "select 1", "ended by the callback": "commit", "failed": "select 1/0"} {
		var kept pgx.Tx
		_ = s.InTx(t.Context(), f, func(tx pgx.Tx) error {
			kept = tx
			_, err := tx.Exec(t.Context(), end)
			return err
		})
		if err := put(t.Context(), kept, "k"); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s: got %v, want ErrTxClosed", name, err)
		}
	}
}

func TestServersErrorsAreSortedByWhatTheyMean(t *testing.T) {
	t.Parallel()
	f := fence("r", 5)
	for name, c := range map[string]struct {
		err     error
		unknown bool
	}{
		"constraint":               {&pgconn.PgError{Severity: "ERROR", Code: "23505"}, false},
		"localized":                {&pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "23505"}, false},
		"serialization":            {&pgconn.PgError{Severity: "ERROR", Code: "40001"}, false},
		"completion unknown":       {&pgconn.PgError{Severity: "ERROR", Code: "40003"}, true},
		"idle in transaction":      {&pgconn.PgError{Severity: "FATAL", Code: "25P03"}, false},
		"shutdown":                 {&pgconn.PgError{Severity: "FATAL", Code: "57P01"}, true},
		"crash":                    {&pgconn.PgError{Severity: "PANIC", Code: "XX000"}, true},
		"rolled back":              {pgx.ErrTxCommitRollback, false},
		"connection lost":          {io.ErrUnexpectedEOF, true},
		"deadline while in flight": {context.DeadlineExceeded, true},
	} {
		err := postgres.Outcome(t.Context(), "commit", f, c.err, false)
		if errors.Is(err, fencedstore.ErrUnknownOutcome) != c.unknown || !errors.Is(err, c.err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// pqError is the shape of lib/pq's error.
type pqError struct{ code, detail string }

func (e pqError) Error() string    { return "pq: " + e.code }
func (e pqError) SQLState() string { return e.code }
func (e pqError) Get(field byte) string {
	return map[byte]string{'D': e.detail}[field]
}

func TestRefusalsOfOtherDriversAreUnderstood(t *testing.T) {
	t.Parallel()
	f := fence("r", 5)
	var stale *fencedstore.StaleError
	if err := postgres.Refused(f, fmt.Errorf("wrapped: %w", pqError{"ZF001", "7"})); !errors.As(err, &stale) || stale.Newest != 7 {
		t.Errorf("got %v, want stale by 7", err)
	}
	if err := postgres.Refused(f, pqError{"ZF004", ""}); !errors.Is(err, fencedstore.ErrNoFence) {
		t.Errorf("got %v, want no fence", err)
	}
	for _, other := range []error{pqError{"23505", ""}, io.EOF, nil} {
		if err := postgres.Refused(f, other); err != nil {
			t.Errorf("%v is taken for a refusal: %v", other, err)
		}
	}
}

func TestNoErrorShowsTheHolder(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 2)
	hasty := newStore(t, pool, &postgres.Options{LockTimeout: time.Millisecond})
	closed := openPool(t, pool.Config().ConnString())
	closed.Close()
	errs := map[string]error{
		"not sent": newStore(t, closed, nil).Claim(t.Context(), f),
		"unknown":  postgres.Outcome(t.Context(), "claim", f, io.EOF, false),
		"callback": s.InTx(t.Context(), f, func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "select 1/0"); return err }),
		"busy": s.InTx(t.Context(), f, func(pgx.Tx) error {
			return hasty.Claim(t.Context(), fencedstore.Fence{Resource: "r", ID: 3, Holder: f.Holder})
		}),
	}
	for id := range int64(3) {
		g := fencedstore.Fence{Resource: "r", ID: id + 1, Holder: f.Holder}
		if g == f {
			g.Holder += f.Holder
		}
		_, errs[fmt.Sprint("refused ", id)] = s.Exec(t.Context(), g, "select 1")
	}
	for name, err := range errs {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if text := fmt.Sprintf(format, err); err == nil || strings.Contains(text, f.Holder) {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
}

// apart takes the transaction out of a batch, as a careless wrapper may.
type apart struct {
	*pgxpool.Pool
	tx *pgx.Tx
}

func (a apart) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	br := a.Pool.SendBatch(ctx, b)
	*a.tx = br.Tx()
	return noTx{br}
}

type noTx struct{ pgx.BatchResults }

func (noTx) Tx() pgx.Tx { return nil }

func TestWrapperThatDropsTheTransactionIsAnError(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t), maxConns(1))
	f := claimed(t, newStore(t, pool, nil), "r", 1)
	var tx pgx.Tx
	if err := newStore(t, apart{pool, &tx}, nil).InTx(t.Context(), f, nil); err == nil || errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("got %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}
