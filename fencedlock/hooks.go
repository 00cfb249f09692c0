package fencedlock

import (
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// Hooks observe a [Locker], for metrics and traces. Every field may be nil.
//
// Acquired and Released run on the goroutine of the caller and delay it. The
// others run on goroutines of the Locker, several at once and in no order, and
// delay neither renewals nor the end of a lease; a call may still be under way
// when Close returns. A hook must not panic.
type Hooks struct {
	// Acquired is called when a lock was acquired and every store has claimed;
	// waited is how long that took.
	Acquired func(f fencedstore.Fence, waited time.Duration)
	// Released is called when Redis confirmed a release; held is for how long
	// the lock was held.
	Released func(f fencedstore.Fence, held time.Duration)
	// Lost is called once for every lock that ends before its release.
	Lost func(err *LostError)
	// Renewed is called when Redis confirmed a renewal.
	Renewed func(f fencedstore.Fence)
	// RenewFailed is called for every renewal that failed; the lock is not
	// lost yet.
	RenewFailed func(f fencedstore.Fence, err error)
}
