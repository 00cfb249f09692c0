// Command load keeps the lock and the guard busy for a minute, and looks at
// what does not come back: errors, memory, goroutines, keys.
//
// Four kinds of work share one process, one real Redis and one real Postgres
// that syncs every commit:
//
//	free      acquire and release of a resource that nobody else wants
//	guarded   acquire, claim, one guarded transaction, release
//	waiting   acquire and release of one of four resources, sixteen waiters
//	          in two Lockers
//	held      a thousand locks that are only renewed
//
// First the workers go as fast as they can, for a tenth of the time: that is the
// rate which the machine can do. Then they are given 60 % of it, each at instants
// that are fixed before, and a latency counts from its instant: work that
// comes late because the machine stood still is slow, not absent.
//
// A waiter that is granted the lock has half a second to say that it is there. A
// machine that gives it no CPU for as long takes its lock away, rightly: such
// locks are counted apart. One that is lost sooner is an error.
//
// Every tenure is checked: nobody else is inside, and its fence is above the last
// one. At the end every acknowledged write is in the database, and all held locks
// are still held. One error, or a late third that needs more of something than
// the early third by more than a bound, is exit status 1.
package main
