package memstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
)

// A holder that was paused past its lease wakes up and is refused.
func Example() {
	ctx := context.Background()
	store := memstore.New()
	a := fencedstore.Fence{Resource: "account", ID: 41, Holder: fencedstore.NewHolder()}
	b := fencedstore.Fence{Resource: "account", ID: 42, Holder: fencedstore.NewHolder()}

	fmt.Println("a claims: ", store.Claim(ctx, a))
	fmt.Println("a writes: ", store.Write(ctx, a, "balance", []byte("100")))
	fmt.Println("b claims: ", store.Claim(ctx, b))
	fmt.Println("b writes: ", store.Write(ctx, b, "balance", []byte("70")))
	err := store.Write(ctx, a, "balance", []byte("90"))
	fmt.Println("a wakes up:", errors.Is(err, fencedstore.ErrStale))

	balance, err := store.Read(ctx, "balance")
	fmt.Println("balance:", string(balance), err)
	// Output:
	// a claims:  <nil>
	// a writes:  <nil>
	// b claims:  <nil>
	// b writes:  <nil>
	// a wakes up: true
	// balance: 70 <nil>
}

func ExampleStore_InTx() {
	ctx := context.Background()
	store := memstore.New()
	f := fencedstore.Fence{Resource: "account/7", ID: 42, Holder: fencedstore.NewHolder()}
	if err := store.Claim(ctx, f); err != nil {
		fmt.Println(err)
		return
	}
	bill := func(tx *memstore.Tx) error {
		if _, err := tx.Read("invoice/7/2026-03"); !errors.Is(err, fencedstore.ErrNotFound) {
			return errors.Join(errors.New("billed already"), err)
		}
		return errors.Join(
			tx.Write("invoice/7/2026-03", []byte("30")),
			tx.Write("balance/7", []byte("70")),
		)
	}
	fmt.Println(store.InTx(ctx, f, bill))
	fmt.Println(store.InTx(ctx, f, bill))
	fmt.Println(store.Keys(""))
	// Output:
	// <nil>
	// billed already
	// [balance/7 invoice/7/2026-03]
}
