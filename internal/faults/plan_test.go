package faults_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenced-go/fenced/internal/faults"
)

// recorder makes faults that write down what is done to them.
type recorder struct{ done []string }

func (r *recorder) fault(lane, name string, longest time.Duration) faults.Fault {
	return faults.Fault{
		Name: name + " " + lane, Lane: lane, Longest: longest,
		Begin: func() { r.done = append(r.done, "begin "+name+" "+lane) },
		End:   func() { r.done = append(r.done, "end "+name+" "+lane) },
	}
}

func (r *recorder) faults() []faults.Fault {
	return []faults.Fault{
		r.fault("redis", "pause", time.Second), r.fault("redis", "cut", time.Second), r.fault("redis", "flush", 0),
		r.fault("postgres", "pause", time.Second), r.fault("postgres", "kill", 2*time.Second),
	}
}

func TestPlanIsMadeBySeedAlone(t *testing.T) {
	t.Parallel()
	var r recorder
	all := r.faults()
	a, b, c := faults.Plan(1, time.Minute, all), faults.Plan(1, time.Minute, all), faults.Plan(2, time.Minute, all)
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed made another plan")
	}
	if reflect.DeepEqual(a, c) {
		t.Error("another seed made the same plan")
	}
}

func TestPlanKeepsFaultsOfALaneApartAndUsesThemAll(t *testing.T) {
	t.Parallel()
	var r recorder
	all := r.faults()
	for seed := range uint64(50) {
		steps := faults.Plan(seed, 20*time.Second, all)
		free := map[string]time.Duration{}
		used := map[string]int{}
		overlaps := false
		for i, s := range steps {
			f := s.Fault
			if s.At <= free[f.Lane] || s.End > 20*time.Second || s.End < s.At || s.End-s.At > f.Longest {
				t.Fatalf("seed %d: %s from %v to %v, its lane is free from %v", seed, f.Name, s.At, s.End, free[f.Lane])
			}
			if i > 0 && s.At < steps[i-1].At {
				t.Fatalf("seed %d: step %d begins before the one ahead of it", seed, i)
			}
			for lane, until := range free {
				overlaps = overlaps || lane != f.Lane && s.At < until
			}
			free[f.Lane] = s.End
			used[f.Name]++
		}
		if len(used) != len(all) {
			t.Errorf("seed %d: only %v were used in 20 s", seed, used)
		}
		if !overlaps {
			t.Errorf("seed %d: no two faults were at work at once", seed)
		}
	}
}

func TestRunUndoesWhatItHasDone(t *testing.T) {
	t.Parallel()
	for _, within := range []time.Duration{time.Hour, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var r recorder
			var h faults.History
			steps := faults.Plan(7, 20*time.Second, r.faults())
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			start := time.Now()
			faults.Run(ctx, steps, &h)
			if took := time.Since(start); took > min(within, 20*time.Second) {
				t.Errorf("it took %v", took)
			}
			open := []string{}
			for _, what := range r.done {
				if name, ok := strings.CutPrefix(what, "begin "); ok {
					open = append(open, name)
				} else if name, ok := strings.CutPrefix(what, "end "); ok {
					i := slices.Index(open, name)
					if i < 0 {
						t.Fatalf("%s ended and had not begun", name)
					}
					open = slices.Delete(open, i, i+1)
				}
			}
			if len(open) != 0 {
				t.Errorf("%v were not undone", open)
			}
			if n := len(h.Harms()); n == 0 || 2*n != len(r.done) {
				t.Errorf("%d faults are in the history, %d things were done", n, len(r.done))
			}
		})
	}
}

func TestFaultsWhoseTimeHasPassedAreLeftOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h faults.History
		slow := faults.Fault{Name: "slow", Lane: "a", Longest: time.Second, Begin: func() { <-time.After(5 * time.Second) }}
		quick := faults.Fault{Name: "quick", Lane: "b", Longest: time.Second, Begin: func() {}}
		steps := []faults.Step{
			{Fault: &slow, At: time.Second, End: 2 * time.Second},
			{Fault: &quick, At: 3 * time.Second, End: 4 * time.Second},
			{Fault: &quick, At: 6 * time.Second, End: 7 * time.Second},
		}
		faults.Run(t.Context(), steps, &h)
		var names []string
		for _, harm := range h.Harms() {
			names = append(names, harm.Name)
		}
		if want := []string{"slow", "quick"}; !slices.Equal(names, want) {
			t.Errorf("it did %v, want %v", names, want)
		}
	})
}
