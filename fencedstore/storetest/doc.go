// Package storetest is the conformance kit of [fencedstore.Store]: one named
// case for each sentence of the contract.
//
// An adapter's test is a Harness and one call:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			New: func(tb testing.TB) fencedstore.Store { return open(tb, freshDatabase(tb)) },
//			Reopen: func(tb testing.TB, s fencedstore.Store) fencedstore.Store { … },
//		})
//	}
//
// What most of the cases play through is this, with stores that get one step
// of it wrong:
//
//	holder A, fence 41          store                  holder B, fence 42
//	claim 41 ─────────────────▶ mark 41
//	write, write, write ──────▶ value A
//	                            mark 42 ◀───────────── claim 42
//	a write still in flight ──▶ *StaleError, or done
//	                            before the claim returned
//	                            value A ─────────────▶ read
//	                            value B ◀───────────── write
//	write ────────────────────▶ *StaleError, value B stays
//
// # Guarantees
//
// Every case fails on at least one store that breaks the sentence it stands
// for: the kit's own tests run it against such stores.
//
// # What it does not do
//
// A case shows that a rule was broken, never that it cannot be. The cases that
// race look for windows by trying; a store that hides one behind a rare event
// of its own (a failover, a full disk) needs tests of its own. The kit drives
// the small interface only: richer methods of an adapter are not covered.
//
// # Concurrency
//
// Cases are independent of each other and each makes a store of its own, so
// that they may run side by side; see [Harness.Parallel].
package storetest
