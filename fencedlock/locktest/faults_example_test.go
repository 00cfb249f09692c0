package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedlock/locktest"
)

// A holder goes on when renewals fail for a while.
func ExampleNewFaults() {
	t := &test{}
	defer t.end()
	server, faults := locktest.Start(t), locktest.NewFaults()
	locker := server.Locker(t, nil, faults)
	lock, err := locker.Acquire(t.Context(), "invoices", nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	faults.Only(locktest.Renew).FailNext(1, nil)
	fmt.Println(errors.Is(lock.Renew(t.Context()), fencedlock.ErrUnavailable))
	fmt.Println(lock.Renew(t.Context()), lock.Err())
	// Output:
	// true
	// <nil> <nil>
}

// Only makes the other commands of a program work.
func ExampleFaults_Only() {
	t := &test{}
	defer t.end()
	server, faults := locktest.Start(t), locktest.NewFaults()
	rdb := server.Client(t, faults)

	faults.Only("get").FailNext(1, nil)
	fmt.Println(rdb.Set(t.Context(), "k", "v", 0).Err())
	fmt.Println(errors.Is(rdb.Get(t.Context(), "k").Err(), locktest.ErrInjected))
	// Output:
	// <nil>
	// true
}

// FailNext does not send what it fails.
func ExampleFaults_FailNext() {
	t := &test{}
	defer t.end()
	server, faults := locktest.Start(t), locktest.NewFaults()
	rdb := server.Client(t, faults)

	faults.FailNext(2, errors.New("broken"))
	for range 3 {
		fmt.Println(rdb.Incr(t.Context(), "n").Result())
	}
	// Output:
	// 0 broken
	// 0 broken
	// 1 <nil>
}

// A server that may not write now is no reason to give a lock up.
func ExampleServerError() {
	t := &test{}
	defer t.end()
	server, faults := locktest.Start(t), locktest.NewFaults()
	locker := server.Locker(t, nil, faults)

	faults.Only(locktest.Acquire).FailNext(1, locktest.ServerError("READONLY You can't write against a read only replica."))
	lock, err := locker.Acquire(t.Context(), "invoices", nil) // tries again
	fmt.Println(lock != nil, err, faults.Injected())
	// Output: true <nil> 1
}

// A reply that takes longer than the caller waits leaves nothing behind.
func ExampleFaults_Delay() {
	t := &test{}
	defer t.end()
	server, faults := locktest.Start(t), locktest.NewFaults()
	locker := server.Locker(t, nil, faults)

	faults.Delay(time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := locker.Acquire(ctx, "invoices", nil)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), server.Held("invoices"))
	// Output: true false
}

func ExampleFaults_Heal() {
	t := &test{}
	defer t.end()
	server, faults := locktest.Start(t), locktest.NewFaults()
	rdb := server.Client(t, faults)

	faults.FailNext(1000, nil)
	fmt.Println(rdb.Ping(t.Context()).Err() == nil)
	faults.Heal()
	fmt.Println(rdb.Ping(t.Context()).Err() == nil)
	// Output:
	// false
	// true
}

// Injected tells that a test has shown what it was to show.
func ExampleFaults_Injected() {
	t := &test{}
	defer t.end()
	server, faults := locktest.Start(t), locktest.NewFaults()
	locker := server.Locker(t, nil, faults)

	faults.Only(locktest.Release).LoseReply(1)
	err := locker.Do(t.Context(), "invoices", nil, work)
	fmt.Println(err, faults.Injected())
	// Output: <nil> 1
}

// A command whose reply is lost has run: whoever repeats it must allow for
// that.
func ExampleFaults_LoseReply() {
	server, err := locktest.NewServer()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	faults := locktest.NewFaults()
	rdb.AddHook(faults)

	faults.Only("incr").LoseReply(1)
	err = rdb.Incr(context.Background(), "n").Err()
	fmt.Println(errors.Is(err, locktest.ErrInjected), err)
	fmt.Println(rdb.Get(context.Background(), "n").Val())
	// Output:
	// true locktest: injected: read tcp: read: connection reset by peer
	// 1
}
