// Package compat proves fencedstore/postgres on the drivers and ORMs that
// people use: pgx, database/sql with pgx and with lib/pq, sqlc, GORM, bun, ent.
// It is a module of its own, so that none of them enters the graph of the
// library's users, and has tests only. docs/postgres.md shows the code to copy;
// a test finds each of its blocks here, where it runs. generate.sh writes what
// sqlc and ent generate anew.
package compat
