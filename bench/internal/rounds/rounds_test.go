package rounds_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenced-go/fenced/bench/internal/rounds"
)

// pausing is an operation that takes d of synthetic time.
func pausing(d time.Duration) func(context.Context, int) error {
	return func(context.Context, int) error {
		<-time.After(d)
		return nil
	}
}

func plan(n, workers int) rounds.Plan {
	return rounds.Plan{
		Name: "test", Rounds: n, Slice: 100 * time.Millisecond, Workers: workers,
		Rand: rand.New(rand.NewPCG(1, 2)),
	}
}

func TestRatioIsThatOfTheVariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := plan(5, 4).Run(t.Context(),
			rounds.Variant{Name: "slow", Do: pausing(10 * time.Millisecond)},
			rounds.Variant{Name: "quick", Do: pausing(2 * time.Millisecond)})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Ratio(rounds.P50, "slow", "quick").Mid; got != 5 {
			t.Errorf("p50: got %v, want 5", got)
		}
		if got := r.Ratio(rounds.PerSecond, "slow", "quick").Mid; got < 0.19 || got > 0.21 {
			t.Errorf("per second: got %v, want 0.2", got)
		}
		if got := r.Median(rounds.PerSecond, "slow").Mid; got != 400 {
			t.Errorf("got %v a second, want 400 of four workers", got)
		}
		if got := r.Quiet("slow", "quick"); got != 5 {
			t.Errorf("quiet: got %v, want 5", got)
		}
	})
}

func TestWhatComesBeforeAndAfterIsNotTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := ""
		step := func(name string, d time.Duration) func(context.Context, int) error {
			return func(ctx context.Context, worker int) error {
				order += name
				return pausing(d)(ctx, worker)
			}
		}
		r, err := plan(1, 1).Run(t.Context(), rounds.Variant{
			Name: "v", Do: step("d", 60*time.Millisecond),
			Before: step("b", 70*time.Millisecond), After: step("a", 30*time.Millisecond),
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Median(rounds.P50, "v").Mid; got != float64(60*time.Millisecond) {
			t.Errorf("p50: got %v, want 60ms", time.Duration(got))
		}
		if order != "bdabda" {
			t.Errorf("order of two rounds: got %q", order)
		}
	})
}

func TestMedianLeavesOutASpoiledRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slices := 0
		r, err := plan(5, 1).Run(t.Context(), rounds.Variant{Name: "v", Do: func(context.Context, int) error {
			slices++
			d := 100 * time.Millisecond // one operation a slice
			if slices == 4 {
				d *= 50
			}
			<-time.After(d)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Median(rounds.P50, "v").Mid; got != float64(100*time.Millisecond) {
			t.Errorf("got %v, want 100 ms", time.Duration(got))
		}
	})
}

func TestOrderIsShuffledAndRepeatable(t *testing.T) {
	order := func(t *testing.T) (names string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var vs []rounds.Variant
			for _, name := range []string{"a", "b", "c"} {
				vs = append(vs, rounds.Variant{Name: name, Do: func(context.Context, int) error {
					names += name
					<-time.After(time.Second)
					return nil
				}})
			}
			if _, err := plan(20, 1).Run(t.Context(), vs...); err != nil {
				t.Fatal(err)
			}
		})
		return names
	}
	first := order(t)
	if again := order(t); again != first {
		t.Errorf("the same seed gives %s and %s", first, again)
	}
	seen := map[string]bool{}
	for round := range slices.Chunk([]byte(first), 3) {
		seen[string(round)] = true
	}
	if len(first) != 3*21 || len(seen) < 4 {
		t.Errorf("got orders %v in %d slices, want most of six in 63", seen, len(first))
	}
}

var sink atomic.Pointer[[64]byte]

func TestAllocationsAreThoseOfTheOperation(t *testing.T) {
	r, err := plan(9, 1).Run(t.Context(), rounds.Variant{Name: "two", Do: func(context.Context, int) error {
		sink.Store(new([64]byte))
		sink.Store(new([64]byte))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Median(rounds.Allocs, "two").Mid; got < 2 || got > 2.1 {
		t.Errorf("got %v, want 2", got)
	}
}

func TestErrorEndsTheComparison(t *testing.T) {
	want := errors.New("broken")
	_, err := plan(3, 2).Run(t.Context(), rounds.Variant{Name: "v", Do: func(_ context.Context, worker int) error {
		if worker == 1 {
			return want
		}
		return nil
	}})
	if !errors.Is(err, want) || !strings.Contains(err.Error(), "test: v: ") {
		t.Errorf("got %v, want %v with plan and variant", err, want)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(want)
	if _, err := plan(3, 1).Run(ctx, rounds.Variant{Name: "v", Do: pausing(0)}); !errors.Is(err, want) {
		t.Errorf("got %v, want the cause of the context", err)
	}
}

func TestReportEndsWithOneLineForEachGoal(t *testing.T) {
	var r rounds.Report
	at := func(v float64) rounds.Spread { return rounds.Spread{Low: v / 2, Mid: v, High: v * 2} }
	r.AtMost("good", at(1.0549), 1.05) // as printed
	r.AtMost("bad", at(1.0551), 1.05)
	r.AtLeast("enough", at(0.845), 0.85)
	r.AtLeast("little", at(1.99), 2)
	var out strings.Builder
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := "ratio: good 1.05 goal <= 1.05\nratio: bad 1.06 goal <= 1.05\n" +
		"ratio: enough 0.84 goal >= 0.85\nratio: little 1.99 goal >= 2\n"
	if !strings.HasSuffix(out.String(), "\n\n"+want) {
		t.Errorf("got %s\nwant it to end with\n%s", &out, want)
	}
	if got := r.Missed(); got != 3 {
		t.Errorf("got %d missed, want 3", got)
	}
}

func TestMissedGoalFailsOnlyWhenChecked(t *testing.T) {
	miss := func(_ context.Context, p *rounds.Program) error {
		p.Report.AtMost("n", rounds.Spread{Mid: 2}, 1)
		return nil
	}
	for check, fails := range map[string]bool{"": false, "0": false, "1": true} {
		t.Setenv("CHECK", check)
		var out strings.Builder
		err := rounds.Start(t.Context(), &out, []string{"bench", "-seed", "7"}, miss)
		if (err != nil) != fails {
			t.Errorf("CHECK=%s: got %v", check, err)
		}
		if !strings.Contains(out.String(), "seed 7,") || !strings.HasSuffix(out.String(), "ratio: n 2.00 goal <= 1\n") {
			t.Errorf("CHECK=%s: got %s", check, &out)
		}
	}
}
