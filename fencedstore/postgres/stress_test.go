package postgres_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

const (
	stressHolders = 12
	stressLease   = 15 * time.Millisecond
	stressPause   = 80 * time.Millisecond // more than five leases
)

var stressResources = []string{"north", "south"}

// stressTime is how long each cell runs; FENCED_TEST_SOAK lengthens it.
func stressTime(tb testing.TB) time.Duration {
	tb.Helper()
	soak := os.Getenv("FENCED_TEST_SOAK")
	if soak == "" {
		return 3 * time.Second
	}
	d, err := time.ParseDuration(soak)
	if err != nil {
		tb.Fatalf("FENCED_TEST_SOAK: %v", err)
	}
	return d
}

// Holders with a lease far shorter than their pauses work as if nothing had
// happened. In the order of commits that the server itself reports, no older
// holder may follow a newer one, and nobody may overwrite what it has not seen.
func TestPausedHoldersCannotHarm(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]design{"early guard": earlyGuard, "late guard": lateGuard} {
		for _, level := range levels {
			t.Run(name+", "+string(level), func(t *testing.T) {
				t.Parallel()
				got := stress(t, level, &toyLock{}, stressTime(t), d)
				if got.order != 0 || got.reuse != 0 || got.lost != 0 {
					t.Errorf("the store let harm through: %v", got)
				}
			})
		}
	}
}

// The same holders with a check that is not part of the write: the oracle must
// see the harm that it is there to see.
func TestCheckBeforeTheWriteLetsHarmThrough(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			got := stress(t, level, &toyLock{}, 2*time.Second, checkBefore)
			if got.order == 0 {
				t.Errorf("the oracle saw nothing: %v", got)
			}
		})
	}
}

// A lock service that forgets hands the same fence out twice.
func TestRepeatedFencesAreToldApart(t *testing.T) {
	t.Parallel()
	t.Run("fenced", func(t *testing.T) {
		t.Parallel()
		got := stress(t, pgx.ReadCommitted, &toyLock{repeats: true}, stressTime(t), earlyGuard)
		if got.order != 0 || got.reuse != 0 || got.lost != 0 {
			t.Errorf("the store let harm through: %v", got)
		}
	})
	t.Run("ID alone", func(t *testing.T) {
		t.Parallel()
		got := stress(t, pgx.ReadCommitted, &toyLock{repeats: true}, 2*time.Second, checkBefore)
		if got.reuse == 0 {
			t.Errorf("the oracle saw nothing: %v", got)
		}
	})
}

// work is one way to guard what a holder does.
type work interface {
	claim(ctx context.Context, f fencedstore.Fence) error
	// read returns the resource's value.
	read(ctx context.Context, f fencedstore.Fence) (int64, error)
	// write replaces it; saw is what the holder believes it to be.
	write(ctx context.Context, f fencedstore.Fence, saw, wrote int64) error
}

// design makes a kind of work. rate is how many writes a second are enough in a
// soak: the guarded cells of one of a minute make 20 000 together.
type design struct {
	work func(testing.TB, *pgxpool.Pool) work
	rate float64
}

var (
	earlyGuard  = design{newFencedWork, 80}
	lateGuard   = design{newLateWork, 25} // work that is refused has held row locks
	checkBefore = design{newNaiveWork, 25}
)

// least is how many writes a cell of that length makes at the least. A short one
// shows little, and must not fail on a busy machine.
func (d design) least(length time.Duration) int64 {
	return 50 + int64(d.rate*max(0, length.Seconds()-10))
}

type cell struct {
	pool    *pgxpool.Pool
	lock    *toyLock
	work    work
	least   int64        // writes
	values  atomic.Int64 // every value is written once
	writes  atomic.Int64
	refused atomic.Int64
}

// enough says that the cell shows something: on a busy machine that may take
// longer than planned.
func (c *cell) enough() bool { return c.writes.Load() >= c.least && c.refused.Load() >= 10 }

