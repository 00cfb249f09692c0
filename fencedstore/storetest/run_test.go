package storetest_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/storetest"
)

// harness makes the stores of e.
func harness(e env) storetest.Harness {
	return storetest.Harness{
		New: func(testing.TB) fencedstore.Store { return e.New() },
		Reopen: func(_ testing.TB, s fencedstore.Store) fencedstore.Store {
			other, _ := e.Reopen(s)
			return other
		},
		LoseReply: func(_ testing.TB, s fencedstore.Store) fencedstore.Store {
			other, _ := e.LoseReply(s)
			return other
		},
		Parallel: true,
	}
}

func TestRunPassesACorrectStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness(env{}))
}

// children are runs that TestChild makes in a process of its own, where they
// may fail.
var children = []struct {
	name    string
	harness func() storetest.Harness
	passes  bool
	says    []string
}{
	{
		"wrong store",
		func() storetest.Harness {
			all := mutants()
			i := slices.IndexFunc(all, func(m mutant) bool { return m.name == "writes, then refuses" })
			return harness(env{all[i]})
		},
		false,
		[]string{"--- FAIL: TestChild/write-refused-changes-nothing", "The rule: A refused write has no effect at all", "--- PASS: TestChild/claim-repeats"},
	},
	{
		"no handles",
		func() storetest.Harness { return storetest.Harness{New: harness(env{}).New} },
		true,
		[]string{"--- SKIP: TestChild/reopen-keeps-marks", "--- SKIP: TestChild/unknown-write-converges", "the harness cannot show this", "--- PASS: TestChild/any-sequence"},
	},
	{
		"skipped case",
		func() storetest.Harness {
			h := harness(env{})
			h.Skip = map[string]string{"any-sequence": "too slow here"}
			return h
		},
		true,
		[]string{"--- SKIP: TestChild/any-sequence", "too slow here"},
	},
	{
		"unknown name skipped",
		func() storetest.Harness {
			h := harness(env{})
			h.Skip = map[string]string{"any-sequense": "misspelt"}
			return h
		},
		false,
		[]string{`Skip names "any-sequense", which is no case`},
	},
	{
		"no New",
		func() storetest.Harness { return storetest.Harness{} },
		false,
		[]string{"the harness has no New"},
	},
	{
		"harness gives up",
		func() storetest.Harness {
			return storetest.Harness{New: func(tb testing.TB) fencedstore.Store {
				tb.Helper()
				tb.Fatal("no server")
				return nil
			}}
		},
		false,
		[]string{"no server", "--- FAIL: TestChild/any-sequence"},
	},
}

const childEnv = "FENCED_STORETEST_CHILD"

func TestRunReports(t *testing.T) {
	t.Parallel()
	for _, child := range children {
		t.Run(child.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$", "-test.v")
			cmd.Env = append(os.Environ(), childEnv+"="+child.name)
			out, err := cmd.CombinedOutput()
			if passed := err == nil; passed != child.passes {
				t.Errorf("passed: got %t, want %t", passed, child.passes)
			}
			for _, want := range child.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("got no %q in:\n%s", want, out)
				}
			}
		})
	}
}

func TestChild(t *testing.T) {
	for _, child := range children {
		if child.name == os.Getenv(childEnv) {
			storetest.Run(t, child.harness())
			return
		}
	}
	t.Skip("run by TestRunReports")
}

func BenchmarkToy(b *testing.B) { storetest.Bench(b, harness(env{})) }
