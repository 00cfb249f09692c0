// Package memstore keeps fenced values in memory: the reference
// implementation of [fencedstore.Store], for tests, examples and reading.
//
//	holder A, fence 41         mark                     holder B, fence 42
//	Claim ───────────────────▶ 41
//	InTx: begin, read a
//	~ paused ~                 42 ◀──────────────────── Claim returns at once
//	                                                    InTx: read a, write a
//	write a, end of fn ──────▶ *StaleError, nothing of it is kept
//
// # Guarantees
//
// All of the contract: package storetest runs against it. [Store.InTx]
// is all or nothing over several keys, and serializable.
//
// A claim waits for nobody. A transaction collects its writes and takes effect
// in one step at its end, where the fence is checked again; so a claim makes
// it impossible for an older transaction to commit instead of waiting for its
// end, and one that is stuck for ever blocks no successor.
//
// # What it does not do
//
// It lives in one process and ends with it. It is not made for speed or for
// many keys: one lock guards everything.
//
// # Errors
//
// Those of the contract, plus [ErrInvalidKey], [ErrConflict], [ErrTxDone] and
// [ErrNilContext]. A call whose context is done has no effect, and its error
// matches both ctx.Err and context.Cause.
//
// # Concurrency
//
// A [Store] is safe for concurrent use, and so are several handles on one
// state. A [Tx] belongs to one goroutine.
package memstore
