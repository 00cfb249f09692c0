package migrations_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/migrations"
)

func TestFilesAreWhatGooseReads(t *testing.T) {
	t.Parallel()
	entries, err := fs.ReadDir(migrations.FS, ".")
	if err != nil || len(entries) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	named := regexp.MustCompile(`^\d{5}_[a-z_]+\.sql$`)
	for _, e := range entries {
		data, err := fs.ReadFile(migrations.FS, e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if !named.MatchString(e.Name()) {
			t.Errorf("%s: want NNNNN_name.sql", e.Name())
		}
		for _, part := range []string{"-- +goose Up\n", "-- +goose Down\n"} {
			if strings.Count(string(data), part) != 1 {
				t.Errorf("%s: want %q once", e.Name(), part)
			}
		}
	}
}
