package nightly

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/examples/billing/internal/ledger"
	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

// Queued is the nightly billing without a lock: each account is a job in a queue,
// and any number of workers take jobs from it.
type Queued struct {
	DB   *pgxpool.Pool
	Jobs *fencedpg.Queue
	// Lease is for how long a job is a worker's.
	Lease time.Duration
	// Price and Observe are those of [Job].
	Price   func(ctx context.Context, a ledger.Account) (int64, error)
	Observe func(Event)
}

// pollEvery is how often a worker looks for jobs that come back from others.
const pollEvery = 20 * time.Millisecond

// Run works until no job is left, or one of its attempts has been overtaken.
func (q *Queued) Run(ctx context.Context, night time.Time) error {
	step := Event{Kind: Takes}
	q.Observe(step)
	err := q.work(ctx, night, &step)
	switch {
	case err == nil:
		step = Event{Kind: Finished, Billed: step.Billed}
	case errors.Is(err, fencedstore.ErrStale):
		step.Kind, step.Err = Refused, err.Error()
	default:
		step.Kind, step.Err = Failed, err.Error()
	}
	q.Observe(step)
	return err
}

func (q *Queued) work(ctx context.Context, night time.Time, step *Event) error {
	for {
		jobs, err := q.Jobs.Take(ctx, 1, q.Lease)
		if err != nil {
			return err
		}
		for _, job := range jobs {
			step.Account, step.Fence = job.ID, job.Attempt
			if err := q.bill(ctx, night, job); err != nil {
				return fmt.Errorf("account %d: %w", job.ID, err)
			}
			step.Billed++
		}
		if len(jobs) > 0 {
			continue
		}
		left, err := ledger.New(q.DB).JobsLeft(ctx)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// bill reads and thinks for as long as the lease lasts, and writes in the
// transaction that finishes the job: an attempt that was overtaken writes nothing.
func (q *Queued) bill(ctx context.Context, night time.Time, job fencedpg.Job) error {
	a, err := ledger.New(q.DB).GetAccount(ctx, job.ID)
	if err != nil {
		return err
	}
	amount, err := q.Price(ctx, a)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	return q.Jobs.Finish(ctx, job, func(tx pgx.Tx) error {
		return ledger.NewWithin(tx).Bill(ctx, ledger.Invoice{AccountID: job.ID, Night: night, Amount: amount}, a.Balance+amount)
	})
}
