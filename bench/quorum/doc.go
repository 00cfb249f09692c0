// Command quorum compares fencedlock on a quorum with redsync, on five real
// redis-servers of which none, one or two are frozen: they accept connections and
// say nothing, as a machine that swaps or a process that was stopped.
//
// Acquire and release of a free name are timed apart. The variants are
//
//	fenced            fencedlock.NewQuorum, go-redis as it comes
//	redsync           github.com/go-redsync/redsync, as it comes
//	redsync-failfast  with WithFailFast
//	redsync-50ms      go-redis with timeouts of 50 ms and no retries
//
// each with the number of frozen servers behind it. Those of redsync issue no
// fence. redsync as it comes takes seconds for one operation when a server is
// frozen, so that it is timed once and not in rounds.
package main
