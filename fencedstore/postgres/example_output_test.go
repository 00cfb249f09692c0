package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

func ExampleNew() {
	_, err := fencedpg.New(nil, &fencedpg.Options{LockTimeout: time.Second})
	_, _ = fmt.Fprintln(os.Stdout, err)
	// Output: postgres: db is nil
}

func ExampleSchemaError() {
	err := error(&fencedpg.SchemaError{Have: 1, Want: 2})
	_, _ = fmt.Fprintln(os.Stdout, errors.Is(err, fencedpg.ErrSchema))
	_, _ = fmt.Fprintln(os.Stdout, err)
	// Output:
	// true
	// postgres: schema fencedstore has version 1, older than 2: run migrate.Up of github.com/fenced-go/fenced/migrations/migrate, or goose -table fencedstore.goose_version up
}

func ExampleRightsError() {
	err := &fencedpg.RightsError{Role: "app", Missing: []string{"USAGE ON SCHEMA fencedstore", "EXECUTE ON FUNCTION fencedstore.claim"}}
	_, _ = fmt.Fprintln(os.Stdout, err)
	// Output: postgres: rights missing: run GRANT USAGE ON SCHEMA fencedstore TO app; GRANT EXECUTE ON FUNCTION fencedstore.claim TO app;
}

func ExampleUnfencedError() {
	server := &pgconn.PgError{Severity: "ERROR", Code: "ZF004", Detail: "stock", Message: `UPDATE on public.stock is refused: it is fenced by "stock"`}
	err := error(&fencedpg.UnfencedError{Resource: "stock", Err: server})
	_, _ = fmt.Fprintln(os.Stdout, errors.Is(err, fencedstore.ErrNoFence))
	_, _ = fmt.Fprintln(os.Stdout, err)
	// Output:
	// true
	// postgres: no fence was shown: ERROR: UPDATE on public.stock is refused: it is fenced by "stock" (SQLSTATE ZF004)
}
