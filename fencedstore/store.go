package fencedstore

import "context"

// Claimer is a store that can be told of a new tenure before its holder does
// anything else.
//
// A Claimer is safe for concurrent use by several goroutines and processes.
type Claimer interface {
	// Claim raises the high-water mark of f.Resource to f, in a durable step
	// of its own. When Claim has returned nil, f is the newest fence here, and
	// every guarded write of an older fence has either finished or can no
	// longer succeed: what the holder reads from now on is not overwritten
	// from behind.
	//
	// Claim accepts an ID above the mark, and the mark's own ID from the same
	// holder again, so that repeating it is safe. It refuses a lower ID with a
	// *[StaleError] and an equal one of another holder with a
	// *[FenceReusedError]; a refusal changes nothing. A malformed fence is an
	// [ErrInvalidFence] before anything is sent. When the answer is lost it
	// returns an [ErrUnknownOutcome].
	Claim(ctx context.Context, f Fence) error
}

// Store is a Claimer with keyed values: the smallest thing that a conformance
// test can drive. Adapters have richer methods of their own and implement
// Store for package storetest; applications rarely use it.
type Store interface {
	Claimer
	// Write sets key to value under the guard of f, or deletes key when value
	// is nil (an empty value that is not nil is kept as such). Check and write
	// are one atomic step.
	//
	// f must be the resource's newest claim, by ID and holder. A lower ID is a
	// *[StaleError], an equal ID of another holder a *[FenceReusedError], and
	// a fence that was never claimed here a *[NotClaimedError]: a guard never
	// raises the mark. A refused write has no effect at all. The mark outlives
	// the key. When the answer is lost Write returns an [ErrUnknownOutcome];
	// the same call with the same fence may be repeated.
	Write(ctx context.Context, f Fence, key string, value []byte) error
	// Read returns the value of key, or [ErrNotFound]. It needs no fence: after
	// its claim a holder reads what no older holder can change any more.
	Read(ctx context.Context, key string) ([]byte, error)
}
