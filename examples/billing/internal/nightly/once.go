package nightly

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/examples/billing/internal/ledger"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

// Once is the nightly billing without a lock: all of a night is one transaction,
// which exactly one worker commits.
type Once struct {
	DB *pgxpool.Pool
	// Price and Observe are those of [Job].
	Price   func(ctx context.Context, a ledger.Account) (int64, error)
	Observe func(Event)
}

// Run bills the night unless somebody has, or is at it and succeeds.
func (o *Once) Run(ctx context.Context, night time.Time) error {
	step := Event{Kind: Asked}
	o.Observe(step)
	ran, err := fencedpg.RunOnce(ctx, o.DB, Resource(night), func(tx pgx.Tx) error {
		step.Kind = Began
		o.Observe(step)
		j := &Job{Ledger: ledger.NewWithin(tx), Price: o.Price}
		return j.billAll(ctx, night, &step)
	})
	switch {
	case err == nil:
		step.Kind, step.Account = Finished, 0
		if !ran {
			step.Billed = 0
		}
	case paused(err):
		step.Kind, step.Err = Refused, "the server ended its transaction"
	default:
		step.Kind, step.Err = Failed, err.Error()
	}
	o.Observe(step)
	return err
}

// paused says that the server ended a transaction that was idle for too long: the
// worker was paused in it. A connection that finds itself closed is told no more.
func paused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "25P03" || errors.Is(err, pgx.ErrTxClosed) || pgconn.SafeToRetry(err)
}
