// Package migrate brings the schema of package migrations into a database, with
// goose, from any number of processes at once: call [Up] at start-up.
//
//	pod A            database                          pod B
//	Up ────────────▶ version 0: something to do
//	                 version 0: something to do ◀───── Up
//	lock ──────────▶ held by A
//	                 busy, ask again in 1 s ◀───────── lock
//	step 1 ────────▶ version 1
//	unlock ────────▶
//	                 held by B ◀────────────────────── lock
//	                 version 1: nothing to do ◀─────── step 1?
//
// # Guarantees
//
// Each step runs once, in a transaction of its own together with the record of
// it. When there is nothing to do, [Up] takes no lock and waits for nobody, and
// a schema that is newer than this code is left alone, so that an older release
// can restart while a newer one migrates.
//
// The lock is a session advisory lock (key [LockID]) of one connection. Waiting
// for it holds no transaction open. The server frees it when that connection
// ends: a migrator that was killed stops nobody for longer than the statement
// it was running. One that is alive but stuck is waited for [LockTimeout], or
// as long as the context lasts.
//
// # Poolers
//
// A session lock needs a session. Connect directly, or through a pooler in
// session mode: behind a transaction pooler, lock and unlock may reach two
// different server sessions. Everything else in fencedstore/postgres works
// behind a transaction pooler; only migrations do not.
//
// # Rights
//
// The role needs CREATE on the database for the first migration and owns the
// schema afterwards. For the rights of the application see package migrations.
package migrate
