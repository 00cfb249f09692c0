package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// workerEnv makes this program a worker: one process of those that contend.
const workerEnv = "FENCED_BENCH_WORKER"

// order is one thing that a worker is to do.
type order struct {
	// Op is ping, loop, drain or hold.
	Op string
	// Lock is whose, Addr that of the server.
	Lock, Addr string
	// Name is what is locked; hold appends a number to it.
	Name string
	// Waiters is how many goroutines want it, or how many locks are to be held.
	Waiters int
	// For is how long to loop or to hold.
	For time.Duration
}

// tenure is one that a worker had; its times are by the clock of the machine.
type tenure struct {
	Waiter              int
	Fence               int64
	Asked, From, To, At int64 // At is when the release had returned
}

// report is what became of an order.
type report struct {
	Err      string
	Ready    bool // an order has begun: everybody waits
	Tenures  []tenure
	Commands int64
	RTT      time.Duration
	Held     heldReport
}

// hold is how long a tenure lasts: long beside a round trip, short beside a poll.
const hold = time.Millisecond

// work is the whole life of a worker.
func work(in io.Reader, out io.Writer) error {
	orders, reports := json.NewDecoder(in), json.NewEncoder(out)
	w := &worker{reports: reports}
	defer w.drop()
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		r, err := w.obey(context.Background(), o)
		if err != nil {
			r.Err = err.Error()
		}
		if err := reports.Encode(r); err != nil {
			return err
		}
	}
}

type worker struct {
	reports *json.Encoder
	lock    string
	wire    *wire
	is      contender
}

func (w *worker) obey(ctx context.Context, o order) (report, error) {
	switch o.Op {
	case "ping":
		return ping(ctx, o)
	case "hold":
		return holdMany(ctx, o)
	}
	if w.lock != o.Lock {
		w.drop()
		w.wire = &wire{}
		is, err := contend(o.Lock, o.Addr, w.wire)
		if err != nil {
			return report{}, err
		}
		w.lock, w.is = o.Lock, is
	}
	if o.Op == "drain" {
		if err := w.reports.Encode(report{Ready: true}); err != nil {
			return report{}, err
		}
	}
	return w.compete(ctx, o)
}

func (w *worker) drop() {
	if w.is.close != nil {
		w.is.close()
	}
}

// stuckAfter is when a wait has failed.
const stuckAfter = 30 * time.Second

// compete has all waiters take the lock once, or again and again for some time.
func (w *worker) compete(ctx context.Context, o order) (report, error) {
	ctx, cancel := context.WithTimeout(ctx, o.For+stuckAfter)
	defer cancel()
	end := time.Now().Add(o.For)
	before := w.wire.sent.Load()
	lists, errs := make([][]tenure, o.Waiters), make([]error, o.Waiters)
	var wg sync.WaitGroup
	for i := range lists {
		wg.Go(func() {
			for again := true; again && errs[i] == nil; again = time.Now().Before(end) {
				var t tenure
				t, errs[i] = w.tenure(ctx, o.Name)
				t.Waiter = i
				lists[i] = append(lists[i], t)
			}
		})
	}
	wg.Wait()
	return report{Tenures: slices.Concat(lists...), Commands: w.wire.sent.Load() - before}, errors.Join(errs...)
}

func (w *worker) tenure(ctx context.Context, name string) (tenure, error) {
	t := tenure{Asked: time.Now().UnixNano()}
	fence, release, err := w.is.acquire(ctx, name)
	if err != nil {
		return t, err
	}
	t.Fence, t.From = fence, time.Now().UnixNano()
	<-time.After(hold)
	t.To = time.Now().UnixNano()
	err = release(ctx)
	t.At = time.Now().UnixNano()
	return t, err
}

// ping measures a round trip as one who waits has it: after a rest.
func ping(ctx context.Context, o order) (report, error) {
	rdb := redis.NewClient(&redis.Options{Addr: o.Addr})
	defer func() { _ = rdb.Close() }()
	var took []time.Duration
	for range 200 {
		<-time.After(hold)
		began := time.Now()
		if err := rdb.Ping(ctx).Err(); err != nil {
			return report{}, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return report{RTT: took[len(took)/2]}, nil
}

func isWorker() bool { return os.Getenv(workerEnv) != "" }
