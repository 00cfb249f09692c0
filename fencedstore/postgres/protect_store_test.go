package postgres_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// writes are all ways in which this package changes a protected table.
func (s *shop) writes(t *testing.T, level pgx.TxIsoLevel, f fencedstore.Fence) map[string]func(ctx context.Context) error {
	t.Helper()
	const update = "update inv set v = v + 1 where id = 1"
	db := openSQL(t, s.app.Config().ConnString())
	in := func(ctx context.Context) context.Context { return fencedstore.NewContext(ctx, f) }
	return map[string]func(ctx context.Context) error{
		"InTx": func(ctx context.Context) error {
			return s.store.InTxOptions(ctx, f, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				_, err := tx.CopyFrom(ctx, pgx.Identifier{"inv"}, []string{"id"}, pgx.CopyFromRows([][]any{{int32(50)}}))
				if err != nil {
					return err
				}
				_, err = tx.Exec(ctx, "delete from inv where id = 50")
				return err
			})
		},
		"SendBatch": func(ctx context.Context) error {
			b := &pgx.Batch{}
			b.Queue(update)
			b.Queue(update)
			return s.store.SendBatch(ctx, f, b)
		},
		"Exec": func(ctx context.Context) error { _, err := s.store.Exec(ctx, f, update); return err },
		"Repo": func(ctx context.Context) error {
			var v int
			return s.store.Repo().QueryRow(in(ctx), update+" returning v").Scan(&v)
		},
		"Guard": func(ctx context.Context) error {
			return pgx.BeginTxFunc(ctx, s.app, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				if err := postgres.Guard(ctx, tx, f); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, update)
				return err
			})
		},
		"GuardSQL": func(ctx context.Context) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := postgres.GuardSQL(ctx, tx, f); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, update); err != nil {
				return err
			}
			return tx.Commit()
		},
	}
}

func TestGuardedWorkNeedsNothingMoreOnAProtectedTable(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	f := s.fences["inv"]
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		for name, write := range s.writes(t, level, f) {
			if err := write(t.Context()); err != nil {
				t.Errorf("%s, %s: %v", name, level, err)
			}
		}
	}
	claimed(t, s.store, "inv", 6)
	for name, write := range s.writes(t, pgx.ReadCommitted, f) {
		if err := write(t.Context()); !errors.Is(err, fencedstore.ErrStale) {
			t.Errorf("stale %s: %v", name, err)
		}
	}
}

func TestSeveralGuardsAtOnceServeProtectedTables(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	fs := []fencedstore.Fence{s.fences["tenant/a"], s.fences["inv"], s.fences["child"]}
	b := &pgx.Batch{}
	b.Queue("update inv set v = 1")
	b.Queue("update tenanted set v = 1 where tenant = 'a'")
	b.Queue("delete from parent where id = 1")
	if err := s.store.SendBatchMany(t.Context(), fs, b); err != nil {
		t.Errorf("SendBatchMany: %v", err)
	}
	err := s.store.InTxMany(t.Context(), fs, func(tx pgx.Tx) error {
		return errors.Join(
			postgres.GuardMany(t.Context(), tx, fs),
			execTx(t, tx, "update inv set v = 2"),
			execTx(t, tx, "insert into tenanted values (55, 'a')"))
	})
	if err != nil {
		t.Errorf("InTxMany: %v", err)
	}
	err = s.store.InTxMany(t.Context(), fs, func(tx pgx.Tx) error { return execTx(t, tx, "update part set v = 2") })
	if !errors.Is(err, fencedstore.ErrNoFence) {
		t.Errorf("a table of none of them: %v", err)
	}
}

func TestGuardOfAnotherResourceIsNoFence(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	for name, write := range s.writes(t, pgx.ReadCommitted, s.fences["child"]) {
		err := write(t.Context())
		var unfenced *postgres.UnfencedError
		if name == "Guard" || name == "GuardSQL" {
			if code(t, err) != "ZF004" { // the statement was the caller's own
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, fencedstore.ErrNoFence) || !errors.As(err, &unfenced) || unfenced.Resource != "inv" || code(t, err) != "ZF004" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Triggers that are the only guard still make a claim wait, and are refused
// after it: the shown fence is compared under the lock.
func TestTriggerIsAGuardByItself(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	f := s.fences["inv"]
	begin := func(tx pgx.Tx) error {
		return errors.Join(
			execTx(t, tx, s.set("inv", f.ID, f.Holder)),
			execTx(t, tx, "update inv set v = 7 where id = 1"))
	}
	done := make(chan error, 1)
	err := pgx.BeginFunc(t.Context(), s.app, func(tx pgx.Tx) error {
		err := begin(tx)
		go func() { done <- s.store.Claim(t.Context(), fence("inv", 6)) }()
		untilWaiting(t, s.admin)
		return err
	})
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		err := pgx.BeginTxFunc(t.Context(), s.app, pgx.TxOptions{IsoLevel: level}, begin)
		if code(t, err) != "ZF001" {
			t.Errorf("%s, after the claim: %v", level, err)
		}
	}
}

// A statement that waits for a claim inside the trigger has a snapshot from
// before it.
func TestTriggerThatWaitsForAClaimRefuses(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	f := s.fences["inv"]
	for level, want := range map[pgx.TxIsoLevel]string{pgx.ReadCommitted: "ZF001", pgx.RepeatableRead: "40001", pgx.Serializable: "40001"} {
		id := f.ID + 1
		done := make(chan error, 1)
		err := pgx.BeginFunc(t.Context(), s.admin, func(tx pgx.Tx) error {
			err := execTx(t, tx, "select fencedstore.claim('inv', "+strconv.FormatInt(id, 10)+", 'x', 10000)")
			go func() {
				done <- pgx.BeginTxFunc(t.Context(), s.app, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
					return errors.Join(
						execTx(t, tx, s.set("inv", f.ID, f.Holder)),
						execTx(t, tx, "update inv set v = 7 where id = 1"))
				})
			}()
			untilWaiting(t, s.admin)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; code(t, err) != want {
			t.Errorf("%s: got %v, want %s", level, err, want)
		}
		f = claimed(t, s.store, "inv", id+1)
	}
}

func execTx(tb testing.TB, tx pgx.Tx, query string) error {
	tb.Helper()
	_, err := tx.Exec(tb.Context(), query)
	return err
}
