package migrate

import (
	"context"
	"database/sql"
	"time"

	"github.com/fenced-go/fenced/migrations"
)

// ensureSchema creates the schema for goose's version table. Two creators at
// once are not told apart by IF NOT EXISTS: the later one fails, and then the
// schema is there.
func ensureSchema(ctx context.Context, db *sql.DB) error {
	there, err := exists(ctx, db, "SELECT to_regnamespace($1) IS NOT NULL", migrations.Schema)
	if err != nil || there {
		return err
	}
	_, err = db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+migrations.Schema)
	if err == nil {
		return nil
	}
	if there, _ := exists(ctx, db, "SELECT to_regnamespace($1) IS NOT NULL", migrations.Schema); there {
		return nil
	}
	return err
}

// appliedVersions reads goose's version table itself, because goose creates the
// table and takes the lock for the question.
func appliedVersions(ctx context.Context, db *sql.DB) (map[int64]time.Time, error) {
	there, err := exists(ctx, db, "SELECT to_regclass($1) IS NOT NULL", migrations.TableName)
	if err != nil || !there {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT version_id, tstamp::timestamptz FROM "+migrations.TableName+" WHERE is_applied")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	applied := make(map[int64]time.Time)
	for rows.Next() {
		var version int64
		var at time.Time
		if err := rows.Scan(&version, &at); err != nil {
			return nil, err
		}
		applied[version] = at
	}
	return applied, rows.Err()
}

func exists(ctx context.Context, db *sql.DB, query, name string) (bool, error) {
	var there bool
	err := db.QueryRowContext(ctx, query, name).Scan(&there)
	return there, err
}
