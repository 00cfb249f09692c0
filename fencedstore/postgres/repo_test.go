package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// unused is a database that nothing may be sent to.
type unused struct{ tb testing.TB }

func (u unused) BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error) {
	u.tb.Error("BeginTx was called")
	return nil, errCallback
}

func (u unused) SendBatch(_ context.Context, b *pgx.Batch) pgx.BatchResults {
	u.tb.Error("SendBatch was called")
	return pgx.FailedBatchResults(b, errCallback)
}

// everyCall makes each guarded call once, all with the fence in ctx.
func everyCall(ctx context.Context, s *postgres.Store) map[string]error {
	repo := s.Repo()
	_, exec := repo.Exec(ctx, "select 1")
	rows, query := repo.Query(ctx, "select 1")
	rows.Close()
	_, copied := repo.CopyFrom(ctx, pgx.Identifier{"kv"}, []string{"key"}, pgx.CopyFromRows(nil))
	b := &pgx.Batch{}
	b.Queue("select 1")
	br := repo.SendBatch(ctx, b)
	_, batchExec := br.Exec()
	batchRows, batchQuery := br.Query()
	batchRows.Close()
	return map[string]error{
		"Exec": exec, "Query": query, "Rows": rows.Err(), "CopyFrom": copied, "Batch.Exec": batchExec,
		"Batch.Query": batchQuery, "Batch.Rows": batchRows.Err(), "Batch.QueryRow": br.QueryRow().Scan(nil), "Batch.Close": br.Close(),
		"QueryRow": repo.QueryRow(ctx, "select 1").Scan(nil),
	}
}

func TestRepoWithoutAFenceSendsNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t, unused{t}, nil)
	for name, err := range everyCall(t.Context(), s) {
		if !errors.Is(err, fencedstore.ErrNoFence) {
			t.Errorf("%s without a fence: %v", name, err)
		}
	}
	invalid := fencedstore.NewContext(t.Context(), fencedstore.Fence{Resource: "r"})
	for name, err := range everyCall(invalid, s) {
		if !errors.Is(err, fencedstore.ErrInvalidFence) {
			t.Errorf("%s with an invalid fence: %v", name, err)
		}
	}
	done, cancel := context.WithCancel(fencedstore.NewContext(t.Context(), fence("r", 1)))
	cancel()
	for name, err := range everyCall(done, s) {
		if !errors.Is(err, context.Canceled) || errors.Is(err, fencedstore.ErrUnknownOutcome) {
			t.Errorf("%s with a context that is done: %v", name, err)
		}
	}
}

func TestEveryRepoCallIsRefusedWhenStale(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	stale := claimed(t, s, "r", 1)
	claimed(t, s, "r", 2)
	for name, err := range everyCall(fencedstore.NewContext(t.Context(), stale), s) {
		var pg *pgconn.PgError
		if !errors.Is(err, fencedstore.ErrStale) || !errors.As(err, &pg) || pg.Code != "ZF001" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are still taken", n)
	}
}

// queries is what sqlc generates, in short.
type queries struct{ db postgres.DBTX }

func (q queries) add(ctx context.Context, n int) (int64, error) {
	res, err := q.db.Exec(ctx, "insert into kv select n::text::bytea, 'v' from generate_series(1, $1::int) n", n)
	return res.RowsAffected(), err
}

