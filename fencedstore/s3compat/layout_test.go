package s3compat_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

// recipe is the script of docs/s3-layout.md, with a stand-in for the AWS command
// line.
func recipe(t *testing.T, resource, key string) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/s3-layout.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, ok := strings.Cut(string(doc), "```sh\n")
	script, _, ok2 := strings.Cut(script, "```")
	if !ok || !ok2 || !strings.Contains(script, "resource=billing%2F2026-12\nkey=total.csv\n") {
		t.Fatalf("docs/s3-layout.md has no such recipe:\n%s", script)
	}
	script = strings.Replace(script, "billing%2F2026-12\nkey=total.csv", resource+"\nkey="+key, 1)
	return "set -eu\naws() { cp \"store/${3#s3://bucket/}\" \"$4\"; }\n" + script
}

// mirror copies what a server holds into files below a folder.
func mirror(t *testing.T, srv server, dir string) {
	t.Helper()
	n := naive{t, srv.client(), srv, ""}
	for _, key := range objects(t, srv, "") {
		body, _ := n.get(key)
		name := filepath.Join(dir, filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAShellReadsAValue(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "jq", "head", "tail", "sed", "grep", "sha256sum", "cut"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs a shell with its usual tools and jq: %v", err)
		}
	}
	values := map[string][]byte{"a": []byte("12345"), "b": []byte("line\nline\x00\xff\n\n"), "c": []byte("more"), "large": pattern(20_000)}
	for name, version := range map[string]int{"entries in the register": 1, "entries elsewhere": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newFake(t)
			s := open(t, srv, nil)
			claim(t, s, by(alice, 5))
			if version == 2 {
				fill(t, s, by(alice, 5))
			}
			for key, value := range values {
				put(t, s, by(alice, 5), key, value)
			}
			wantFormat(t, srv, s3compat.DefaultPrefix+"/invoices/", version)
			dir := t.TempDir()
			mirror(t, srv, filepath.Join(dir, "store"))
			for key, value := range values {
				shellReads(t, dir, recipe(t, resource, key), value)
			}
		})
	}
}

// shellReads runs the recipe. It leaves the value in a file, and prints the
// checksum of that last.
func shellReads(t *testing.T, dir, script string, want []byte) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := os.ReadFile(filepath.Join(dir, "value"))
	if err != nil || !bytes.Equal(got, want) || !bytes.Contains(out, fmt.Appendf(nil, "%x", sha256.Sum256(want))) {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, len(want))
	}
}
