package fenced_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/internal/testenv"
)

// count adds 1 to the counter n times, each time under a lock of its own. It
// goes on through outages.
func (h *holder) count(n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range n {
		op := fmt.Sprint(h.Name, "/", i)
		for {
			err := h.locker.Do(ctx, resource, nil, func(ctx context.Context, f fencedstore.Fence) error {
				return h.add(ctx, f, op)
			})
			if err == nil || isDuplicate(err) {
				break
			}
			if !pause(ctx) {
				return err
			}
		}
	}
	return nil
}

// add adds 1, once for every op. When the outcome is unknown it asks again with
// the same fence, and the database knows whether op was done.
func (h *holder) add(ctx context.Context, f fencedstore.Fence, op string) error {
	for {
		err := h.store.InTx(ctx, f, func(tx pgx.Tx) error {
			var n int
			if err := tx.QueryRow(ctx, "SELECT n FROM counter").Scan(&n); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO entry (op, fence_id) VALUES ($1, $2)", op, f.ID); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE counter SET n = $1", n+1)
			return err
		})
		if err == nil || isDuplicate(err) || errors.Is(err, fencedstore.ErrStale) || !pause(ctx) {
			return err
		}
	}
}

func isDuplicate(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "23505"
}

// pause gives a server time to come back; false when ctx ended.
func pause(ctx context.Context) bool {
	t := time.NewTimer(20 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// countThroughRestart has two workers count while Postgres is killed and started
// again, twice.
func countThroughRestart(t *testing.T, e env) {
	t.Helper()
	const each = 150
	a, b := e.worker(t, "a", nil), e.worker(t, "b", nil)
	a.tell(t, "count", each)
	b.tell(t, "count", each)
	for _, done := range []int{each / 4, each} { // half of what both do
		testenv.Eventually(t, patience, fmt.Sprint("they have counted to ", done), func() bool { return e.count(t) >= done })
		e.postgres.Kill(t)
		e.postgres.Start(t)
	}
	for _, w := range []*worker{a, b} {
		if r := w.hear(t); r.Err != "" {
			t.Errorf("%s: %s", w.name, r.Err)
		}
	}
	if got := e.count(t); got != 2*each {
		t.Errorf("the counter is %d, want %d", got, 2*each)
	}
	rows := e.postgres.Do(t, e.db, "SELECT count(*) FROM entry")
	if got, err := strconv.Atoi(rows[0][0]); err != nil || got != 2*each {
		t.Errorf("there are %v entries, want %d", rows, 2*each)
	}
}

func TestNothingIsLostOrDoubledWhenPostgresIsKilled(t *testing.T) {
	t.Parallel()
	countThroughRestart(t, prepare(t, testenv.NewRedis(t), testenv.NewPostgres(t), "postgres"))
}
