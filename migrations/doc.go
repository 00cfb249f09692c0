// Package migrations holds the SQL that package fencedstore/postgres needs in a
// database: the schema fencedstore with its functions and the table of fences.
// It imports nothing but the standard library, so that any migration tool can
// be fed from [FS].
//
// Package migrations/migrate applies them with goose, safely from many
// processes at once. By hand, or with the goose command:
//
//	CREATE SCHEMA IF NOT EXISTS fencedstore;
//	goose -table fencedstore.goose_version postgres "$URL" up
//
// The schema comes first because goose creates its version table before it
// runs a migration.
//
// # Rights
//
// Whoever migrates owns the schema. Nothing is granted to PUBLIC. A role that
// runs guarded work needs no more than
//
//	GRANT USAGE ON SCHEMA fencedstore TO app;
//	GRANT EXECUTE ON FUNCTION fencedstore.version, fencedstore.claim,
//	  fencedstore.guard, fencedstore.guard_many, fencedstore.holders TO app;
//
// fencedstore.evict ends other sessions: it is for operators, and needs its
// owner to be a member of pg_signal_backend.
//
// Whoever may execute claim can lock everybody else out of a resource by
// claiming a huge fence: grant it to the fenced services only. Do not let their
// role own the schema.
//
// # Going down
//
// The first migration's Down part drops the table of fences and with it every
// high-water mark: older holders would be let in again. Stop all holders first.
package migrations
