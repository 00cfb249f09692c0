package migrate_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	"github.com/fenced-go/fenced/migrations/migrate"
)

func ExampleUp() {
	ctx := context.Background()
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	defer db.Close()
	steps, err := migrate.Up(ctx, db)
	if err != nil {
		panic(err)
	}
	for _, s := range steps {
		fmt.Fprintln(os.Stdout, "applied", s.File)
	}
}
