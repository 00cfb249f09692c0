package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

// A holder claims its fence, and then works under the guard of it. f comes from
// a lock: fencedlock.Lock.Fence.
func Example() {
	ctx, f := context.Background(), fencedstore.Fence{}
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := fencedpg.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Check(ctx); err != nil {
		log.Fatal(err) // says what to run
	}
	if err := store.Claim(ctx, f); err != nil {
		log.Fatal(err)
	}
	err = store.InTx(ctx, f, func(tx pgx.Tx) error {
		var balance int64
		if err := tx.QueryRow(ctx, "select balance from account where id = 7").Scan(&balance); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "update account set balance = $1 where id = 7", balance-10)
		return err
	})
	switch {
	case err == nil: // committed
	case errors.Is(err, fencedstore.ErrStale):
		log.Print("somebody else has taken over: stop")
	case errors.Is(err, fencedstore.ErrUnknownOutcome):
		log.Print("it may have been committed: look, or do it again in a way that may be repeated")
	default:
		log.Print("nothing was committed: ", err)
	}
}

// A repository on sqlc's DBTX is guarded by handing it Repo; each call finds its
// fence in the context.
func ExampleStore_Repo() {
	var store *fencedpg.Store // from New
	var f fencedstore.Fence   // from the lock
	repo := store.Repo()      // in real life: db.New(store.Repo())
	ctx := fencedstore.NewContext(context.Background(), f)
	tag, err := repo.Exec(ctx, "update account set closed = true where id = $1", 7)
	switch {
	case err != nil:
		log.Fatal(err)
	case tag.RowsAffected() == 0:
		log.Print("no such account") // a stale fence would be an error
	}
}

// A batch and its guard are one transaction and one round trip.
func ExampleStore_SendBatch() {
	var store *fencedpg.Store
	var f fencedstore.Fence
	b := &pgx.Batch{}
	b.Queue("update account set balance = balance - 10 where id = $1", 7)
	b.Queue("insert into invoice (account, amount) values ($1, 10) returning id", 7).QueryRow(func(row pgx.Row) error {
		var id int64
		return row.Scan(&id)
	})
	if err := store.SendBatch(context.Background(), f, b); err != nil {
		log.Fatal(err)
	}
}

// Transactions of database/sql are guarded by their first statement.
func ExampleGuardSQL() {
	var db *sql.DB
	var f fencedstore.Fence
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := fencedpg.GuardSQL(ctx, tx, f); err != nil {
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "update account set balance = 0 where id = 7"); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
}

// The tables of a resource are protected once, in a migration of the
// application, first on trial.
func ExampleProtect() {
	ctx := context.Background()
	var migration pgx.Tx // or a pool
	onTrial := &fencedpg.ProtectOptions{WarnOnly: true}
	if err := fencedpg.Protect(ctx, migration, "public.stock", "stock", onTrial); err != nil {
		log.Fatal(err)
	}
	// SELECT * FROM fencedstore.warnings tells who would be refused. When nobody
	// is left:
	if err := fencedpg.Protect(ctx, migration, "public.stock", "stock", nil); err != nil {
		log.Fatal(err)
	}
}

// Rows of one table may belong to different resources, here tenant/7 and so on.
func ExampleProtectBy() {
	var migration pgx.Tx
	if err := fencedpg.ProtectBy(context.Background(), migration, "invoice", "tenant_id", "tenant/", nil); err != nil {
		log.Fatal(err)
	}
}

// Where every row is a resource of its own, the row carries the mark.
func ExampleStore_Rows() {
	ctx := context.Background()
	var store *fencedpg.Store
	var f fencedstore.Fence // of the lock "account/7"
	accounts, err := store.Rows(pgx.Identifier{"public", "account"}, "id")
	if err != nil {
		log.Fatal(err)
	}
	changed, err := accounts.Update(ctx, f, map[string]any{"balance": 12, "note": "closed"}, 7)
	switch {
	case errors.Is(err, fencedstore.ErrStale):
		log.Print("somebody newer has written the row: stop")
	case errors.Is(err, fencedstore.ErrNotFound):
		log.Print("there is no such row")
	case err != nil:
		log.Fatal(err)
	case !changed:
		log.Print("a trigger left the row as it was")
	}
}

// Marks of resources that nobody has used for a month are forgotten.
func ExampleStore_Forget() {
	var store *fencedpg.Store // of a role that may execute fencedstore.forget
	for {
		n, err := store.Forget(context.Background(), 30*24*time.Hour, nil)
		if err != nil {
			log.Fatal(err)
		}
		if n < fencedpg.DefaultForgetMax {
			break
		}
	}
}
