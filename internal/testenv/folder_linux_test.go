package testenv_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/testenv"
)

func TestWhatAKilledTestBinaryLeftIsSwept(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	stale, fresh, other := filepath.Join(tmp, "fenced-test-redis-1"), filepath.Join(tmp, "fenced-test-redis-2"), filepath.Join(tmp, "else")
	for _, path := range []string{stale, fresh, other} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-time.Hour)
	for _, path := range []string{stale, other} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	hold := testBinary(t, "TestServersOutlivedBy", "TESTENV_HOLD_SERVERS=redis", "TMPDIR="+tmp)
	held := func() string {
		found, _ := filepath.Glob(filepath.Join(tmp, "fenced-test-redis-??*"))
		if len(found) != 1 {
			return ""
		}
		return found[0]
	}
	testenv.Eventually(t, readyWithin, "a server runs in the folder", func() bool { return held() != "" })
	inUse := held()
	testenv.Eventually(t, readyWithin, "it is old", func() bool { return os.Chtimes(inUse, old, old) == nil })
	if how, output := outcome(t, "TestKilledRedisForgetsWithoutPersistence", "TMPDIR="+tmp); how != "PASS" {
		t.Fatalf("%s: %s", how, output)
	}
	for path, want := range map[string]bool{stale: false, fresh: true, other: true, inUse: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: there is %v, want %v", path, err == nil, want)
		}
	}
	hold.Kill(t)
}
