package fenced_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
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
		if errors.Is(err, fencedstore.ErrUnknownOutcome) {
			fmt.Fprintln(os.Stderr, "unknown")
		}
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

// slowCommit makes a commit last longer than all before it, so that what hits a
// transaction usually hits its commit, where the outcome is unknown.
const slowCommit = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS " +
	"$$BEGIN PERFORM pg_sleep(0.03); RETURN NULL; END$$;" +
	"CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON entry DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()"

// countThroughRestarts has two workers count while Postgres is killed and started
// again, until both have happened: an unknown outcome of a commit that was
// undone, and one of a commit that was done and whose answer was lost.
func countThroughRestarts(t *testing.T, e env) {
	t.Helper()
	const each, rounds, apart = 80, 30, 5
	e.postgres.Do(t, e.db, slowCommit)
	var workers []*worker
	for _, name := range []string{"a", "b"} {
		w := e.worker(t, name, func(s *setup) { s.Postgres = e.postgres.URL(e.db) })
		w.tell(t, "count", each)
		workers = append(workers, w)
	}
	undone, lost := 0, 0
	for round := range rounds {
		before := e.count(t)
		testenv.Eventually(t, patience, "they count on", func() bool { return e.count(t) >= before+apart })
		unknown := unknowns(workers)
		if round%2 == 0 {
			e.killPostgres(t)
			undone += unknowns(workers) - unknown
		} else {
			e.loseAnswers(t)
			lost += unknowns(workers) - unknown
		}
		if undone > 0 && lost > 0 {
			break
		}
	}
	for _, w := range workers {
		if r := w.hear(t); r.Err != "" {
			t.Errorf("%s: %s", w.name, r.Err)
		}
	}
	e.counted(t, len(workers)*each)
	if undone == 0 || lost == 0 {
		t.Errorf("%d unknown outcomes that were undone and %d that were done: nothing is proven", undone, lost)
	}
}

// counted checks that nothing is missing and nothing is there twice.
func (e env) counted(t *testing.T, want int) {
	t.Helper()
	if got := e.count(t); got != want {
		t.Errorf("the counter is %d, want %d", got, want)
	}
	rows := e.postgres.Do(t, e.db, "SELECT count(*) FROM entry")
	if got, err := strconv.Atoi(rows[0][0]); err != nil || got != want {
		t.Errorf("there are %v entries, want %d", rows, want)
	}
}

// killPostgres kills and starts the server, and waits until somebody works again.
func (e env) killPostgres(t *testing.T) {
	t.Helper()
	e.postgres.Kill(t)
	e.postgres.Start(t)
	before := e.count(t)
	testenv.Eventually(t, patience, "they count again", func() bool { return e.count(t) > before })
}

// loseAnswers lets the server do what it was asked for, and kills it when it has
// and nobody knows.
func (e env) loseAnswers(t *testing.T) {
	t.Helper()
	e.postgres.Proxy.CutReplies()
	testenv.Eventually(t, patience, "Postgres has done what it was asked for", func() bool {
		return e.postgres.Do(t, e.db, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()")[0][0] == "0"
	})
	e.postgres.Proxy.Reset()
	e.postgres.Proxy.Heal()
	e.killPostgres(t)
}

// unknowns counts the unknown outcomes that workers have met.
func unknowns(workers []*worker) (n int) {
	for _, w := range workers {
		n += strings.Count(w.Output(), "unknown")
	}
	return n
}

func TestNothingIsLostOrDoubledWhenPostgresIsKilled(t *testing.T) {
	t.Parallel()
	countThroughRestarts(t, prepare(t, testenv.NewRedis(t), testenv.NewPostgres(t), "postgres"))
}
