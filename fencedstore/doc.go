// Package fencedstore is the contract of a fenced store: a resource that
// itself refuses whoever lost the lock on it.
//
// A lock cannot do that. Its holder may be paused for longer than the lease
// lasts and wake up believing that it still holds:
//
//	holder A                 lock            store               holder B
//	acquire ────────────────▶ A, fence 41
//	claim 41 ──────────────────────────────▶ mark 41
//	read balance 100 ◀─────────────────────
//	~ paused ~                lease ends
//	                          B, fence 42 ◀─────────────────────── acquire
//	                                         mark 42 ◀──────────── claim 42
//	                                         balance 70 ◀───────── write, fence 42
//	~ wakes up ~
//	write 90, fence 41 ────────────────────▶ refused: 42 was claimed
//
// Every tenure has a [Fence]. Its holder claims it at the store before it
// reads anything, and shows it with every write. The store keeps one
// high-water mark per resource, the newest fence claimed, and compares.
//
// # Guarantees
//
// Once a newer holder's claim has returned, no older holder changes the
// resource, whatever the lock service, clocks, networks or garbage collectors
// do, as long as the store keeps its data. That holds even against a lock
// service that hands out arbitrary IDs, because the store decides.
//
// # What it does not do
//
// Only what checks the fence is protected. A mail, or a call to a service that
// does not check, is not. Two stores cannot be fenced in one atomic step. What
// a holder read before its claim proves nothing.
//
// # Errors
//
// [ErrStale], [ErrFenceReused] and [ErrNotClaimed] are refusals: nothing
// happened. [ErrInvalidFence] and [ErrNoFence] are mistakes of the caller,
// found before anything is sent. [ErrUnknownOutcome] is neither success nor
// failure.
//
// # Writing an adapter
//
// Implement [Store] beside your adapter's own methods and run package storetest
// against it: each of its cases is one sentence of this contract.
package fencedstore
