package migrate_test

import (
	"context"
	"database/sql"
	"log"
	"os"

	"github.com/fenced-go/fenced/migrations/migrate"
)

func ExampleUp() {
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL")) // import _ "github.com/jackc/pgx/v5/stdlib"
	if err != nil {
		log.Fatal(err)
	}
	steps, err := migrate.Up(context.Background(), db)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range steps {
		log.Println("applied", s.File)
	}
}
