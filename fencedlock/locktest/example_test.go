package locktest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedlock/locktest"
	"github.com/fenced-go/fenced/fencedstore"
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
