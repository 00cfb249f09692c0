package fenced_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/internal/faults"
)

// faultWorkerEnv makes this test binary a worker of the fault suite, with a
// faultSetup as JSON.
const faultWorkerEnv = "FENCED_TEST_FAULT_WORKER"

// faultTTL is short, so that faults outlast it.
const faultTTL = 400 * time.Millisecond

// What one thing may take before its worker goes on to another.
const (
	acquireWithin = 3 * time.Second
	writeWithin   = 2 * time.Second // one attempt
	settleWithin  = 6 * time.Second // all of them
)

// faultSetup is what a worker of the fault suite works with.
type faultSetup struct {
	Name string
	Seed uint64
	// Redis are addresses; Master is the name that sentinels at them know.
	Redis   []string
	Master  string
	Cluster bool
	// Postgres is a URL; without it S3 is the store.
	Postgres  string
	S3        s3Setup
	Resources []string
}

// faultWorker acquires, reads and writes until it is told to stop, and says what
// it does and what it is told.
type faultWorker struct {
	faultSetup
	locker *fencedlock.Locker
	store  register
	out    sync.Mutex
	ops    atomic.Int64
	values atomic.Int64
}

// register is one value per resource, at a store that checks fences.
type register interface {
	fencedstore.Claimer
	read(ctx context.Context, f fencedstore.Fence) (string, error)
	// write replaces saw by value. repeated says that an earlier attempt may have
	// done so already.
	write(ctx context.Context, f fencedstore.Fence, saw, value string, repeated bool) error
}

// runFaultWorker is main of a worker process. It ends when its input does.
func runFaultWorker(spec string) {
	w := &faultWorker{}
	if err := json.Unmarshal([]byte(spec), &w.faultSetup); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := w.open(ctx); err != nil {
		if ctx.Err() == nil {
			panic(err)
		}
		return
	}
	var loops sync.WaitGroup
	for i := range 2 { // they share a Locker, so that turns are passed on
		hash := fnv.New64a()
		_, _ = fmt.Fprint(hash, w.Name, i)
		r := rand.New(rand.NewPCG(w.Seed, hash.Sum64()))
		loops.Go(func() {
			for ctx.Err() == nil {
				w.tenure(ctx, r)
			}
		})
	}
	loops.Wait()
}

// open makes the clients. A store that must be asked first may be down.
func (w *faultWorker) open(ctx context.Context) (err error) {
	for {
		if w.Postgres != "" {
			w.store, err = newPostgresRegister(ctx, w.Postgres)
		} else {
			w.store, err = newS3Register(ctx, w.S3)
		}
		if err == nil || !pause(ctx) {
			break
		}
	}
	if err != nil {
		return err
	}
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: w.Redis, MasterName: w.Master, IsClusterMode: w.Cluster,
		DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
	})
	w.locker, err = fencedlock.New(rdb, &fencedlock.Options{
		TTL: faultTTL, Label: w.Name, Stores: []fencedstore.Claimer{w.store},
	})
	return err
}

// begin records that an operation begins; end, that it has ended.
func (w *faultWorker) begin(o faults.Op) *faults.Op {
	o.Who, o.ID = w.Name, int(w.ops.Add(1))
	o.Began = time.Now()
	w.tell(&o)
	return &o
}

func (w *faultWorker) end(o *faults.Op, err error) {
	o.Ended, o.Result = time.Now(), resultOf(err)
	if err != nil {
		o.Err = err.Error()
	}
	w.tell(o)
}

// tell writes one line in one call, so that a kill leaves whole lines.
func (w *faultWorker) tell(o *faults.Op) {
	line, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	w.out.Lock()
	defer w.out.Unlock()
	_, _ = os.Stdout.Write(append(line, '\n'))
}

