package model_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/internal/model"
)

// limit bounds memory and time; every exploration here is well below it.
const limit = 3_000_000

// explore fails the test when an exploration does not get to its end.
func explore[S comparable](t *testing.T, m model.Model[S], until model.Rule) *model.Result {
	t.Helper()
	r, err := m.Explore(limit, until)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states, %d steps", r.States, r.Steps)
	return r
}

// keeps checks that no rule can be broken.
func keeps[S comparable](t *testing.T, m model.Model[S]) {
	t.Helper()
	for rule, trace := range explore(t, m, 0).Broken {
		t.Errorf("not %v:\n%v", rule, trace)
	}
}

// breaks checks that a rule can be broken, and shows how.
func breaks[S comparable](t *testing.T, m model.Model[S], rule model.Rule) {
	t.Helper()
	if trace := explore(t, m, rule).Broken[rule]; trace == nil {
		t.Errorf("%v is kept", rule)
	} else {
		t.Logf("not %v:\n%v", rule, trace)
	}
}

// ring has n places; one goes round forward by one or by three.
func ring(n int) model.Model[int] {
	return model.Model[int]{
		Steps: func(at int, happens func(model.Step[int])) {
			for _, by := range []int{1, 3} {
				step := model.Step[int]{Text: model.Text{Format: "forward by %d", Args: [3]uint8{uint8(by)}}, To: (at + by) % n}
				if step.To == n-1 {
					step.Breaks = model.Unique
				}
				happens(step)
			}
		},
		Lacks: func(at int) (r model.Rule) {
			if at == 4 {
				r = model.Served
			}
			return r
		},
	}
}

func TestExplorationVisitsAllAndFindsTheShortestWays(t *testing.T) {
	t.Parallel()
	r := explore(t, ring(8), 0)
	if r.States != 8 || r.Steps != 16 {
		t.Errorf("%d states and %d steps, want 8 and 16", r.States, r.Steps)
	}
	if got, want := len(r.Broken[model.Unique]), 3; got != want { // 1 + 3 + 3
		t.Errorf("7 is reached in %d steps, want %d:\n%v", got, want, r.Broken[model.Unique])
	}
	if got, want := r.Broken[model.Served].String(), "1. forward by 1\n2. forward by 3  <== not Served\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if _, ok := r.Broken[model.Rising]; ok {
		t.Error("a rule that no step breaks is broken")
	}
}

func TestExplorationEndsEarly(t *testing.T) {
	t.Parallel()
	if r := explore(t, ring(200), model.Served); r.States == 200 {
		t.Error("all was visited, though the rule in question had been broken")
	}
	if _, err := ring(200).Explore(100, 0); !errors.Is(err, model.ErrTooManyStates) {
		t.Errorf("got %v, want %v", err, model.ErrTooManyStates)
	}
}

func TestFirstStateMayBreakARule(t *testing.T) {
	t.Parallel()
	m := ring(3)
	m.Lacks = func(int) model.Rule { return model.Served }
	if got := explore(t, m, 0).Broken[model.Served].String(); !strings.Contains(got, "not Served") {
		t.Errorf("got %q", got)
	}
}

func TestHistoriesAreChecked(t *testing.T) {
	t.Parallel()
	first := model.Tenure{Asked: 10, Got: 20, Fence: 5}
	for _, c := range []struct {
		what   string
		second model.Tenure
		want   model.Rule
	}{
		{"later and higher", model.Tenure{21, 30, 6}, 0},
		{"at once and lower", model.Tenure{15, 30, 4}, 0},
		{"asked for in the moment of the other's return", model.Tenure{20, 30, 4}, 0},
		{"later and lower", model.Tenure{21, 30, 4}, model.Rising},
		{"later and equal", model.Tenure{21, 30, 5}, model.Unique | model.Rising},
		{"at once and equal", model.Tenure{15, 30, 5}, model.Unique},
		{"earlier and higher", model.Tenure{1, 9, 6}, model.Rising},
		{"around it and equal", model.Tenure{1, 90, 5}, model.Unique},
	} {
		for _, history := range [][]model.Tenure{{first, c.second}, {c.second, first}} {
			var got model.Rule
			err := model.Check(history)
			if broken, ok := errors.AsType[*model.BrokenError](err); ok {
				got = broken.Rule
			}
			if got != c.want {
				t.Errorf("%s: got %v, want broken: %v", c.what, err, c.want)
			}
		}
	}
}
