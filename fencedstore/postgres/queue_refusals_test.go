package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

func TestQueueTellsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	q, pool := setUpQueue(t, 1)
	j := taken(t, q, time.Hour)
	future, gone := j, j
	future.Attempt, gone.ID = 7, 99
	for want, j := range map[error]postgres.Job{fencedstore.ErrNotClaimed: future, fencedstore.ErrNotFound: gone} {
		if err := q.Finish(t.Context(), j, never(t)); !errors.Is(err, want) {
			t.Errorf("finish: got %v, want %v", err, want)
		}
		if err := q.Postpone(t.Context(), j, 0); !errors.Is(err, want) {
			t.Errorf("postpone: got %v, want %v", err, want)
		}
	}
	if _, err := q.Take(t.Context(), 0, time.Hour); !isOption(err, "n") {
		t.Errorf("none: %v", err)
	}
	if _, err := q.Take(t.Context(), 1, 0); !isOption(err, "lease") {
		t.Errorf("no lease: %v", err)
	}
	if err := q.Postpone(t.Context(), j, -1); !isOption(err, "d") {
		t.Errorf("into the past: %v", err)
	}
	other, err := postgres.NewQueue(pool, pgx.Identifier{"kv"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Take(t.Context(), 1, time.Hour); !isCode(err, "42703") || errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("another table: %v, want undefined column", err)
	}
}

func isOption(err error, name string) bool {
	var option *postgres.OptionError
	return errors.As(err, &option) && option.Name == name && strings.HasPrefix(err.Error(), "postgres: ")
}

func TestNewQueueRefusesBadArguments(t *testing.T) {
	t.Parallel()
	table := pgx.Identifier{"jobs"}
	_, noDB := postgres.NewQueue(nil, table, nil)
	_, noTable := postgres.NewQueue(unused{t}, nil, nil)
	_, empty := postgres.NewQueue(unused{t}, pgx.Identifier{"public", ""}, nil)
	_, negative := postgres.NewQueue(unused{t}, table, &postgres.QueueOptions{MaxAttempts: -1})
	for name, err := range map[string]error{"db": noDB, "table": errors.Join(noTable, empty), "MaxAttempts": negative} {
		if !isOption(err, name) && name != "table" || err == nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCallback)
	q := newQueue(t, unused{t}, nil)
	_, err := q.Take(ctx, 1, time.Hour)
	for name, err := range map[string]error{"take": err, "finish": q.Finish(ctx, postgres.Job{}, nil), "postpone": q.Postpone(ctx, postgres.Job{}, 0)} {
		if !errors.Is(err, errCallback) {
			t.Errorf("%s with an ended context: %v", name, err)
		}
	}
}
