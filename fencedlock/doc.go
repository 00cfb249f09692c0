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
// Every key carries a TTL: a lock for its lease, a queue for 30 seconds after
// the last of its waiters has asked, a counter for seven days after the last
// acquisition. A holder that is killed blocks others for one TTL.
//
// # Waiting
//
// [Locker.Acquire] queues when the resource is held, and is served in the order
// of arrival. A release grants the lock to the first in the queue in the same
// step, and tells it:
//
//	holder A            Redis                    waiter B             waiter C
//	                    A, queue B C
//	release ──────────▶ B for half a second ───▶ wake-up
//	                    B                 ◀───── renew, if it works that long
//	                    C for half a second ◀─── release
//	                                        ─────────────────────────▶ wake-up
//
// The lease of B counts from the last time that it was told to wait, not from
// the wake-up, which may have been under way for long. A waiter whose process
// has died is skipped; one that does not answer, because it is stopped or its
// wake-up was lost, costs half a second at most, or its TTL if that is shorter.
// Waiters also ask now and then, so that nothing depends on wake-ups alone.
//
// The order is that of Redis: it is lost with its data, and a waiter that Redis
// took for dead, because its connection broke, queues again at the end.
// TryAcquire never queues and never overtakes: a free resource that others wait
// for goes to the first of them.
//
// # Quorum
//
// [NewQuorum] keeps the same locks at a majority of three or more independent
// servers, for those to whom one server, or one with replicas, is not enough. Any
// minority may be down, and costs nothing. The client proposes a fence, and a node
// accepts what is above all that it has accepted before:
//
//	holder A             node 1        node 2        node 3 (down)
//	propose 41 ────────▶ 41 ✓    ────▶ 41 ✓    ────▶
//	A has fence 41
//	propose 42 (by B) ─▶ held by A ──▶ held by A
//	release ───────────▶ free    ────▶ free
//	propose 41 (late) ─▶ refused
//
// A node that has restarted may have forgotten that, and does not vote for the TTL
// and two seconds more; see [Options.NodesPersist] and [Options.Lossy]. There is no
// queue: waiting processes ask at random instants, some times a second.
// [Locker.Inspect] shows what each node says.
//
// # What it does not do
//
// It does not protect what does not check the fence. It does not stop a
// function whose lock was lost; it ends its context. Locks are not reentrant.
// An evicting maxmemory-policy of Redis
// evicts locks as well.
//
// # Keys and rights
//
// The keys of a resource are <prefix>{<resource>}:lock, :fence and :queue, with
// % and braces in its name escaped as %XX, so that all are in one Cluster slot.
// The lock holds holder:fence:label. After a forced release :forced tells the
// old holder of it. The channel of a Locker that has waiters is
// <prefix>wake:<id>; in a Cluster from Redis 7 on, <prefix>{<resource>}:wake:<id>. A user with exactly these rights will do; docs/operations.md
// has more:
//
//	ACL SETUSER worker on >… resetkeys ~fenced:* resetchannels &fenced:* -@all
//	  +evalsha +eval +get +set +incr +incrby +del +pttl +pexpire
//	  +llen +lpop +lpos +lrem +rpush +publish +subscribe +ping
//
// A quorum needs +info as well.
// Without the right to the channels waiters ask twice a second and more in place
// of being told.
//
// # Errors
//
// [ErrHeld]: somebody else has it, which is normal. [ErrLost]: I had it.
// [ErrUnavailable]: nobody knows; Redis is down, loading, failing over, full or
// busy, and some tries did not help. [ErrConfig]: no try will help until
// somebody changes the set-up. [ErrInvalidArgument] and [ErrClosed] are
// mistakes of the caller, found before anything is sent. [ErrNotReplicated] and
// [ErrFenceMismatch] come with [Options.Durability] and [Locker.ForceRelease]. An
// error that matches [fencedstore.ErrUnknownOutcome] says that the resource may be
// locked for one TTL although nobody holds it.
//
// # Concurrency
//
// A [Locker] and a [Lock] are safe for concurrent use. A Locker with locks has
// one goroutine and one timer, and a few more goroutines while renewals are
// under way, whatever the number of locks. From the first wait until a minute
// after the last one it has another goroutine and a connection for wake-ups, in a
// Cluster one for each node. Otherwise it has none. A quorum has a goroutine for
// each node while a call is under way, and some that take back what came late.
package fencedlock
