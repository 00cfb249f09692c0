package fencedstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenced-go/fenced/fencedstore"
)

// A fence travels with a job or a request as text.
func ExampleParseFence() {
	sent := fencedstore.Fence{Resource: "tenant/7 invoices", ID: 1767225600000042, Holder: "9f86d081884c7d65"}
	header := sent.String()
	fmt.Println(header)

	got, err := fencedstore.ParseFence(header)
	fmt.Println(got == sent, err)

	_, err = fencedstore.ParseFence("1.767e15:9f86d081884c7d65:invoices")
	fmt.Println(errors.Is(err, fencedstore.ErrInvalidFence), err)
	// Output:
	// 1767225600000042:9f86d081884c7d65:tenant/7%20invoices
	// true <nil>
	// true fencedstore: invalid fence: ID has something other than ASCII digits
}

// A repository layer finds the fence in the context of the call.
func ExampleNewContext() {
	f := fencedstore.Fence{Resource: "invoices", ID: 42, Holder: fencedstore.NewHolder()}
	ctx := fencedstore.NewContext(context.Background(), f)

	got, err := fencedstore.FromContext(ctx)
	fmt.Println(got, err)
	_, err = fencedstore.FromContext(context.Background())
	fmt.Println(err)
	// Output:
	// fence 42 on "invoices" <nil>
	// fencedstore: no fence in context
}

// A refusal says how far the resource has moved on.
func ExampleStaleError() {
	var err error = &fencedstore.StaleError{
		Fence:  fencedstore.Fence{Resource: "invoices", ID: 41, Holder: fencedstore.NewHolder()},
		Newest: 42,
	}
	if stale, ok := errors.AsType[*fencedstore.StaleError](err); ok {
		fmt.Println("stop: a successor holds", stale.Newest)
	}
	fmt.Println(err)
	// Output:
	// stop: a successor holds 42
	// fencedstore: fence 41 on "invoices" is stale: 42 was claimed
}
