package fencedstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

type otherKey struct{}

func TestContextCarriesTheFence(t *testing.T) {
	t.Parallel()
	outer := fencedstore.NewContext(t.Context(), valid)
	cancelled, cancel := context.WithCancel(outer)
	cancel()
	for name, ctx := range map[string]context.Context{
		"itself":            outer,
		"cancelled child":   cancelled,
		"detached child":    context.WithoutCancel(cancelled),
		"child with values": context.WithValue(outer, otherKey{}, 1),
	} {
		if got, err := fencedstore.FromContext(ctx); err != nil || got != valid {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, valid)
		}
	}
	inner := with(func(f *fencedstore.Fence) { f.Resource = "accounts" })
	if got, err := fencedstore.FromContext(fencedstore.NewContext(outer, inner)); err != nil || got != inner {
		t.Errorf("inner: got %v, %v, want %v", got, err, inner)
	}
	if got, err := fencedstore.FromContext(outer); err != nil || got != valid {
		t.Errorf("outer after inner: got %v, %v, want %v", got, err, valid)
	}
}

func TestContextWithoutAUsableFence(t *testing.T) {
	t.Parallel()
	var none context.Context
	for name, ctx := range map[string]context.Context{"nil": none, "bare": t.Context()} {
		if got, err := fencedstore.FromContext(ctx); !errors.Is(err, fencedstore.ErrNoFence) || got != (fencedstore.Fence{}) {
			t.Errorf("%s: got %v, %v, want ErrNoFence", name, got, err)
		}
	}
	if _, err := fencedstore.FromContext(fencedstore.NewContext(t.Context(), fencedstore.Fence{})); !errors.Is(err, fencedstore.ErrInvalidFence) {
		t.Errorf("zero fence: got %v, want ErrInvalidFence", err)
	}
}

func TestNewContextPanicsOnNil(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("got no panic")
		}
	}()
	var none context.Context
	fencedstore.NewContext(none, valid)
}

func TestContextTellsTheRestOfALease(t *testing.T) {
	t.Parallel()
	left := 3 * time.Second
	ctx := fencedstore.NewLeaseContext(t.Context(), valid, func() time.Duration { return left })
	if got, err := fencedstore.FromContext(ctx); err != nil || got != valid {
		t.Errorf("fence: got %v, %v, want %v", got, err, valid)
	}
	if got, known := fencedstore.Remaining(ctx); got != left || !known {
		t.Errorf("remaining: got %v, %v, want %v, true", got, known, left)
	}
	left = 0
	if got, known := fencedstore.Remaining(ctx); got != 0 || !known {
		t.Errorf("remaining of an ended lease: got %v, %v, want 0, true", got, known)
	}
	var none context.Context
	for name, ctx := range map[string]context.Context{
		"nil": none, "bare": t.Context(), "fence only": fencedstore.NewContext(ctx, valid),
	} {
		if got, known := fencedstore.Remaining(ctx); known || got != 0 {
			t.Errorf("%s: got %v, %v, want 0, false", name, got, known)
		}
	}
}

// A context prints the values it carries by their String method.
func TestPrintingAContextDoesNotShowTheHolder(t *testing.T) {
	t.Parallel()
	if got := fmt.Sprint(fencedstore.NewContext(t.Context(), valid)); strings.Contains(got, valid.Holder) {
		t.Errorf("got %s, which shows the holder", got)
	}
}