func (q queries) keys(ctx context.Context) ([]string, error) {
	rows, err := q.db.Query(ctx, "select key from kv order by key")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var keys []string
	for rows.Next() {
		var key []byte
		if err := rows.Scan(&key); err != nil {
			return nil, err
		}
		keys = append(keys, string(key))
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return keys, nil
}

func (q queries) copyIn(ctx context.Context, keys ...string) (int64, error) {
	return q.db.CopyFrom(ctx, pgx.Identifier{"kv"}, []string{"key"}, pgx.CopyFromSlice(len(keys), func(i int) ([]any, error) {
		return []any{[]byte(keys[i])}, nil
	}))
}

func TestGeneratedCodeRunsGuarded(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	ctx := fencedstore.NewContext(t.Context(), claimed(t, s, "r", 1))
	q := queries{s.Repo()}
	if n, err := q.add(ctx, 3); n != 3 || err != nil {
		t.Fatalf("add: %d, %v", n, err)
	}
	if n, err := q.copyIn(ctx, "a", "b"); n != 2 || err != nil {
		t.Fatalf("copy: %d, %v", n, err)
	}
	if keys, err := q.keys(ctx); len(keys) != 5 || err != nil {
		t.Fatalf("keys: %q, %v", keys, err)
	}
	b := &pgx.Batch{}
	b.Queue("select key from kv where key = 'a'")
	b.Queue("select count(*) from kv")
	br := q.db.SendBatch(ctx, b)
	var key []byte
	var n int
	err := errors.Join(br.QueryRow().Scan(&key), br.QueryRow().Scan(&n), br.Close())
	if err != nil || string(key) != "a" || n != 5 {
		t.Errorf("batch: %s, %d, %v", key, n, err)
	}
	type pair struct{ Key, Value []byte }
	rows, _ := q.db.Query(ctx, "select key, value from kv where key = '1'")
	if p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[pair]); err != nil || string(p.Value) != "v" {
		t.Errorf("collected %v, %v", p, err)
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are still taken", n)
	}
}

// A constraint that is checked at commit fails after the row was returned.
func TestRowsReportAFailedCommit(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	deferred(t, pool)
	ctx := fencedstore.NewContext(t.Context(), claimed(t, s, "r", 1))
	const query = "insert into child values (1) returning id"
	var id int
	row := s.Repo().QueryRow(ctx, query).Scan(&id)
	rows, err := s.Repo().Query(ctx, query)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
	}
	early, err := s.Repo().Query(ctx, query)
	if err != nil {
		t.Fatal(err)
	}
	early.Close() // without a look
	wrong := s.Repo().QueryRow(ctx, query).Scan(new(bool))
	for name, err := range map[string]error{"Row": row, "Rows": rows.Err(), "closed early": early.Err(), "wrong type": wrong} {
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "23503" {
			t.Errorf("%s: got %v, want the constraint's error", name, err)
		}
	}
}

func TestReadingTheWrongTypeIsNotAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	ctx := fencedstore.NewContext(t.Context(), claimed(t, s, "r", 1))
	err := s.Repo().QueryRow(ctx, "insert into kv values ('k', 'v') returning value").Scan(new(bool))
	if err == nil || errors.Is(err, fencedstore.ErrUnknownOutcome) || value(t, pool, "k") != "v" {
		t.Errorf("got %v and wrote %q, want the scan's error after a commit", err, value(t, pool, "k"))
	}
}

func TestEmptyRowIsErrNoRows(t *testing.T) {
	t.Parallel()
	s, _ := setUp(t)
	ctx := fencedstore.NewContext(t.Context(), claimed(t, s, "r", 1))
	if err := s.Repo().QueryRow(ctx, "select 1 where false").Scan(nil); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("got %v", err)
	}
}

func TestRowsThatAreCutOffHaveAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	s, _ := setUp(t)
	ctx, cancel := context.WithCancel(fencedstore.NewContext(t.Context(), claimed(t, s, "r", 1)))
	rows, err := s.Repo().Query(ctx, manyRows)
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	cancel()
	rows.Close()
	if err := rows.Err(); !errors.Is(err, fencedstore.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want an unknown outcome", err)
	}
}

// manyRows is more than the buffers on the way hold.
const manyRows = "select repeat('x', 1000) from generate_series(1, 100000)"

func TestOpenRowsKeepANewerClaimWaiting(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	ctx := fencedstore.NewContext(t.Context(), claimed(t, s, "r", 1))
	rows, err := s.Repo().Query(ctx, manyRows)
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	defer rows.Close()
	done := make(chan error, 1)
	go func() { done <- s.Claim(t.Context(), fence("r", 2)) }()
	untilWaiting(t, pool)
	rows.Close()
	if err := errors.Join(rows.Err(), <-done); err != nil {
		t.Error(err)
	}
}
