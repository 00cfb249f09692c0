// Command postgres measures what guarding work costs, on one real Postgres with
// its default configuration: every commit is synced to the disk.
//
// An operation is a transaction that updates one row. All guarded ones are
// under the same fence, and every connection has rows of its own. The variants
// are
//
//	update    one UPDATE, which commits by itself
//	tx        BEGIN, UPDATE, COMMIT
//	exec      Store.Exec: guard and UPDATE in one round trip
//	batch     Store.SendBatch with one UPDATE in it, the same
//	intx      Store.InTx: as tx, with the guard beside BEGIN
//	claim     Store.Claim with a new fence, every connection on its own resource
package main
