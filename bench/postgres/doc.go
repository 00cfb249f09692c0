// Command postgres measures what guarding work costs, on one real Postgres with
// its default configuration: every commit is synced to the disk.
//
// An operation is a transaction that updates one row. All guarded ones are
// under the same fence, and every connection has rows of its own. The variants
// are
//
//	update    one UPDATE, which commits by itself
//	two       a batch of SELECT 1 and UPDATE
//	tx        BEGIN, UPDATE, COMMIT
//	upsert    a batch of an upsert of the fence and UPDATE
//	share     a batch of SELECT … FOR SHARE of the fence and UPDATE
//	bare      a batch of the guard's two statements in a bare function, and UPDATE
//	exec      Store.Exec: guard and UPDATE in one round trip
//	batch     Store.SendBatch with one UPDATE in it, the same
//	late      a batch of UPDATE and guard
//	cte       an UPDATE with FOR SHARE in a CTE
//	row       an UPDATE that compares a fence in the row itself
//	separate  BEGIN, guard, UPDATE, COMMIT
//	intx      Store.InTx: as tx, with the guard beside BEGIN
//	commit    as tx, with the guard beside COMMIT
//	trigger   Store.Exec on a table protected by triggers
//	shown     a batch of what a guard would show to the trigger, and UPDATE
//	enter     a batch of fencedstore.enter and UPDATE, on the same table
//	claim     Store.Claim with a new fence, every connection on its own resource
//
// docs/design.md says which of these let an older holder through. They are measured
// under one fence, with a fence for each row, and over a network that adds a
// millisecond; and once more for the log bytes, row versions and multixacts that
// they leave behind. What triggers add to a guarded statement is measured on
// tables of their own, where no commit waits for the disk.
package main
