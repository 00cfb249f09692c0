// Package ledger keeps accounts and invoices, in Postgres or in memory.
//
// The repository ([New], [Queries]) is what sqlc makes of queries.sql and
// schema.sql; it knows nothing of fences. [NewPostgres] gives it a guarded
// connection, and every call is refused once a newer worker has taken over.
// [NewUnguarded] gives it a plain one, to show what happens then.
package ledger
