package fencedlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
)

// demoLock returns a lock on "report" in a Redis in this process.
func demoLock(opts *fencedlock.Options) (lock *fencedlock.Lock, rdb *redis.Client, stop func()) {
	rdb, stopRedis := demo()
	locker, err := fencedlock.New(rdb, opts)
	if err != nil {
		panic(err)
	}
	lock, err = locker.Acquire(context.Background(), "report", nil)
	if err != nil {
		panic(err)
	}
	return lock, rdb, func() {
		_ = locker.Close()
		stopRedis()
	}
}

// One Locker serves a whole program. Options that make no sense are refused.
func ExampleNew() {
	rdb, stop := demo()
	defer stop()
	locker, err := fencedlock.New(rdb, &fencedlock.Options{TTL: 10 * time.Second, Prefix: "app:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()
	fmt.Println(locker)
	_, err = fencedlock.New(rdb, &fencedlock.Options{TTL: time.Millisecond})
	fmt.Println(err)
	// Output:
	// locker of "app:"
	// fencedlock: Options.TTL is 1ms, it must be from 10ms to 24h0m0s
}

// Close ends the locks that are still held, so that others need not wait for
// their leases to end.
func ExampleLocker_Close() {
	rdb, stop := demo()
	defer stop()
	locker, err := fencedlock.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	lock, err := locker.Acquire(context.Background(), "report", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(locker.Close())
	fmt.Println(errors.Is(lock.Err(), fencedlock.ErrClosed))
	_, err = locker.Acquire(context.Background(), "report", nil)
	fmt.Println(err)
	// Output:
	// <nil>
	// true
	// fencedlock: Locker closed
}

// The fence of a lock goes into whatever is stored; its ID only ever grows.
func ExampleLock_Fence() {
	lock, _, stop := demoLock(nil)
	defer stop()
	f := lock.Fence()
	fmt.Println(f.Resource, f.ID > 0, time.Since(f.Time()) < time.Hour)
	// Output: report true true
}

// Done is for a select; Err then says why.
func ExampleLock_Done() {
	lock, rdb, stop := demoLock(&fencedlock.Options{RenewEvery: 20 * time.Millisecond})
	defer stop()
	rdb.FlushAll(context.Background()) // Redis loses its data
	select {
	case <-lock.Done():
		fmt.Println("lost:", errors.Is(lock.Err(), fencedlock.ErrLost))
	case <-time.After(time.Minute):
		fmt.Println("still held")
	}
	// Output: lost: true
}

func ExampleLock_Err() {
	lock, _, stop := demoLock(nil)
	defer stop()
	fmt.Println(lock.Err())
	if err := lock.Release(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(lock.Err())
	// Output:
	// <nil>
	// fencedlock: released
}

// Remaining tells whether a step that takes a while can still be begun.
func ExampleLock_Remaining() {
	lock, _, stop := demoLock(&fencedlock.Options{TTL: time.Minute})
	defer stop()
	fmt.Println(lock.Remaining() > 30*time.Second, lock.Remaining() < time.Minute)
	if err := lock.Release(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(lock.Remaining())
	// Output:
	// true true
	// 0s
}

// Locks are renewed by themselves. Renew asks Redis now, before something dear.
func ExampleLock_Renew() {
	lock, rdb, stop := demoLock(nil)
	defer stop()
	ctx := context.Background()
	fmt.Println(lock.Renew(ctx))
	rdb.FlushAll(ctx) // Redis loses its data
	if lost, ok := errors.AsType[*fencedlock.LostError](lock.Renew(ctx)); ok {
		fmt.Println("lost:", lost.Reason)
	}
	// Output:
	// <nil>
	// lost: expired
}

// Release says so when the lock had ended before: somebody else may have worked.
func ExampleLock_Release() {
	lock, rdb, stop := demoLock(nil)
	defer stop()
	ctx := context.Background()
	rdb.FlushAll(ctx) // Redis loses its data
	err := lock.Release(ctx)
	if lost, ok := errors.AsType[*fencedlock.LostError](err); ok {
		fmt.Println("lost:", lost.Reason)
	}
	// Output: lost: expired
}

// A program may start in spite of warnings, and not in spite of more.
func ExampleReport_Worst() {
	report := fencedlock.Report{Findings: []fencedlock.Finding{
		{Severity: fencedlock.Notice, Name: "eviction", Text: "maxmemory-policy is allkeys-lru, without effect as there is no maxmemory"},
		{Severity: fencedlock.Warning, Name: "persistence", Text: "persistence is off: a restart forgets all locks"},
	}}
	fmt.Println(report.Worst(), report.Worst() < fencedlock.Critical)
	// Output: warning true
}
