package compat_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The code that docs/postgres.md shows is code that runs here.
func TestDocumentedCodeIsWhatRuns(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range files {
		all.WriteString(read(t, name))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "../docs/postgres.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("docs/postgres.md has no Go block")
	}
	for _, block := range blocks {
		if !strings.Contains(all.String(), block[1]) {
			t.Errorf("a block of docs/postgres.md is not here:\n%s", block[1])
		}
	}
}

func read(tb testing.TB, name string) string {
	tb.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}
