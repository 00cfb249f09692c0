package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedstore/storetest"
)

func caseByName(tb testing.TB, name string) storetest.Case {
	tb.Helper()
	for _, c := range storetest.Cases() {
		if c.Name == name {
			return c
		}
	}
	tb.Fatalf("no case is called %q", name)
	return storetest.Case{}
}

func TestEveryMutantFailsItsCases(t *testing.T) {
	t.Parallel()
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range m.fails {
				err := storetest.Watch(t.Context(), time.Minute, time.Minute, caseByName(t, name), env{m})
				if err == nil || errors.Is(err, storetest.ErrSkip) {
					t.Errorf("%s: got %v, want it to fail", name, err)
				}
				t.Logf("%s: %v", name, err)
			}
		})
	}
}

func TestEveryCaseFailsOnSomeMutant(t *testing.T) {
	t.Parallel()
	all := mutants()
	for _, c := range storetest.Cases() {
		if !slices.ContainsFunc(all, func(m mutant) bool { return slices.Contains(m.fails, c.Name) }) {
			t.Errorf("%s: no mutant fails it, so it tests nothing", c.Name)
		}
	}
}

func TestTheStoreThatMutantsAreMadeOfPasses(t *testing.T) {
	t.Parallel()
	for _, c := range storetest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := storetest.Watch(t.Context(), time.Minute, time.Minute, c, env{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCasesAreNamedAndExplained(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range storetest.Cases() {
		if c.Name == "" || strings.Trim(c.Name, "abcdefghijklmnopqrstuvwxyz-") != "" || seen[c.Name] {
			t.Errorf("name %q: want lower-case words, used once", c.Name)
		}
		seen[c.Name] = true
		if !strings.HasSuffix(c.Rule, ".") {
			t.Errorf("%s: rule %q: want a sentence", c.Name, c.Rule)
		}
	}
}

func TestACaseThatHangsIsReported(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	hangs := storetest.Case{Name: "hangs", Run: func(context.Context, storetest.Env) error {
		<-release
		return nil
	}}
	err := storetest.Watch(t.Context(), time.Millisecond, 20*time.Millisecond, hangs, env{})
	if err == nil || !strings.Contains(err.Error(), "hangs did not return") || !strings.Contains(err.Error(), "goroutine ") {
		t.Errorf("got %v, want the case's name and the stacks", err)
	}
	obeys := storetest.Case{Name: "obeys", Run: func(ctx context.Context, _ storetest.Env) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	if err := storetest.Watch(t.Context(), time.Millisecond, time.Minute, obeys, env{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the case's own error", err)
	}
}
