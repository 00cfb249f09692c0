package fencedlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedlock/locktest"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
)

// demo returns a client of a Redis in this process. Programs connect to theirs.
func demo() (rdb *redis.Client, stop func()) {
	server, err := locktest.NewServer()
	if err != nil {
		panic(err)
	}
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
	return rdb, func() {
		_ = rdb.Close()
		server.Close()
	}
}

func Example() {
	rdb, stop := demo()
	defer stop()
	store := memstore.New()
	locker, err := fencedlock.New(rdb, &fencedlock.Options{Stores: []fencedstore.Claimer{store}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()

	ctx := context.Background()
	err = locker.Do(ctx, "invoices", nil, func(ctx context.Context, f fencedstore.Fence) error {
		return store.Write(ctx, f, "invoice 1", []byte("70.00"))
	})
	amount, readErr := store.Read(ctx, "invoice 1")
	fmt.Println(string(amount), err, readErr)
	// Output: 70.00 <nil> <nil>
}

func ExampleLocker_TryAcquire() {
	rdb, stop := demo()
	defer stop()
	locker, err := fencedlock.New(rdb, &fencedlock.Options{Label: "host a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()
	ctx := context.Background()

	lock, err := locker.Acquire(ctx, "report", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = locker.TryAcquire(ctx, "report", nil)
	if held, ok := errors.AsType[*fencedlock.HeldError](err); ok {
		fmt.Println("held by", held.Label)
	}
	fmt.Println(lock.Release(ctx))
	// Output:
	// held by host a
	// <nil>
}

// The work under a lock should end when the lock does.
func ExampleLock_Context() {
	rdb, stop := demo()
	defer stop()
	locker, err := fencedlock.New(rdb, &fencedlock.Options{TTL: time.Second, MaxHold: 50 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()
	lock, err := locker.Acquire(context.Background(), "report", nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := lock.Context(context.Background())
	defer cancel()
	<-ctx.Done()
	if lost, ok := errors.AsType[*fencedlock.LostError](context.Cause(ctx)); ok {
		fmt.Println("stop:", lost.Reason)
	}
	fmt.Println("lost:", errors.Is(lock.Release(ctx), fencedlock.ErrLost))
	// Output:
	// stop: held for the longest time allowed
	// lost: true
}

// A stale holder is refused by the store even if it does not look at anything.
func ExampleLocker_Do() {
	rdb, stop := demo()
	defer stop()
	store := memstore.New()
	locker, err := fencedlock.New(rdb, &fencedlock.Options{Stores: []fencedstore.Claimer{store}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()
	ctx := context.Background()

	err = locker.Do(ctx, "account", nil, func(_ context.Context, old fencedstore.Fence) error {
		// Redis loses its data while we are paused, and another takes over.
		rdb.FlushAll(ctx)
		err := locker.Do(ctx, "account", nil, func(ctx context.Context, f fencedstore.Fence) error {
			return store.Write(ctx, f, "balance", []byte("70"))
		})
		if err != nil {
			return err
		}
		return store.Write(ctx, old, "balance", []byte("90"))
	})
	balance, _ := store.Read(ctx, "balance")
	fmt.Println(string(balance), errors.Is(err, fencedstore.ErrStale), errors.Is(err, fencedlock.ErrLost))
	// Output: 70 true true
}
