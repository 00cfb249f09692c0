package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// Harness makes the stores that are tested. Only New is required.
type Harness struct {
	// New returns an empty store that shares nothing with any other and
	// registers its own clean-up.
	New func(tb testing.TB) fencedstore.Store
	// Reopen returns another handle on the state of s, ideally through another
	// process or connection. nil skips the cases that need one and lets the
	// cases that race use s alone, which shows less.
	Reopen func(tb testing.TB, s fencedstore.Store) fencedstore.Store
	// LoseReply returns another handle on the state of s, whose next Write or
	// Claim takes effect while its answer is lost. The handle is as good as s
	// afterwards. nil skips the cases that need one.
	LoseReply func(tb testing.TB, s fencedstore.Store) fencedstore.Store
	// Skip names cases that are not run, each with the reason. A name that no
	// case has fails the test.
	Skip map[string]string
	// Parallel lets the cases run side by side.
	Parallel bool
}

// Env is what a [Case] needs of the world. [Run] makes it of a Harness.
type Env interface {
	// New returns an empty store that shares nothing with any other.
	New() fencedstore.Store
	// Reopen returns another handle on the state of s, false when it cannot.
	Reopen(s fencedstore.Store) (fencedstore.Store, bool)
	// LoseReply returns another handle on the state of s, whose next Write or
	// Claim takes effect while its answer is lost; false when it cannot.
	LoseReply(s fencedstore.Store) (fencedstore.Store, bool)
}

// ErrSkip is what a case returns when its Env cannot do what it needs.
var ErrSkip = errors.New("storetest: the harness cannot show this")

// CaseTimeout bounds each case in [Run]: its context ends then. A store whose
// calls go on for 10 s after that fails the case.
const CaseTimeout = time.Minute

const hangTimeout = 10 * time.Second

// Run tests the stores of h, with one subtest for each of [Cases].
func Run(t *testing.T, h Harness) {
	t.Helper()
	cases := Cases()
	if h.New == nil {
		t.Fatal("storetest: the harness has no New")
	}
	for name := range h.Skip {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.Name == name }) {
			t.Errorf("storetest: Skip names %q, which is no case", name)
		}
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if h.Parallel {
				t.Parallel()
			}
			if reason, ok := h.Skip[c.Name]; ok {
				t.Skip(reason)
			}
			report(t, c, watch(t.Context(), CaseTimeout, hangTimeout, c, harnessEnv{t, h}))
		})
	}
}

func report(tb testing.TB, c Case, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrSkip):
		tb.Skip(err)
	default:
		tb.Fatalf("%s\nThe rule: %s", err, c.Rule)
	}
}

// watch runs c within timeout. A case that has not returned by grace after it
// is left behind and reported with the stacks of all goroutines.
func watch(ctx context.Context, timeout, grace time.Duration, c Case, e Env) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done) // also when the harness ends the test
		err = c.Run(ctx, e)
	}()
	hung := time.NewTimer(timeout + grace)
	defer hung.Stop()
	select {
	case <-done:
		return err
	case <-hung.C:
		stacks := make([]byte, 1<<20)
		return fmt.Errorf("%s did not return: a call of the store ignored its context\n%s", c.Name, stacks[:runtime.Stack(stacks, true)])
	}
}

type harnessEnv struct {
	tb testing.TB
	h  Harness
}

// New implements [Env].
func (e harnessEnv) New() fencedstore.Store { return e.h.New(e.tb) }

// Reopen implements [Env].
func (e harnessEnv) Reopen(s fencedstore.Store) (fencedstore.Store, bool) {
	if e.h.Reopen == nil {
		return nil, false
	}
	return e.h.Reopen(e.tb, s), true
}

// LoseReply implements [Env].
func (e harnessEnv) LoseReply(s fencedstore.Store) (fencedstore.Store, bool) {
	if e.h.LoseReply == nil {
		return nil, false
	}
	return e.h.LoseReply(e.tb, s), true
}
