// Package migrate brings the schema of package migrations into a database, with
// goose, from any number of processes at once: call [Up] at start-up.
//
//	pod A            database                          pod B
//	Up ────────────▶ version 0: something to do
//	                 version 0: something to do ◀───── Up
//	BEGIN; lock ───▶ A's, until COMMIT
//	                 busy, ask again in 1 s ◀───────── BEGIN; lock
//	step 1; COMMIT ▶ version 1
//	                 version 1: nothing to do ◀─────── step 1?
//
// # Guarantees
//
// Each step runs once, in a transaction of its own together with the record of
// it. When there is nothing to do, [Up] takes no lock and waits for nobody, and
// a schema that is newer than this code is left alone, so that an older release
// can restart while a newer one migrates.
//
// The lock is an advisory lock (key [LockID]) of the step's transaction, taken by
// its first statement. Waiting for it holds no transaction open. The server
// frees it when the transaction or its connection ends: a migrator that was
// killed stops nobody for longer than the statement it was running. One that is
// alive but stuck is waited for [LockTimeout], or as long as the context lasts.
// The files of package migrations do not take it: whoever runs them with another
// tool uses that tool's lock.
//
// # Poolers
//
// Nothing outlives its transaction, so that a pooler in transaction mode is
// fine, such as PgBouncer, with a driver that prepares nothing the pooler does
// not know: for pgx default_query_exec_mode=exec in the URL.
//
// # Rights
//
// The role needs CREATE on the database for the first migration and owns the
// schema afterwards. For the rights of the application see package migrations.
package migrate
