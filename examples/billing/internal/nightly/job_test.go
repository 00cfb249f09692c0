package nightly_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fenced-go/fenced/examples/billing/internal/ledger"
	"github.com/fenced-go/fenced/examples/billing/internal/nightly"
	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedlock/locktest"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
)

var night = time.Date(1999, time.December, 31, 0, 0, 0, 0, time.UTC)

const accounts = 5

// setUp is a job over some accounts, and what it tells.
func setUp(t *testing.T) (job *nightly.Job, server *locktest.Server, steps *[]nightly.Event) {
	t.Helper()
	store := memstore.New()
	admin := fencedstore.Fence{Resource: "admin", ID: 1, Holder: fencedstore.NewHolder()}
	if err := store.Claim(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	books := ledger.NewMemory(store)
	if err := books.OpenAccounts(fencedstore.NewContext(t.Context(), admin), accounts); err != nil {
		t.Fatal(err)
	}
	server, steps = locktest.Start(t), new([]nightly.Event)
	return &nightly.Job{
		Locks:   server.Locker(t, &fencedlock.Options{Stores: []fencedstore.Claimer{store}}),
		Ledger:  books,
		Price:   func(_ context.Context, a ledger.Account) (int64, error) { return a.Usage, nil },
		Observe: func(e nightly.Event) { *steps = append(*steps, e) },
	}, server, steps
}

// told checks the kinds of steps and what the last one says.
func told(t *testing.T, steps []nightly.Event, billed int, want ...nightly.Kind) {
	t.Helper()
	var kinds []nightly.Kind
	for _, e := range steps {
		kinds = append(kinds, e.Kind)
	}
	if !slices.Equal(kinds, want) {
		t.Fatalf("it tells of %v, want %v", kinds, want)
	}
	if last := steps[len(steps)-1]; last.Billed != billed || last.Fence == 0 {
		t.Errorf("it ends with %+v, want a fence and %d billed", last, billed)
	}
}

func TestRunBillsWhatIsLeft(t *testing.T) {
	t.Parallel()
	job, server, steps := setUp(t)
	for _, left := range []int{accounts, 0} {
		*steps = nil
		if err := job.Run(t.Context(), night); err != nil {
			t.Fatal(err)
		}
		told(t, *steps, left, nightly.Waiting, nightly.Acquired, nightly.Finished)
	}
	if server.Held(nightly.Resource(night)) {
		t.Error("the lock is still held")
	}
}

func TestRunStopsWithTheAccountAtHandBilled(t *testing.T) {
	t.Parallel()
	job, server, steps := setUp(t)
	ctx, cancel := context.WithCancel(t.Context())
	price := job.Price
	job.Price = func(ctx context.Context, a ledger.Account) (int64, error) {
		if a.ID == 3 {
			cancel() // a shutdown between reading and writing
		}
		return price(ctx, a)
	}
	if err := job.Run(ctx, night); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	told(t, *steps, 3, nightly.Waiting, nightly.Acquired, nightly.Failed)
	if server.Held(nightly.Resource(night)) {
		t.Error("the lock is still held")
	}
	*steps = nil
	if err := job.Run(t.Context(), night); err != nil {
		t.Fatal(err)
	}
	told(t, *steps, accounts-3, nightly.Waiting, nightly.Acquired, nightly.Finished)
}

func TestRunIsRefusedAfterASuccessorClaimed(t *testing.T) {
	t.Parallel()
	job, server, steps := setUp(t)
	price := job.Price
	job.Price = func(ctx context.Context, a ledger.Account) (int64, error) {
		if a.ID == 2 {
			job.Price = price
			server.Expire(nightly.Resource(night)) // it stalled here, say
			if err := job.Run(ctx, night); err != nil {
				t.Errorf("the successor: %v", err)
			}
		}
		return price(ctx, a)
	}
	if err := job.Run(t.Context(), night); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("got %v, want ErrStale", err)
	}
	told(t, *steps, 1, nightly.Waiting, nightly.Acquired,
		nightly.Waiting, nightly.Acquired, nightly.Finished, nightly.Refused)
}
