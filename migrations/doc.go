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
// The owner of a table that is to be protected by fencedstore.protect needs
//
//	GRANT USAGE ON SCHEMA fencedstore TO owner;
//	GRANT EXECUTE ON FUNCTION fencedstore.protect, fencedstore.protect_by,
//	  fencedstore.unprotect, fencedstore.install, fencedstore.take,
//	  fencedstore.guards, fencedstore.cap, fencedstore.enforce,
//	  fencedstore.by_column TO owner;
//
// and clients that guard their work by a fence's text, EXECUTE on
// fencedstore.enter beside guard.
//
// For row mode, owners of tables need EXECUTE on fencedstore.fence_rows, take,
// guards, cap and fence_row, and clients on fencedstore.row_guard. Whoever cleans
// up needs EXECUTE on fencedstore.forget.
//
// # Protecting tables in a migration
//
//	SET lock_timeout = '2s'; -- at most 5 s, see below
//	SELECT fencedstore.protect('stock', 'stock');
//	SELECT fencedstore.protect_by('invoice', 'tenant', 'tenant/', p_warn => true);
//	SELECT fencedstore.unprotect('stock');
//	SELECT fencedstore.fence_rows('account');
//
// Each may be called again and replaces what was said before. They wait for the
// transactions that use the table, while new ones wait behind them: 5 seconds
// (p_wait_ms) or lock_timeout, whichever is less. Resources and prefixes are
// written as the table of fences has them: with every backslash doubled.
//
// # Going down
//
// The first migration's Down part drops the table of fences and with it every
// high-water mark: older holders would be let in again. Stop all holders first.
// That of protect leaves every table unprotected, that of rows leaves the columns,
// that of forget loses the floor.
package migrations
