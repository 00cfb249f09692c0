package fencedlock_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
)

// Three independent servers, of which one may be down.
func ExampleNewQuorum() {
	var nodes []redis.UniversalClient
	for i := range 3 {
		rdb, stop := demo()
		defer stop()
		nodes = append(nodes, rdb)
		if i == 2 {
			stop() // it is down from the start
		}
	}
	locker, err := fencedlock.NewQuorum(nodes, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = locker.Close() }()

	err = locker.Do(context.Background(), "invoices", nil, func(ctx context.Context, f fencedstore.Fence) error {
		status, err := locker.Inspect(ctx, "invoices")
		fmt.Println("held by a majority:", status.Held, status.FenceID == f.ID)
		return err
	})
	fmt.Println(err)
	// Output:
	// held by a majority: true true
	// <nil>
}
