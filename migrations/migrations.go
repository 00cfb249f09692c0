package migrations

import "embed"

// FS holds the migrations as goose reads them: NNNNN_name.sql at its root,
// each with an Up and a Down part.
//
//go:embed *.sql
var FS embed.FS

const (
	// Schema is the database schema in which everything lives.
	Schema = "fencedstore"
	// TableName is the table in which goose keeps the versions of these
	// migrations. It stays apart from the application's own version table and
	// is dumped and restored with the schema that it describes.
	TableName = Schema + ".goose_version"
)
