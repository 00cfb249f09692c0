// Package fencedlock acquires locks in Redis that carry a fence: a number that
// grows with every tenure, and that a store can check.
//
// A lock says who should work. It cannot stop a holder that was paused for
// longer than its lease, and wakes up and goes on. The store can, if it knows
// the fence:
//
//	holder A                  Redis               store              holder B
//	acquire ────────────────▶ A, fence 41
//	claim 41 ──────────────────────────────────▶ mark 41
//	renew ──────────────────▶ A, fence 41
//	~ paused ~                lease ends
//	                          B, fence 42 ◀──────────────────────── acquire
//	                                             mark 42 ◀───────── claim 42
//	                                             balance 70 ◀────── write, fence 42
//	~ wakes up ~
//	its context has ended
//	and should it write anyway: 41 ────────────▶ refused: 42 was claimed
//
// [Locker.Do] is the short way: it acquires, has every store of
// [Options.Stores] claim, calls a function with a context that carries the
// fence and ends when the lock is lost, and releases. [Locker.Acquire] and
// [Lock] are its parts.
//
// # Guarantees
//
// As long as Redis keeps its data, at most one holder believes that it has a
// resource. A lease counts from before the command was sent, by the worse of
// the monotonic and the wall clock, less 1 % and 2 ms; it ends at that instant
// whatever Redis or the network do. Clocks of different machines are never
// compared.
//
// Fence IDs of a resource grow with every tenure. A new one is the greatest of
// the counter in Redis, the client's clock in microseconds, and the mark of any
// store that refused an older one, plus 1. So they go on growing when Redis
// loses its data, provided that a store was told of them or that the clocks are
// not far behind. Nobody's write depends on it: the store decides.
//
// Every key carries a TTL: a lock for its lease, a counter for seven days after
// the last acquisition. A holder that is killed blocks others for one TTL.
//
// # What it does not do
//
// It does not protect what does not check the fence. It does not stop a
// function whose lock was lost; it ends its context. Locks are not reentrant,
// and waiters are not served in order. An evicting maxmemory-policy of Redis
// evicts locks as well.
//
// # Keys and rights
//
// The keys of a resource are <prefix>{<resource>}:lock and :fence, with % and
// braces in its name escaped as %XX, so that both are in one Cluster slot. The
// lock holds holder:fence:label. A user with exactly these rights will do:
//
//	ACL SETUSER worker on >… resetkeys ~fenced:* -@all +evalsha +eval +get +set +incr +del +pttl +pexpire
//
// # Errors
//
// [ErrHeld]: somebody else has it, which is normal. [ErrLost]: I had it.
// [ErrUnavailable]: nobody knows; Redis is down, loading, failing over, full or
// busy, and some tries did not help. [ErrConfig]: no try will help until
// somebody changes the set-up. [ErrInvalidArgument] and [ErrClosed] are
// mistakes of the caller, found before anything is sent. An error that matches
// [fencedstore.ErrUnknownOutcome] says that the resource may be locked for one
// TTL although nobody holds it.
//
// # Concurrency
//
// A [Locker] and a [Lock] are safe for concurrent use. A Locker with locks has
// one goroutine and one timer, and a few more goroutines while renewals are
// under way, whatever the number of locks; without locks it has none.
package fencedlock
