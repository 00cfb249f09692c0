package ledger

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Schema is where the tables are.
const Schema = "billing_example"

//go:embed schema.sql
var tables string

// mark tells our schema from anybody else's.
const mark = "made by github.com/fenced-go/fenced/examples/billing, which drops it at every run"

// ErrForeignSchema says that there is a schema of our name which we did not
// make. It is left alone.
var ErrForeignSchema = errors.New("ledger: the schema " + Schema + " exists and is not the example's; rename it, or use another database")

// Install makes the schema anew with count accounts. Without unique, an account
// can have two invoices for a night.
func Install(ctx context.Context, conn *pgx.Conn, count int64, unique bool) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var ours bool
		err := tx.QueryRow(ctx, "SELECT coalesce(obj_description(to_regnamespace($1), 'pg_namespace') = $2, to_regnamespace($1) IS NULL)", Schema, mark).Scan(&ours)
		if err != nil {
			return err
		}
		if !ours {
			return ErrForeignSchema
		}
		script := "DROP SCHEMA IF EXISTS " + Schema + " CASCADE; CREATE SCHEMA " + Schema +
			"; COMMENT ON SCHEMA " + Schema + " IS '" + mark + "'; SET LOCAL search_path = " + Schema + ";" + tables
		if !unique {
			script += "ALTER TABLE invoices DROP CONSTRAINT invoice_once;"
		}
		if _, err := tx.Conn().PgConn().Exec(ctx, script).ReadAll(); err != nil {
			return err
		}
		return errors.Join(New(tx).OpenAccounts(ctx, count), New(tx).OpenJobs(ctx))
	})
	if err != nil && !errors.Is(err, ErrForeignSchema) {
		return fmt.Errorf("ledger: install: %w", err)
	}
	return err
}
