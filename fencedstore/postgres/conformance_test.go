package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/fencedstore/storetest"
)

var execModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// TestStoreKeepsTheContract runs the conformance kit over every way of driving a
// Store.
func TestStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	dbs := &databases{tb: t}
	for name, v := range variants() {
		if testing.Short() && v.mode != pgx.QueryExecModeSimpleProtocol && name != "InTx" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conform(t, v, dbs)
		})
	}
}

func variants() map[string]variant {
	const mode = pgx.QueryExecModeCacheStatement
	vs := map[string]variant{
		"InTx":                 {mode: mode, write: writeTx("")},
		"InTx repeatable read": {mode: mode, write: writeTx(pgx.RepeatableRead)},
		"InTx serializable":    {mode: mode, write: writeTx(pgx.Serializable)},
		"InTxMany":             {mode: mode, write: writeTxMany, keepsReply: true},
		"SendBatch":            {mode: mode, write: writeBatch},
		"Repo":                 {mode: mode, write: writeRepo},
		"Guard":                {mode: mode, write: writeGuard, keepsReply: true},
		"GuardSQL":             {mode: mode, write: writeGuardSQL, keepsReply: true},
	}
	for _, mode := range execModes {
		vs["Exec on a pool, "+mode.String()] = variant{mode: mode, write: writeExec}
		vs["Exec on a conn, "+mode.String()] = variant{mode: mode, write: writeExec, conn: true}
	}
	return vs
}

// variant is one way of driving a Store.
type variant struct {
	mode       pgx.QueryExecMode
	conn       bool // a pgx.Conn instead of a pool
	keepsReply bool // the answer of a write is the test's own business
	write      func(ctx context.Context, s *kv, f fencedstore.Fence, sql string, args []any) error
}

func conform(t *testing.T, v variant, dbs *databases) {
	t.Helper()
	h := storetest.Harness{
		New: func(tb testing.TB) fencedstore.Store {
			tb.Helper()
			return openKV(tb, v, dbs.get(tb))
		},
		Reopen: func(tb testing.TB, s fencedstore.Store) fencedstore.Store {
			tb.Helper()
			return openKV(tb, v, asKV(tb, s).url)
		},
	}
	// describe_exec asks before it sends: an answer lost then is a plain failure
	if !v.conn && !v.keepsReply && v.mode != pgx.QueryExecModeDescribeExec {
		h.LoseReply = func(tb testing.TB, s fencedstore.Store) fencedstore.Store {
			tb.Helper()
			return openLossy(tb, v, asKV(tb, s).url)
		}
	}
	storetest.Run(t, h)
}

func asKV(tb testing.TB, s fencedstore.Store) *kv {
	tb.Helper()
	k, ok := s.(*kv)
	if !ok {
		tb.Fatalf("not a store of this harness: %T", s)
	}
	return k
}

// kv is a [fencedstore.Store] with its values in a table of the tests.
type kv struct {
	variant
	*postgres.Store
	url    string
	pool   *pgxpool.Pool // for reads and for transactions of the test's own
	db     *sql.DB
	one    chan struct{} // a pgx.Conn serves one call at a time
	losing func()        // called when the next answer is the last of a call
}

func openKV(tb testing.TB, v variant, url string, changes ...func(*pgxpool.Config)) *kv {
	tb.Helper()
	k := &kv{variant: v, url: url, db: openSQL(tb, url), losing: func() {}}
	k.pool = openPool(tb, url, append([]func(*pgxpool.Config){maxConns(5), execMode(v.mode)}, changes...)...)
	k.Store = newStore(tb, k.pool, nil)
	if v.conn {
		conn, err := pgx.ConnectConfig(tb.Context(), k.pool.Config().ConnConfig)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
		k.Store, k.one = newStore(tb, conn, nil), make(chan struct{}, 1)
	}
	return k
}

// alone runs call, and with a pgx.Conn no other at the same time.
func (k *kv) alone(call func() error) error {
	if k.one != nil {
		k.one <- struct{}{}
		defer func() { <-k.one }()
	}
	return call()
}

func (k *kv) Claim(ctx context.Context, f fencedstore.Fence) error {
	return k.alone(func() error {
		k.losing()
		return k.Store.Claim(ctx, f)
	})
}

func (k *kv) Write(ctx context.Context, f fencedstore.Fence, key string, value []byte) error {
	query, args := "delete from kv where key = $1", []any{[]byte(key)}
	if value != nil {
		query, args = upsert, append(args, value)
	}
	return k.alone(func() error {
		for attempt := 1; ; attempt++ {
			err := k.write(ctx, k, f, query, args)
			// two writes of one holder at once, at a higher isolation level
			var pg *pgconn.PgError
			if attempt == 1000 || !errors.As(err, &pg) || pg.Code != "40001" {
				return err
			}
		}
	})
}

func (k *kv) Read(ctx context.Context, key string) ([]byte, error) {
	var value []byte
	err := k.pool.QueryRow(ctx, "select value from kv where key = $1", []byte(key)).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fencedstore.ErrNotFound
	}
	return value, err
}

func writeExec(ctx context.Context, k *kv, f fencedstore.Fence, query string, args []any) error {
	k.losing()
	_, err := k.Exec(ctx, f, query, args...)
	return err
}

func writeBatch(ctx context.Context, k *kv, f fencedstore.Fence, query string, args []any) error {
	b := &pgx.Batch{}
	b.Queue(query, args...)
	k.losing()
	return k.SendBatch(ctx, f, b)
}

func writeRepo(ctx context.Context, k *kv, f fencedstore.Fence, query string, args []any) error {
	var key []byte
	k.losing()
	err := k.Repo().QueryRow(fencedstore.NewContext(ctx, f), query+" returning key", args...).Scan(&key)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // deleted nothing
	}
	return err
}

func writeTx(level pgx.TxIsoLevel) func(context.Context, *kv, fencedstore.Fence, string, []any) error {
	return func(ctx context.Context, k *kv, f fencedstore.Fence, query string, args []any) error {
		return k.InTxOptions(ctx, f, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, query, args...)
			k.losing()
			return err
		})
	}
}

// writeTxMany works on a second resource as well.
func writeTxMany(ctx context.Context, k *kv, f fencedstore.Fence, query string, args []any) error {
	second := fencedstore.Fence{Resource: "second", ID: 1, Holder: "second"}
	if err := k.Claim(ctx, second); err != nil {
		return err
	}
	return k.InTxMany(ctx, []fencedstore.Fence{f, second}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	})
}

func writeGuard(ctx context.Context, k *kv, f fencedstore.Fence, query string, args []any) error {
	return pgx.BeginFunc(ctx, k.pool, func(tx pgx.Tx) error {
		if err := postgres.Guard(ctx, tx, f); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, query, args...)
		return err
	})
}

func writeGuardSQL(ctx context.Context, k *kv, f fencedstore.Fence, query string, args []any) error {
	if err := f.Validate(); err != nil {
		return err
	}
	tx, err := k.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := postgres.GuardSQL(ctx, tx, f); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, query, args...); err != nil {
		return err
	}
	return tx.Commit()
}