func stress(t *testing.T, level pgx.TxIsoLevel, lock *toyLock, d time.Duration, how design) verdict {
	t.Helper()
	pool := openPool(t, database(t), maxConns(stressHolders+4), setting("default_transaction_isolation", string(level)))
	run(t, pool, `create table stock (resource text primary key, value bigint not null);
		insert into stock values ('north', 0), ('south', 0);
		create table journal (resource text, fence_id bigint, holder text, saw bigint, wrote bigint);
		create table naive (resource text primary key, fence_id bigint)`)
	slot := newSlot(t, pool)
	c := &cell{pool: pool, lock: lock, work: how.work(t, pool), least: how.least(d)}
	ctx, cancel := context.WithCancel(t.Context())
	var holders sync.WaitGroup
	for range stressHolders {
		holders.Go(func() {
			for ctx.Err() == nil {
				c.tenure(ctx)
			}
		})
	}
	pause(ctx, d)
	testenv.Eventually(t, within+5*d, "enough has happened", c.enough)
	cancel()
	holders.Wait()
	got := slot.judge(t)
	got.refused = int(c.refused.Load())
	t.Log(got)
	return got
}

// tenure is one acquisition: claim, read, and a few writes, with pauses
// anywhere. It ends at the first error.
func (c *cell) tenure(ctx context.Context) {
	resource := stressResources[rand.IntN(len(stressResources))]
	f, ok := c.lock.acquire(resource)
	if !ok {
		pause(ctx, stressLease/5)
		return
	}
	defer c.lock.release(f)
	if c.failed(c.work.claim(ctx, f)) {
		return
	}
	sometimesPause(ctx)
	saw, err := c.work.read(ctx, f)
	if c.failed(err) {
		return
	}
	for range 1 + rand.IntN(3) {
		sometimesPause(ctx)
		wrote := c.values.Add(1)
		if c.failed(c.work.write(ctx, f, saw, wrote)) {
			return
		}
		c.writes.Add(1)
		saw = wrote // the holder remembers, and does not read again
	}
}

func (c *cell) failed(err error) bool {
	if errors.Is(err, fencedstore.ErrStale) || errors.Is(err, fencedstore.ErrFenceReused) || errors.Is(err, errNaiveStale) {
		c.refused.Add(1)
	}
	return err != nil
}

func sometimesPause(ctx context.Context) {
	switch rand.IntN(6) {
	case 0:
		pause(ctx, time.Duration(rand.Int64N(int64(stressPause))))
	case 1, 2:
		pause(ctx, time.Duration(rand.Int64N(int64(stressLease))))
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

const (
	readSQL    = "select value from stock where resource = $1"
	writeSQL   = "update stock set value = $2 where resource = $1"
	journalSQL = "insert into journal values ($1, $2::bigint, $3, $4::bigint, $5::bigint)"
)

// fencedWork goes through the Store, each time by another method.
type fencedWork struct{ s *postgres.Store }

func newFencedWork(tb testing.TB, pool *pgxpool.Pool) work {
	tb.Helper()
	return fencedWork{newStore(tb, pool, nil)}
}

func (w fencedWork) claim(ctx context.Context, f fencedstore.Fence) error { return w.s.Claim(ctx, f) }

func (w fencedWork) read(ctx context.Context, f fencedstore.Fence) (value int64, err error) {
	if rand.IntN(2) == 0 {
		err = w.s.Repo().QueryRow(fencedstore.NewContext(ctx, f), readSQL, f.Resource).Scan(&value)
		return value, err
	}
	err = w.s.InTx(ctx, f, func(tx pgx.Tx) error {
		sometimesPause(ctx)
		return tx.QueryRow(ctx, readSQL, f.Resource).Scan(&value)
	})
	return value, err
}

func (w fencedWork) write(ctx context.Context, f fencedstore.Fence, saw, wrote int64) error {
	b := &pgx.Batch{}
	b.Queue(writeSQL, f.Resource, wrote)
	b.Queue(journalSQL, f.Resource, f.ID, f.Holder, saw, wrote)
	if rand.IntN(2) == 0 {
		return w.s.SendBatch(ctx, f, b)
	}
	return w.s.InTx(ctx, f, func(tx pgx.Tx) error {
		sometimesPause(ctx)
		err := tx.SendBatch(ctx, b).Close()
		sometimesPause(ctx)
		return err
	})
}
