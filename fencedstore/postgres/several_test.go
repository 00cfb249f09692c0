package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// many is a way of working under several fences: it writes a key.
type many func(ctx context.Context, fs []fencedstore.Fence, key string) error

func waysToGuardMany(tb testing.TB, s *postgres.Store, pool *pgxpool.Pool, level pgx.TxIsoLevel) map[string]many {
	tb.Helper()
	db := openSQL(tb, pool.Config().ConnString())
	opts := pgx.TxOptions{IsoLevel: level}
	sqlOpts := &sql.TxOptions{Isolation: map[pgx.TxIsoLevel]sql.IsolationLevel{
		pgx.ReadCommitted: sql.LevelReadCommitted, pgx.RepeatableRead: sql.LevelRepeatableRead, pgx.Serializable: sql.LevelSerializable,
	}[level]}
	return map[string]many{
		"InTxMany": func(ctx context.Context, fs []fencedstore.Fence, key string) error {
			return s.InTxManyOptions(ctx, fs, opts, func(tx pgx.Tx) error { return put(ctx, tx, key) })
		},
		"SendBatchMany": func(ctx context.Context, fs []fencedstore.Fence, key string) error {
			b := &pgx.Batch{}
			b.Queue(upsert, []byte(key), []byte("v"))
			return s.SendBatchMany(ctx, fs, b)
		},
		"GuardMany": func(ctx context.Context, fs []fencedstore.Fence, key string) error {
			return pgx.BeginTxFunc(ctx, pool, opts, func(tx pgx.Tx) error {
				return errors.Join(postgres.GuardMany(ctx, tx, fs), put(ctx, tx, key))
			})
		},
		"GuardManySQL": func(ctx context.Context, fs []fencedstore.Fence, key string) error {
			tx, err := db.BeginTx(ctx, sqlOpts)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := postgres.GuardManySQL(ctx, tx, fs); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, upsert, []byte(key), []byte("v")); err != nil {
				return err
			}
			return tx.Commit()
		},
	}
}

func TestSeveralResourcesAreGuardedTogether(t *testing.T) {
	t.Parallel()
	url := database(t)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		pool := openPool(t, url, setting("default_transaction_isolation", string(level)))
		s := newStore(t, pool, nil)
		for name, work := range waysToGuardMany(t, s, pool, level) {
			key := name + " at " + string(level)
			var fs []fencedstore.Fence
			for _, r := range []string{"a", "b", "c"} {
				fs = append(fs, claimed(t, s, r+key, 7))
			}
			if err := work(t.Context(), fs, key); err != nil || value(t, pool, key) == "" {
				t.Errorf("%s: %v", key, err)
			}
			for i, newest := range fs {
				refusedMany(t, work, pool, key, fs, i, fence(newest.Resource, 7), fencedstore.ErrFenceReused)
				refusedMany(t, work, pool, key, fs, i, fence(newest.Resource, 6), fencedstore.ErrStale)
				refusedMany(t, work, pool, key, fs, i, fence(newest.Resource, 8), fencedstore.ErrNotClaimed)
				refusedMany(t, work, pool, key, fs, i, fence("never "+newest.Resource, 8), fencedstore.ErrNotClaimed)
				older, later := newest, newest // another tenure of the same holder
				older.ID, later.ID = 6, 8
				refusedMany(t, work, pool, key, fs, i, older, fencedstore.ErrStale)
				refusedMany(t, work, pool, key, fs, i, later, fencedstore.ErrNotClaimed)
			}
			first, second := fence(fs[1].Resource, 6), fence(fs[2].Resource, 8)
			refusedMany(t, work, pool, key, []fencedstore.Fence{fs[0], {}, second}, 1, first, fencedstore.ErrStale)
			refusedMany(t, work, pool, key, []fencedstore.Fence{second, {}, fs[0]}, 1, first, fencedstore.ErrNotClaimed, second)
		}
	}
}

// refusedMany works with one fence of a list replaced by a bad one, which is
// what the error must be about, unless blamed says otherwise.
func refusedMany(tb testing.TB, work many, pool *pgxpool.Pool, key string, fs []fencedstore.Fence, i int, bad fencedstore.Fence, want error, blamed ...fencedstore.Fence) {
	tb.Helper()
	fs = slices.Clone(fs)
	fs[i] = bad
	if blamed != nil {
		bad = blamed[0]
	}
	err := work(tb.Context(), fs, key+" refused")
	var stale *fencedstore.StaleError
	var reused *fencedstore.FenceReusedError
	var unclaimed *fencedstore.NotClaimedError
	var got fencedstore.Fence
	switch {
	case errors.As(err, &stale):
		got = stale.Fence
	case errors.As(err, &reused):
		got = reused.Fence
	case errors.As(err, &unclaimed):
		got = unclaimed.Fence
	}
	if !errors.Is(err, want) || got != bad || stale != nil && stale.Newest != 7 {
		tb.Errorf("%s with %v: got %v, want %v", key, bad, err, want)
	}
	if value(tb, pool, key+" refused") != "" {
		tb.Errorf("%s with %v: the write was committed", key, bad)
	}
}

func TestListThatCannotBeGuardedSendsNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t, unused{t}, nil)
	f, g := fence("a", 1), fence("b", 2)
	for name, c := range map[string]struct {
		fs       []fencedstore.Fence
		resource string
	}{
		"nil":               {nil, ""},
		"empty":             {[]fencedstore.Fence{}, ""},
		"twice":             {[]fencedstore.Fence{f, g, f}, "a"},
		"two of a resource": {[]fencedstore.Fence{g, f, fence("b", 2)}, "b"},
	} {
		for _, err := range everyMany(t.Context(), s, c.fs) {
			var list *postgres.FencesError
			if !errors.Is(err, fencedstore.ErrInvalidFence) || !errors.As(err, &list) || list.Resource != c.resource {
				t.Errorf("%s: got %v", name, err)
			}
			if text := err.Error(); strings.Contains(text, f.Holder) || strings.Contains(text, g.Holder) {
				t.Errorf("%s: the text shows a holder", name)
			}
		}
	}
	for _, err := range everyMany(t.Context(), s, []fencedstore.Fence{f, {Resource: "b"}}) {
		var invalid *fencedstore.InvalidFenceError
		if !errors.As(err, &invalid) || invalid.Field != "ID" {
			t.Errorf("an invalid fence: got %v", err)
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range everyMany(done, s, []fencedstore.Fence{f, g}) {
		if !errors.Is(err, context.Canceled) || errors.Is(err, fencedstore.ErrUnknownOutcome) {
			t.Errorf("a context that is done: got %v", err)
		}
	}
}

func everyMany(ctx context.Context, s *postgres.Store, fs []fencedstore.Fence) []error {
	return []error{
		s.InTxMany(ctx, fs, nil), s.SendBatchMany(ctx, fs, &pgx.Batch{}), postgres.GuardMany(ctx, nil, fs), postgres.GuardManySQL(ctx, nil, fs),
	}
}

func TestAnyBytesNameSeveralResources(t *testing.T) {
	t.Parallel()
	url := database(t)
	for i, mode := range execModes {
		pool := openPool(t, url, execMode(mode))
		s := newStore(t, pool, nil)
		var fs []fencedstore.Fence
		for _, name := range []string{`a,"b"`, `{}`, `\`, `\\x00`, "\x00", "\xff", "NULL", " ", "é", "'; drop table kv --", `"`} {
			fs = append(fs, claimed(t, s, name, int64(i+2)))
		}
		if err := s.SendBatchMany(t.Context(), fs, &pgx.Batch{}); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
		for i, f := range fs {
			stale := slices.Clone(fs)
			stale[i].ID--
			var got *fencedstore.StaleError
			if err := s.InTxMany(t.Context(), stale, nil); !errors.As(err, &got) || got.Fence.Resource != f.Resource {
				t.Errorf("%v: %q: got %v", mode, f.Resource, err)
			}
		}
	}
}

// The function is for other languages too, which must not get past it with
// arrays that do not fit together.
func TestGuardManyInSQLRefusesWhatIsNoList(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f, g := claimed(t, s, "a", 1), claimed(t, s, "b", 2)
	holders := [][]byte{[]byte(f.Holder), []byte(g.Holder)}
	for name, c := range map[string]struct {
		code string
		args []any
	}{
		"good":            {"", []any{[]string{"a", "b"}, []int64{1, 2}, holders}},
		"nothing":         {"22023", []any{[]string{}, []int64{}, [][]byte{}}},
		"null":            {"22023", []any{nil, nil, nil}},
		"only fences":     {"22023", []any{nil, []int64{1, 2}, holders}},
		"a null resource": {"ZF003", []any{[]*string{nil, nil}, []int64{1, 2}, holders}},
		"a null fence":    {"ZF003", []any{[]string{"a"}, []*int64{nil}, holders[:1]}},
		"too few fences":  {"ZF003", []any{[]string{"a", "b"}, []int64{1}, holders}},
		"too few holders": {"ZF003", []any{[]string{"a", "b"}, []int64{1, 2}, holders[:1]}},
		"too many":        {"ZF003", []any{[]string{"a", "b"}, []int64{1, 2, 3}, holders}},
		"other order":     {"ZF001", []any{[]string{"b", "a"}, []int64{1, 2}, holders}},
	} {
		_, err := pool.Exec(t.Context(), "select fencedstore.guard_many($1::text[], $2::int8[], $3::bytea[])", c.args...)
		var pg *pgconn.PgError
		if c.code == "" && err != nil || c.code != "" && (!errors.As(err, &pg) || pg.Code != c.code) {
			t.Errorf("%s: got %v, want %q", name, err, c.code)
		}
	}
}

// A claim on one of the resources came between snapshot and lock.
func TestGuardOfSeveralWithAnOldSnapshotIsToldTheVerdict(t *testing.T) {
	t.Parallel()
	url := database(t)
	for _, level := range []string{"repeatable read", "serializable"} {
		pool := openPool(t, url, setting("default_transaction_isolation", level))
		s := newStore(t, pool, nil)
		f, g := claimed(t, s, level, 1), claimed(t, s, "other "+level, 1)
		done := make(chan error, 1)
		err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "select fencedstore.claim($1::text, 2, 'x', 1000)", f.Resource)
			go func() { done <- s.InTxMany(t.Context(), []fencedstore.Fence{g, f}, nil) }()
			untilWaiting(t, pool)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		var stale *fencedstore.StaleError
		if err := <-done; !errors.As(err, &stale) || stale.Fence != f || stale.Newest != 2 {
			t.Errorf("%s: got %v, want stale by 2", level, err)
		}
	}
}
