package main

import (
	"os"
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/testenv"
)

// TestMain makes this binary a worker where the experiment starts one.
func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		main()
	}
	testenv.Main(m)
}

// short is a run of seconds, on a machine that has something else to do as well.
func short(seed uint64) plan { return plan{Pauses: 12, Within: 2 * time.Minute, Seed: seed} }

// tryOut runs one contender on servers of the test's own.
func tryOut(t *testing.T, c contender, seed uint64) row {
	t.Helper()
	w := world{Redis: testenv.NewRedis(t).DirectAddr(), Postgres: testenv.Database(t)}
	r, err := measure(t.Context(), c, w, short(seed))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d: %+v", seed, r)
	if r.Pauses == 0 || r.Acknowledged == 0 {
		t.Fatalf("got %d pauses and %d writes: nothing was shown", r.Pauses, r.Acknowledged)
	}
	return r
}
