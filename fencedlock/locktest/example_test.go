package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedlock/locktest"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
)

// A program that needs no Redis to be installed.
func ExampleNewServer() {
	server, err := locktest.NewServer()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	locker, err := fencedlock.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()

	err = locker.Do(context.Background(), "invoices", nil, func(context.Context, fencedstore.Fence) error {
		fmt.Println("held:", server.Held("invoices"))
		return nil
	})
	fmt.Println("held:", server.Held("invoices"), err)
	// Output:
	// held: true
	// held: false <nil>
}

// test stands for the *testing.T of a test.
type test struct {
	testing.TB
	cleanups []func()
}

func (t *test) Helper()                  {}
func (t *test) Context() context.Context { return context.Background() }
func (t *test) Cleanup(f func())         { t.cleanups = append(t.cleanups, f) }
func (t *test) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }

// end is the end of the test.
func (t *test) end() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}

// work is what a job does under its lock.
func work(context.Context, fencedstore.Fence) error { return nil }

// Everything of a test ends with it: server, client and Locker.
func ExampleStart() {
	t := &test{}
	defer t.end()
	server := locktest.Start(t)
	locker := server.Locker(t, nil)
	fmt.Println(locker.Do(t.Context(), "invoices", nil, work))
	// Output: <nil>
}

// A Locker is one process of many: this is two of them.
func ExampleServer_Locker() {
	t := &test{}
	defer t.end()
	server := locktest.Start(t)
	a := server.Locker(t, &fencedlock.Options{Label: "host a"})
	b := server.Locker(t, &fencedlock.Options{Label: "host b"})
	if _, err := a.Acquire(t.Context(), "invoices", nil); err != nil {
		fmt.Println(err)
		return
	}
	_, err := b.TryAcquire(t.Context(), "invoices", nil)
	if held, ok := errors.AsType[*fencedlock.HeldError](err); ok {
		fmt.Println("held by", held.Label)
	}
	// Output: held by host a
}

func ExampleServer_Client() {
	t := &test{}
	defer t.end()
	rdb := locktest.Start(t).Client(t)
	fmt.Println(rdb.Ping(t.Context()).Val())
	// Output: PONG
}

func ExampleServer_Addr() {
	t := &test{}
	defer t.end()
	host, _, err := net.SplitHostPort(locktest.Start(t).Addr())
	fmt.Println(host, err)
	// Output: 127.0.0.1 <nil>
}

// A holder outlives a server that goes away for less than its lease.
func ExampleServer_Close() {
	t := &test{}
	defer t.end()
	server := locktest.Start(t)
	lock, err := server.Locker(t, nil).Acquire(t.Context(), "invoices", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	server.Close()
	fmt.Println(errors.Is(lock.Renew(t.Context()), fencedlock.ErrUnavailable), lock.Err())
	// Output: true <nil>
}

func ExampleServer_Held() {
	t := &test{}
	defer t.end()
	server := locktest.Start(t)
	lock, err := server.Locker(t, nil).Acquire(t.Context(), "invoices", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(server.Held("invoices"))
	fmt.Println(lock.Release(t.Context()), server.Held("invoices"))
	// Output:
	// true
	// <nil> false
}

// The lease of a holder that was paused for too long has run out.
func ExampleServer_Expire() {
	t := &test{}
	defer t.end()
	server := locktest.Start(t)
	lock, err := server.Locker(t, nil).Acquire(t.Context(), "invoices", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(server.Expire("invoices"))
	fmt.Println(errors.Is(lock.Renew(t.Context()), fencedlock.ErrLost))
	// Output:
	// true
	// true
}

// Another holder takes over in the middle of the work, and the store refuses the
// one that does not know it.
func ExampleServer_Steal() {
	t := &test{}
	defer t.end()
	server, store := locktest.Start(t), memstore.New()
	locker := server.Locker(t, &fencedlock.Options{Stores: []fencedstore.Claimer{store}})
	err := locker.Do(t.Context(), "invoices", nil, func(ctx context.Context, f fencedstore.Fence) error {
		successor := server.Steal(t, "invoices") //nolint:contextcheck // it is another's, and ends with the test
		if err := store.Claim(ctx, successor); err != nil {
			return err
		}
		return store.Write(ctx, f, "invoice/7", []byte("30"))
	})
	fmt.Println(errors.Is(err, fencedstore.ErrStale), errors.Is(err, fencedlock.ErrLost))
	// Output: true true
}

// Redis restarts without its data; fences rise all the same.
func ExampleServer_Wipe() {
	t := &test{}
	defer t.end()
	server := locktest.Start(t)
	locker := server.Locker(t, nil)
	lock, err := locker.Acquire(t.Context(), "invoices", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	server.Wipe()
	next, err := locker.Acquire(t.Context(), "invoices", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(next.Fence().ID > lock.Fence().ID)
	fmt.Println(errors.Is(lock.Release(t.Context()), fencedlock.ErrLost))
	// Output:
	// true
	// true
}
