package fenced_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sabotageEnv has the sabotaged builds made and tested, which takes minutes; make
// sabotage sets it.
const sabotageEnv = "FENCED_TEST_SABOTAGE"

// damaged returns copies of the files with the piece removed, by name. A text that
// is not there any more is an error: the table is out of date.
func (s sabotage) damaged() (map[string]string, error) {
	names, err := filepath.Glob(s.file)
	if err != nil {
		return nil, err
	}
	files := make(map[string]string)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(b), s.text) {
			files[name] = strings.ReplaceAll(string(b), s.text, s.by)
		}
	}
	if len(files) == 0 {
		return nil, errors.New(s.file + " does not contain " + s.text)
	}
	return files, nil
}

// overlay has the go command read damaged files in place of those in the tree,
// which stays as it is.
func (s sabotage) overlay(t *testing.T) string {
	t.Helper()
	files, err := s.damaged()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := make(map[string]string)
	for name, text := range files {
		original, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		replace[original] = filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// goTest runs one test in a build of its own and says whether the test failed.
// That it could not be built, or was not run, ends our test.
func goTest(t *testing.T, c catch, args ...string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	args = append([]string{"test", "-count=1", "-vet=off", "-timeout=4m", "-v", "-run", "^" + c.test + "$"}, append(args, c.pkg)...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, sabotageEnv+"=") })
	// the fault suite is to have the time and the luck to see something
	cmd.Env = append(cmd.Env, "FENCED_TEST_MODE=local", "FENCED_TEST_FAULTS=20s", "FENCED_TEST_SEED=1")
	out, err := cmd.CombinedOutput()
	switch text := string(out); {
	case strings.Contains(text, "--- FAIL: "+c.test+" "), strings.Contains(text, "panic: "):
		return true
	case err == nil && strings.Contains(text, "--- PASS: "+c.test+" "):
		return false
	case strings.Contains(text, "--- SKIP: "+c.test+" "):
		t.Skipf("%s was skipped: %s", c.test, out)
	}
	t.Fatalf("go %s: %v: %s", strings.Join(args, " "), err, out)
	return false
}

func TestSabotageIsCaught(t *testing.T) {
	if os.Getenv(sabotageEnv) == "" {
		t.Skip("this takes minutes: set " + sabotageEnv + ", or run make sabotage")
	}
	for _, s := range sabotages {
		t.Run(s.name, func(t *testing.T) {
			overlay := s.overlay(t)
			for _, c := range s.caught {
				tries := 1
				if c.pkg == "." {
					tries = 4 // the fault suite sees by luck
				}
				for tries > 0 && !goTest(t, c, "-overlay", overlay) {
					tries--
				}
				if tries == 0 {
					t.Errorf("without it %s in %s passes", c.test, c.pkg)
				}
			}
		})
	}
}

// A test that fails anyway shows nothing.
func TestWhatCatchesSabotagePassesWithoutIt(t *testing.T) {
	if os.Getenv(sabotageEnv) == "" {
		t.Skip("this takes minutes: set " + sabotageEnv + ", or run make sabotage")
	}
	seen := map[catch]bool{}
	for _, s := range sabotages {
		for _, c := range s.caught {
			if seen[c] {
				continue
			}
			seen[c] = true
			if goTest(t, c) {
				t.Errorf("%s in %s fails", c.test, c.pkg)
			}
		}
	}
}

func TestSabotageTableIsUpToDate(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, s := range sabotages {
		if names[s.name] || len(s.caught) == 0 {
			t.Errorf("%q is there twice, or caught by nothing", s.name)
		}
		names[s.name] = true
		if _, err := s.damaged(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		for _, c := range s.caught {
			if !testExists(t, c) {
				t.Errorf("%s: there is no %s in %s", s.name, c.test, c.pkg)
			}
		}
	}
}

func testExists(t *testing.T, c catch) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		b, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(b), "\nfunc "+c.test+"(t *testing.T) {")
	})
}
