// Command compare counts what is lost under a distributed lock when its holders
// are paused: the same work, under different locks, on one real Redis and one
// real Postgres.
//
// Worker processes do this, over and over:
//
//	acquire the account's lock
//	read the account's counter                     n = 41
//	  work                                         ◀─ some are stopped here
//	ask the lock: do I still hold it?              if not, give up
//	                                               ◀─ and some here
//	write n + 1, and the invoice n + 1             in one transaction
//	release
//
// To be stopped is a real SIGSTOP that lasts longer than the lock's TTL, as a
// suspended machine, a throttled container or a long collection of garbage
// does. Every worker asks before it writes, which is more than most programs do.
//
// # What is counted
//
//	acknowledged   writes that the worker was told are committed
//	pauses         SIGSTOPs, and how many of them came after the question
//	noticed        sections that the worker gave up because the lock said no
//	refused        writes that the store refused
//	stale          writes that the store took although a newer holder had read
//	duplicates     invoices whose number another invoice of the account has
//	lost           committed increments that are not in the final counters
//
// The store keeps the order of all reads and writes, drawn under the lock of
// the counter's row, and the last three are counted from that, not from what
// workers say.
//
// Every lock is paused the same number of times, by the same seed. It ends
// with an error if anything was lost under fenced, or taken that was stale.
package main
