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
	// Quorum says that Redis are independent servers.
	Quorum bool
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
	w.locker, err = w.newLocker(&fencedlock.Options{
		TTL: faultTTL, Label: w.Name, Stores: []fencedstore.Claimer{w.store},
	})
	return err
}

func (w *faultWorker) newLocker(opts *fencedlock.Options) (*fencedlock.Locker, error) {
	client := func(addrs []string) redis.UniversalClient {
		return redis.NewUniversalClient(&redis.UniversalOptions{
			Addrs: addrs, MasterName: w.Master, IsClusterMode: w.Cluster,
			DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
		})
	}
	if !w.Quorum {
		return fencedlock.New(client(w.Redis), opts)
	}
	var nodes []redis.UniversalClient
	for _, addr := range w.Redis {
		nodes = append(nodes, client([]string{addr}))
	}
	return fencedlock.NewQuorum(nodes, opts)
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
