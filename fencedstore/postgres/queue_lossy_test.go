package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
)

func TestFinishWhoseAnswerIsLostIsUnknownAndIsNotDoneTwice(t *testing.T) {
	t.Parallel()
	_, pool := setUpQueue(t, 1)
	k := openLossy(t, variant{mode: pgx.QueryExecModeExec, write: writeExec}, pool.Config().ConnString())
	q := newQueue(t, k.pool, nil)
	j := taken(t, q, time.Hour)
	finish := func() error {
		return q.Finish(t.Context(), j, func(tx pgx.Tx) error {
			err := count(t.Context(), tx, j)
			k.losing()
			return err
		})
	}
	var unknown *fencedstore.UnknownOutcomeError
	if err := finish(); !errors.As(err, &unknown) || unknown.Op != "finish" || unknown.Fence.Resource != "jobs/1" {
		t.Fatalf("got %v, want an unknown outcome", err)
	}
	if err := finish(); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, most, done := runs(t, pool); most != 1 || done != 1 {
		t.Errorf("the work was done %d times, %d finished", most, done)
	}
}

func TestTakeWhoseAnswerIsLostIsUnknownAndTheJobComesAgain(t *testing.T) {
	t.Parallel()
	_, pool := setUpQueue(t, 1)
	k := openLossy(t, variant{mode: pgx.QueryExecModeExec, write: writeExec}, pool.Config().ConnString())
	q := newQueue(t, k.pool, nil)
	if _, err := q.Take(t.Context(), 1, time.Hour); err != nil { // the connection learns the statement
		t.Fatal(err)
	}
	run(t, pool, "update jobs set due = now()")
	k.losing()
	if jobs, err := q.Take(t.Context(), 1, time.Millisecond); !errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Fatalf("got %v, %v, want an unknown outcome", jobs, err)
	}
	if j := taken(t, q, time.Hour); j.Attempt != 3 {
		t.Errorf("taken again as %v, want the third attempt", j)
	}
}

// Nothing of the schema is needed, only the table.
func TestRightsOfAQueue(t *testing.T) {
	t.Parallel()
	_, admin := setUpQueue(t, 1)
	pool := appRole(t, admin, "worker")
	q := newQueue(t, pool, nil)
	if _, err := q.Take(t.Context(), 1, time.Hour); !isCode(err, "42501") {
		t.Errorf("without rights: %v", err)
	}
	run(t, admin, "grant select, update on jobs to "+pgx.Identifier{pool.Config().ConnConfig.User}.Sanitize())
	j := taken(t, q, time.Hour)
	for _, err := range []error{
		q.Postpone(t.Context(), j, time.Hour),
		q.Finish(t.Context(), j, func(tx pgx.Tx) error { return count(t.Context(), tx, j) }),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}
