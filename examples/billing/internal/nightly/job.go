package nightly

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenced-go/fenced/examples/billing/internal/ledger"
	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
)

// Locks is what the job needs of a [fencedlock.Locker].
type Locks interface {
	Do(ctx context.Context, resource string, opts *fencedlock.AcquireOptions, fn func(ctx context.Context, f fencedstore.Fence) error) error
}

// Ledger is where accounts and invoices are kept. It takes the fence from the
// context and refuses one that is not the newest.
type Ledger interface {
	// Unbilled lists the accounts that have no invoice for night.
	Unbilled(ctx context.Context, night time.Time) ([]int64, error)
	// Account reads one account.
	Account(ctx context.Context, id int64) (ledger.Account, error)
	// Bill adds an invoice and sets the account's balance, both or neither.
	Bill(ctx context.Context, inv ledger.Invoice, balance int64) error
}

// Job is the nightly billing. It may be run again at any time: it goes on with
// what is not billed yet.
type Job struct {
	Locks  Locks
	Ledger Ledger
	// Price is what an account owes for its usage, in cents.
	Price func(ctx context.Context, a ledger.Account) (int64, error)
	// Observe is told of every step, by the goroutine that takes it.
	Observe func(Event)
}

// writeTimeout bounds the write of one account, which ctx does not.
const writeTimeout = 10 * time.Second

// Resource is what the lock protects: the invoices of one night, and the
// balances that they change.
func Resource(night time.Time) string {
	return "examples/billing/" + night.Format(time.DateOnly)
}

// Run waits for the lock and bills all accounts that have no invoice for night.
// It ends early, with the account at hand finished, when ctx ends or when the
// lock is lost.
func (j *Job) Run(ctx context.Context, night time.Time) error {
	step := Event{Kind: Waiting}
	j.Observe(step)
	err := j.Locks.Do(ctx, Resource(night), nil, func(ctx context.Context, f fencedstore.Fence) error {
		step.Kind, step.Fence = Acquired, f.ID
		j.Observe(step)
		return j.billAll(ctx, night, &step)
	})
	switch {
	case err == nil:
		step.Kind, step.Account = Finished, 0
	case errors.Is(err, fencedstore.ErrStale), errors.Is(err, fencedstore.ErrFenceReused):
		step.Kind, step.Err = Refused, err.Error()
	default:
		step.Kind, step.Err = Failed, err.Error()
	}
	j.Observe(step)
	return err
}

func (j *Job) billAll(ctx context.Context, night time.Time, step *Event) error {
	accounts, err := j.Ledger.Unbilled(ctx, night)
	if err != nil {
		return err
	}
	for _, step.Account = range accounts {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := j.bill(ctx, night, step.Account); err != nil {
			return fmt.Errorf("account %d: %w", step.Account, err)
		}
		step.Billed++
	}
	return nil
}

func (j *Job) bill(ctx context.Context, night time.Time, account int64) error {
	a, err := j.Ledger.Account(ctx, account)
	if err != nil {
		return err
	}
	amount, err := j.Price(ctx, a)
	if err != nil {
		return err
	}
	// A write that begins is carried through even if ctx ends meanwhile, so
	// that a shutdown leaves no outcome unknown. Whether this worker may still
	// write is for the ledger to say, not for the worker's own clock.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	return j.Ledger.Bill(ctx, ledger.Invoice{AccountID: account, Night: night, Amount: amount}, a.Balance+amount)
}
