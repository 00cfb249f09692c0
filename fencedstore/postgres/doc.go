// Package postgres guards work in a Postgres database with fences: a holder of
// a lock who was paused for too long is refused by the database itself. It is
// built on pgx; [GuardSQL] serves database/sql. Import it as fencedpg where the
// name collides. The SQL functions it calls are in package migrations.
//
//	holder A                      Postgres                     holder B
//	claim 41 ───────────────────▶ mark 41
//	BEGIN; guard 41 ────────────▶ ok, until A's COMMIT
//	UPDATE … ; COMMIT ──────────▶ done
//	~ paused, the lease ends ~
//	                              mark 42 ◀─────────────────── claim 42
//	                              ok ◀──────────────────────── BEGIN; guard 42
//	~ wakes up ~
//	BEGIN; guard 41 ────────────▶ ZF001: 42 was claimed
//	                              done ◀────────────────────── UPDATE … ; COMMIT
//
// # Two steps
//
// [Store.Claim] raises the resource's high-water mark in a transaction of its
// own. A holder claims once, before it reads anything. It waits until every
// transaction under an older guard has ended, so that what the holder reads
// next is final.
//
// The guard is the first statement of a transaction that reads or writes for
// the holder. It checks that the fence is the newest claim, and keeps it so
// until the transaction ends. It never raises the mark. All of these are guards:
//
//   - [Store.InTx], a transaction with a callback
//   - [Store.SendBatch], a batch in one round trip
//   - [Store.Exec], one statement in one round trip
//   - [Store.Repo], the DBTX of code that sqlc generates, fence from the context
//   - [Guard] and [GuardSQL], inside a transaction of the caller's
//   - [Store.InTxMany], [Store.SendBatchMany], [GuardMany] and [GuardManySQL],
//     for work on several resources in one transaction
//
// A check that is not part of the writing transaction is no guard: a SELECT and
// then an UPDATE, in any isolation level, lets a stale write through.
//
// # Guarantees
//
// When Claim has returned nil, every transaction guarded by an older fence has
// ended and no other begins: none commits any more, and none reads. A refused
// call changes nothing. Two holders with the same fence ID are told apart. This
// holds at every isolation level and in every execution mode of pgx, whether or
// not the lock service can be reached.
//
// # What it does not do
//
// Statements without a guard are not stopped, except on protected tables (below).
// A guard covers the rows that the caller says belong to the resource; it does
// not know them. Do not keep a
// fence in an integer column: IDs made by package fencedlock need a bigint.
//
// A server that loses committed transactions loses claims: an asynchronous
// standby that is promoted, an older backup. The holder then finds
// [fencedstore.ErrNotClaimed] and must make sure it still holds the lock, claim
// again and read everything again. With synchronous replication nothing is
// lost, as long as nobody cancels a commit that waits for the standby: the
// server reports such a commit as done, with a warning (SQLSTATE 01000). On
// connections prepared by [WatchReplication] it is an unknown outcome.
//
// A database that is restored from a backup has marks of before. Before its
// programs run again, SELECT fencedstore.raise() makes every older fence stale.
//
// # Protected tables
//
// [Protect] makes the database itself refuse every statement that would change a
// table and whose transaction is under no valid guard, whoever sends it: psql,
// an ORM, the last release of the program. That covers INSERT, UPDATE, DELETE,
// TRUNCATE, COPY, MERGE, foreign keys that cascade, and partitions by name.
// [ProtectBy] does it for tables whose rows belong to different resources. Both
// are triggers. WarnOnly lets everything through and counts what would have been
// refused in the view fencedstore.warnings; its table, fencedstore.warned, may be
// emptied at any time with DELETE.
//
// Guarded work needs nothing more: the guard shows its fence to the triggers, in
// a setting of the transaction. Other clients do the same in SQL, with a fence
// as [fencedstore.Fence.String] writes it, preferably as a bound parameter, for
// it holds a secret:
//
//	BEGIN;
//	SELECT fencedstore.enter($1);
//	UPDATE stock SET …;
//	COMMIT;
//
// Functions that run in the transaction can read what is shown. What is set by
// hand is no more than a claim: the triggers compare it with the newest fence,
// under the lock that a guard takes. A role can get past them that owns the
// table, has the right TRIGGER on it (which GRANT ALL contains), or may set
// session_replication_role. Of roles that have none of these, only these get
// through: a statement that meets no row, where rows are checked one by one, and
// TRUNCATE of a partition that came after Protect, until it is called again.
// docs/guarantees.md has the list, and how to close each.
//
// Keep other effects than SQL's out of BEFORE STATEMENT triggers whose names
// sort before a_fence: those run first.
//
// # Row mode
//
// Where every row is a resource of its own, the row can carry its mark, and no
// other table is needed: [FenceRows] adds the columns, [Store.Rows] writes. Other
// clients set the columns, and make the server compare:
//
//	UPDATE account SET balance = $3, fence_id = $1, fence_holder = sha256($2)
//	 WHERE id = 7 AND fencedstore.row_guard(fence_id, fence_holder, $1, sha256($2))
//
// row_guard raises ZF001 or ZF002 where a newer fence has written, so that zero
// rows mean that there is no such row, and a batch ends there. INSERT … ON
// CONFLICT DO UPDATE takes it in its WHERE. A DELETE would take the mark with it:
// rows are marked with fence_deleted instead, and readers leave those out. Deleted
// rows may be removed, with SET LOCAL fencedstore.purge = on, when no holder of
// them can be at work any more.
//
// It is weaker than a guard in three ways. Only rows have marks: an older holder
// may insert a row that a newer one found missing. A holder that writes what
// follows from what it has read claims the row first, see [RowTable.Claim]. And
// whoever leaves the columns alone is not noticed; the triggers of FenceRows refuse
// only to lower a mark, to share one, and to remove it. Where a resource is more
// than a row, use a guard.
//
// # Errors
//
// Refusals are those of package fencedstore, with the server's error behind
// them: *[fencedstore.StaleError] (SQLSTATE ZF001), *[fencedstore.FenceReusedError]
// (ZF002), *[fencedstore.NotClaimedError] (ZF003); a protected table says
// *[UnfencedError] (ZF004). All are found by [errors.As], like *pgconn.PgError. A claim that waits too long is a *[BusyError].
//
// [fencedstore.ErrUnknownOutcome] means that a request was sent and its answer
// did not arrive, or the server went away. Every other error means that nothing
// was committed, except [CallbackError]. When a context has ended, the error
// matches its cause as well.
//
// # Forgetting
//
// The table of fences has a row for every resource that was ever claimed.
// [Store.Forget] removes old ones and lets nobody in by it. Deleting them by hand
// does: a slow older holder's claim would be accepted.
//
// # Without a lock
//
// Work that fits one transaction needs no lock and no fence. [RunOnce] runs it
// once for a key that is known beforehand, [Queue] hands out the rows of a table
// of jobs, where the number of the attempt is the row's own fence. docs/jobs.md of
// the module says when to use which.
//
// # Isolation levels
//
// At read committed the guard takes an advisory lock, shared, and then checks
// the fence in a statement of its own. At repeatable read and serializable it
// also locks the row of the fence, since the snapshot may be older than the
// lock; when a claim came between, Postgres says 40001. [Store.InTx],
// [Store.SendBatch], [Store.Exec] and [Store.Repo] then try once more at once,
// for nothing has run yet, and get the verdict. A 40001 from the caller's own
// statements, or from COMMIT, is returned: repeat the whole call.
//
// Claims run at read committed whatever default_transaction_isolation says. A
// guard at a higher level locks a row and so cannot be read-only.
//
// # Paused holders
//
// A holder that is paused inside a transaction keeps its successor's claim
// waiting. [Store.InTx] therefore sets idle_in_transaction_session_timeout, for
// that transaction only, to Options.IdleTimeout or to what the context has left
// if that is less: its deadline, or the rest of the lease, which the context of
// a lock carries (see [fencedstore.Remaining]). A server that is still busy with
// the holder's statement, or with sending it rows that it does not read, is not
// idle; on Postgres 17 and later transaction_timeout bounds that too.
// [BusyError] names the server processes, and [Store.Evict] ends them.
//
// A claim waits for the transactions that have the guard when it is queued, and
// for none that begins later: with 16 connections at work, for 16 transactions
// at most. A claim that is stale already does not queue.
//
// # Rights
//
// A role needs USAGE on the schema fencedstore and EXECUTE on five of its
// functions, nothing on its table:
//
//	GRANT USAGE ON SCHEMA fencedstore TO app;
//	GRANT EXECUTE ON FUNCTION fencedstore.version, fencedstore.claim,
//	  fencedstore.guard, fencedstore.guard_many, fencedstore.holders TO app;
//
// [Store.Check] says which are missing. [Store.Evict] needs more and says what.
// [RunOnce] needs EXECUTE on fencedstore.once only; raise and forget_once are for
// operators. The name of the schema is fixed. Whoever
// may execute claim can lock others out of a resource by claiming a huge fence.
//
// # Poolers
//
// Locks and settings are those of one transaction, so that transaction pooling
// is fine, and so it is for package migrations/migrate. Of pgx's execution
// modes, exec, simple_protocol and cache_describe work behind every pooler, and
// cache_statement, the default, behind one that keeps the prepared statements of
// its clients apart: PgBouncer from 1.21 on with max_prepared_statements. An
// older one makes it fail, never half and never as a success. describe_exec
// works for all calls of this package, but not for the application's own
// statements outside transactions, which may meet another client's.
//
// Batches are one round trip once the connection knows the statements; in the
// modes cache_statement, cache_describe and describe_exec pgx describes new ones
// first, which is another.
//
// # Names
//
// A resource may be any bytes; Postgres text may not. The table holds valid
// UTF-8 as it is, except that a backslash is doubled, and writes a NUL or an
// invalid byte as \xNN. No two resources have the same text. The database's
// encoding must be UTF8 for names beyond ASCII.
//
// The locks are advisory locks with the class 1179538243 and a hash of the name.
// Two names with an equal hash wait for each other and are otherwise apart. An
// application that uses that class for its own advisory locks is not.
//
// # Concurrency
//
// A [Store] on a pool is safe for concurrent use. Each call uses one connection
// from beginning to end and never waits for a second one while it holds the
// first: a pool of one works.
package postgres
