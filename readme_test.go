package fenced_test

import (
	"os"
	"strings"
	"testing"
)

func TestReadmeShowsCodeThatCompiles(t *testing.T) {
	t.Parallel()
	readme, example := text(t, "README.md"), text(t, "example_test.go")
	_, rest, found := strings.Cut(readme, "\n```go\n")
	block, _, closed := strings.Cut(rest, "\n```\n")
	if !found || !closed {
		t.Fatal("README.md has no Go block")
	}
	if !strings.Contains(example, block+"\n") {
		t.Errorf("the first Go block of README.md is not in example_test.go:\n%s", block)
	}
}

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