// resultOf is what an error of a store or of the lock says by its contract.
func resultOf(err error) faults.Result {
	switch {
	case err == nil:
		return faults.Done
	case errors.Is(err, fencedstore.ErrUnknownOutcome):
		return faults.Unknown
	case errors.Is(err, fencedstore.ErrStale), errors.Is(err, fencedstore.ErrFenceReused), errors.Is(err, fencedstore.ErrNotClaimed):
		return faults.Refused
	default:
		return faults.Failed
	}
}

// digest stands for a holder, which is a secret.
func digest(holder string) string {
	sum := sha256.Sum256([]byte(holder))
	return fmt.Sprintf("%x", sum[:4])
}

// tenure is one acquisition.
func (w *faultWorker) tenure(ctx context.Context, r *rand.Rand) {
	o := w.begin(faults.Op{Kind: faults.Acquire, Resource: w.Resources[r.IntN(len(w.Resources))]})
	within, cancel := context.WithTimeout(ctx, acquireWithin)
	defer cancel()
	lock, err := w.locker.Acquire(within, o.Resource, nil)
	if err == nil {
		o.Fence, o.Holder = lock.Fence().ID, digest(lock.Fence().Holder)
	}
	w.end(o, err)
	if err != nil {
		pause(ctx)
		return
	}
	release := func() {
		o := w.begin(faults.Op{Kind: faults.Release, Resource: o.Resource, Fence: o.Fence, Holder: o.Holder})
		w.end(o, lock.Release(ctx))
	}
	work, stop := lock.Context(context.WithoutCancel(ctx))
	defer stop()
	switch r.IntN(4) {
	case 0: // it ends with its lock
	case 1: // it goes on, and the store still knows when the lease ends
		work = context.WithoutCancel(work)
	default: // the store knows nothing but the fence
		work = context.WithoutCancel(ctx)
	}
	if r.IntN(2) == 0 {
		w.work(work, r, lock.Fence())
		release()
		return
	}
	// The lock goes while the work goes on, as it does for a holder that does not
	// know what has become of it.
	var gone sync.WaitGroup
	after := time.Duration(r.Int64N(int64(faultTTL / 4)))
	gone.Go(func() {
		rest(ctx, after)
		release()
	})
	w.work(work, r, lock.Fence())
	gone.Wait()
}

// work reads, and then writes a few times. It ends at the first error.
func (w *faultWorker) work(ctx context.Context, r *rand.Rand, f fencedstore.Fence) {
	of := faults.Op{Resource: f.Resource, Fence: f.ID, Holder: digest(f.Holder)}
	of.Kind = faults.Read
	o := w.begin(of)
	within, cancel := context.WithTimeout(ctx, writeWithin)
	saw, err := w.store.read(within, f)
	cancel()
	o.Value = saw
	w.end(o, err)
	for n := 1 + r.IntN(3); n > 0 && err == nil; n-- {
		if r.IntN(2) == 0 && !rest(ctx, time.Duration(r.Int64N(int64(faultTTL/4)))) {
			return
		}
		of.Kind, of.Saw, of.Value = faults.Write, saw, fmt.Sprint(w.Name, "/", w.values.Add(1))
		o := w.begin(of)
		err = w.write(ctx, f, o)
		w.end(o, err)
		saw = o.Value
	}
}

// write repeats a write whose outcome is unknown, with the same fence. What a
// later attempt says about itself says nothing about the first.
func (w *faultWorker) write(ctx context.Context, f fencedstore.Fence, o *faults.Op) error {
	giveUp := time.Now().Add(settleWithin)
	for unknown := false; ; {
		within, cancel := context.WithTimeout(ctx, writeWithin)
		err := w.store.write(within, f, o.Saw, o.Value, unknown)
		cancel()
		result := resultOf(err)
		if result == faults.Done || result != faults.Unknown && !unknown {
			return err
		}
		unknown = true
		if result == faults.Refused || time.Now().After(giveUp) || !pause(ctx) {
			return &fencedstore.UnknownOutcomeError{Op: "write", Fence: f, Err: err}
		}
	}
}

// rest waits for d, and reports false when ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
