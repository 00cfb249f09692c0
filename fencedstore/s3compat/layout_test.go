package s3compat_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// recipe is that of docs/s3-layout.md, where the entry has been looked up.
const recipe = `set -eu
[ "$(head -n 1 register)" = "fenced-register 1 sha256=$(tail -n +2 register | sha256sum | cut -d' ' -f1)" ]
tail -n +3 register | tail -c +$((OFFSET + 1)) | head -c SIZE`

func TestAShellReadsAValue(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "head", "tail", "sha256sum", "cut"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs a shell with its usual tools: %v", err)
		}
	}
	doc, err := os.ReadFile("../../docs/s3-layout.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(recipe, "\n")[1:2] {
		if !strings.Contains(string(doc), line) {
			t.Errorf("docs/s3-layout.md does not have %s", line)
		}
	}
	srv := newFake(t)
	n := naive{t, srv.client(), srv, "fenced/invoices/"}
	s := open(t, srv, nil)
	claim(t, s, by(alice, 5))
	value := []byte("line\nline\x00\xff\n\n")
	put(t, s, by(alice, 5), "a", []byte("12345"))
	put(t, s, by(alice, 5), "b", value)
	put(t, s, by(alice, 5), "c", []byte("more"))
	register, _ := n.get("register")
	if !strings.Contains(register, `"offset":"5"`) || !strings.Contains(register, `"size":"13"`) {
		t.Fatalf("no such entry in %s", register)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "register"), []byte(register), 0o600); err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer("OFFSET", "5", "SIZE", "13").Replace(recipe)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = dir
	got, err := cmd.Output()
	if err != nil || !bytes.Equal(got, value) {
		t.Errorf("got %q, %v, want %q", got, err, value)
	}
}
