package fencedstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/fencedstore"
)

var sentinels = map[string]error{
	"ErrStale":          fencedstore.ErrStale,
	"ErrFenceReused":    fencedstore.ErrFenceReused,
	"ErrNotClaimed":     fencedstore.ErrNotClaimed,
	"ErrNoFence":        fencedstore.ErrNoFence,
	"ErrInvalidFence":   fencedstore.ErrInvalidFence,
	"ErrUnknownOutcome": fencedstore.ErrUnknownOutcome,
	"ErrNotFound":       fencedstore.ErrNotFound,
}

// typed returns one error of each struct, with the sentinel it answers to and
// its text.
func typed(f fencedstore.Fence) []struct {
	err  error
	is   string
	text string
} {
	return []struct {
		err  error
		is   string
		text string
	}{
		{&fencedstore.StaleError{Fence: f, Newest: 43}, "ErrStale", `fencedstore: fence 42 on "invoices" is stale: 43 was claimed`},
		{&fencedstore.FenceReusedError{Fence: f}, "ErrFenceReused", `fencedstore: fence 42 on "invoices" was claimed by another holder`},
		{&fencedstore.NotClaimedError{Fence: f}, "ErrNotClaimed", `fencedstore: fence 42 on "invoices" was not claimed here: nothing was`},
		{&fencedstore.NotClaimedError{Fence: f, Newest: 41}, "ErrNotClaimed", `fencedstore: fence 42 on "invoices" was not claimed here: 41 is the newest claim`},
		{&fencedstore.InvalidFenceError{Field: "ID", Reason: "must be positive"}, "ErrInvalidFence", `fencedstore: invalid fence: ID must be positive`},
		{&fencedstore.UnknownOutcomeError{Op: "commit", Fence: f}, "ErrUnknownOutcome", `fencedstore: outcome of commit with fence 42 on "invoices" unknown`},
		{&fencedstore.UnknownOutcomeError{Op: "claim", Fence: f, Err: context.DeadlineExceeded}, "ErrUnknownOutcome", `fencedstore: outcome of claim with fence 42 on "invoices" unknown: context deadline exceeded`},
	}
}

func TestErrorsAnswerToTheirOwnSentinelOnly(t *testing.T) {
	t.Parallel()
	for _, tt := range typed(valid) {
		if got := tt.err.Error(); got != tt.text {
			t.Errorf("got  %s\nwant %s", got, tt.text)
		}
		wrapped := fmt.Errorf("billing: run: %w", tt.err)
		for name, sentinel := range sentinels {
			if got, want := errors.Is(wrapped, sentinel), name == tt.is; got != want {
				t.Errorf("%v: errors.Is %s: got %t, want %t", tt.err, name, got, want)
			}
		}
	}
}

func TestErrorsCarryTheirFacts(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("billing: %w", &fencedstore.StaleError{Fence: valid, Newest: 43})
	stale, ok := errors.AsType[*fencedstore.StaleError](err)
	if !ok || stale.Fence != valid || stale.Newest != 43 {
		t.Errorf("got %+v, want the refused fence and the newest ID", stale)
	}
	cause := errors.New("connection reset")
	err = fmt.Errorf("billing: %w", &fencedstore.UnknownOutcomeError{Op: "write", Fence: valid, Err: cause})
	if !errors.Is(err, cause) {
		t.Errorf("got %v, want the cause to be reachable", err)
	}
	if got := errors.Unwrap(&fencedstore.UnknownOutcomeError{Op: "write", Fence: valid}); got != nil {
		t.Errorf("without a cause: got %v, want nil", got)
	}
}

func TestSentinelsHaveThePackagePrefixOnce(t *testing.T) {
	t.Parallel()
	for name, err := range sentinels {
		if got := err.Error(); !strings.HasPrefix(got, "fencedstore: ") || strings.Count(got, "fencedstore") != 1 {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// TestNothingPrintedShowsTheHolder prints fences and errors in all the ways a
// program logs them.
func TestNothingPrintedShowsTheHolder(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef"
	f := with(func(f *fencedstore.Fence) { f.Holder = secret })
	values := []any{f, &f, []fencedstore.Fence{f}, map[string]fencedstore.Fence{"f": f}, struct{ F fencedstore.Fence }{f}}
	for _, e := range typed(f) {
		values = append(values, e.err, fmt.Errorf("wrapped: %w", e.err), errors.Join(e.err, fencedstore.ErrNoFence),
			&fencedstore.UnknownOutcomeError{Op: "write", Fence: f, Err: e.err})
	}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if got := fmt.Sprintf(verb, v); reveals(got, secret) {
				t.Errorf("%s of %T: %s", verb, v, got)
			}
		}
	}
	for _, v := range append([]any{f, &f}, errorsOf(values)...) {
		if got := logged(v); reveals(got, secret) {
			t.Errorf("slog of %T: %s", v, got)
		}
	}
}

// reveals looks for the secret as it is and in hexadecimal.
func reveals(text, secret string) bool {
	return strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret))
}

func errorsOf(values []any) (errs []any) {
	for _, v := range values {
		if _, ok := v.(error); ok {
			errs = append(errs, v)
		}
	}
	return errs
}

// logged returns v as both handlers of log/slog write it.
func logged(v any) string {
	var b bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(h).WithGroup("g").With("with", v).Info("m", "v", v, slog.Group("group", "v", v))
	}
	return b.String()
}

func TestLogShowsResourceAndID(t *testing.T) {
	t.Parallel()
	got := logged(valid)
	for _, want := range []string{"v.resource=invoices", "v.id=42", `"v":{"resource":"invoices","id":42}`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want it to contain %s", got, want)
		}
	}
}
