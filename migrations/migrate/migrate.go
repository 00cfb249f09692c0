package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/fenced-go/fenced/migrations"
)

const (
	// LockID is the key of the advisory lock under which each step runs. It
	// differs from goose's own, so that an application may call [Up] while it
	// holds the lock of its own migrations.
	LockID int64 = 0x66656e636564 // "fenced"
	// LockTimeout is how long [Up] waits for another process that migrates.
	// A context may end the wait sooner.
	LockTimeout = 5 * time.Minute

	lockPoll = time.Second
)

// Step is one migration.
type Step struct {
	// Version is the number that the file's name begins with.
	Version int64
	// File is its name in migrations.FS.
	File string
	// AppliedAt is when it was applied; the zero time when it is pending.
	AppliedAt time.Time
}

// Up applies every pending migration and returns those that it applied itself,
// none when there was nothing to do. It is safe to call from any number of
// processes at once; see the package documentation. When a step fails the
// earlier ones stay, and are returned with the error.
//
// db may be limited to one connection. Its driver is the caller's choice, if its
// errors have an SQLState method: pgx's (import _
// "github.com/jackc/pgx/v5/stdlib") and lib/pq do.
func Up(ctx context.Context, db *sql.DB) ([]Step, error) {
	return up(ctx, db, migrations.FS)
}

// Status lists all migrations, oldest first. It changes nothing, takes no lock
// and works on an empty database, where all are pending.
func Status(ctx context.Context, db *sql.DB) ([]Step, error) {
	steps, err := status(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("migrate: status: %w", err)
	}
	return steps, nil
}

func up(ctx context.Context, db *sql.DB, files fs.FS) ([]Step, error) {
	steps, err := apply(ctx, db, files)
	if err != nil {
		return steps, fmt.Errorf("migrate: up: %w", err)
	}
	return steps, nil
}

func apply(ctx context.Context, db *sql.DB, files fs.FS) ([]Step, error) {
	if db == nil {
		return nil, errors.New("db is nil")
	}
	if err := ensureSchema(ctx, db); err != nil {
		return nil, fmt.Errorf("create schema: %w", err)
	}
	p, err := provider(db, files)
	if err != nil {
		return nil, err
	}
	done, err := whileBusy(ctx, time.Now().Add(LockTimeout), func() ([]*goose.MigrationResult, error) {
		return p.Up(ctx) // takes no lock where nothing is pending
	})
	steps := make([]Step, 0, len(done))
	for _, r := range done {
		steps = append(steps, step(r.Source, time.Now()))
	}
	return steps, err
}

func status(ctx context.Context, db *sql.DB) ([]Step, error) {
	if db == nil {
		return nil, errors.New("db is nil")
	}
	p, err := provider(db, migrations.FS)
	if err != nil {
		return nil, err
	}
	applied, err := appliedVersions(ctx, db)
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, s := range p.ListSources() {
		steps = append(steps, step(s, applied[s.Version]))
	}
	return steps, nil
}

func step(s *goose.Source, at time.Time) Step {
	return Step{Version: s.Version, File: path.Base(s.Path), AppliedAt: at}
}

// provider is goose with nothing of the application's in it: neither its Go
// migrations nor its version table. The steps lock by themselves.
func provider(db *sql.DB, files fs.FS) (*goose.Provider, error) {
	return goose.NewProvider(goose.DialectPostgres, db, locked{files},
		goose.WithTableName(migrations.TableName),
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	)
}
