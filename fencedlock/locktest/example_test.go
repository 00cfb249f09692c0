package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedlock/locktest"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
)

// A unit test of a job that loses its lock half way.
func ExampleServer_Steal() {
	test := func(t *testing.T) {
		server, store := locktest.Start(t), memstore.New()
		locker := server.Locker(t, &fencedlock.Options{Stores: []fencedstore.Claimer{store}})

		err := locker.Do(t.Context(), "invoices", nil, func(ctx context.Context, f fencedstore.Fence) error {
			successor := server.Steal(t, "invoices") // this job was paused for too long
			if err := store.Claim(ctx, successor); err != nil {
				return err
			}
			return store.Write(ctx, f, "invoice/7", []byte("30"))
		})
		if !errors.Is(err, fencedstore.ErrStale) {
			t.Errorf("got %v, want the store to refuse the job", err)
		}
	}
	_ = test // func TestJobThatLostItsLock(t *testing.T)
}

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

// A reply is lost on the way: the lock is acquired all the same.
func ExampleFaults_LoseReply() {
	server, err := locktest.NewServer()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	faults := locktest.NewFaults()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	rdb.AddHook(faults)
	locker, err := fencedlock.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()

	faults.Only(locktest.Acquire).LoseReply(1)
	_, err = locker.TryAcquire(context.Background(), "invoices", nil)
	fmt.Println(err, faults.Injected())
	// Output:
	// <nil> 1
}
