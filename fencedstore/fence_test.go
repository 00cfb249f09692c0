package fencedstore_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

var valid = fencedstore.Fence{Resource: "invoices", ID: 42, Holder: "4f1c"}

// with returns valid after change.
func with(change func(f *fencedstore.Fence)) fencedstore.Fence {
	f := valid
	change(&f)
	return f
}

func TestValidateAcceptsEveryWellFormedFence(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fencedstore.Fence{
		"usual":            valid,
		"smallest":         {Resource: "r", ID: 1, Holder: "h"},
		"largest":          {Resource: strings.Repeat("r", fencedstore.MaxResource), ID: math.MaxInt64, Holder: strings.Repeat("h", fencedstore.MaxHolder)},
		"any bytes":        {Resource: "\x00\xff{}/\\: %", ID: 1, Holder: "\x00\xff:"},
		"only white space": {Resource: " ", ID: 1, Holder: "\n"},
	} {
		if err := f.Validate(); err != nil {
			t.Errorf("%s: got %v, want nil", name, err)
		}
	}
}

func TestValidateNamesTheField(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, field string
		fence       fencedstore.Fence
	}{
		{"zero fence", "Resource", fencedstore.Fence{}},
		{"no resource", "Resource", with(func(f *fencedstore.Fence) { f.Resource = "" })},
		{"resource of 513 bytes", "Resource", with(func(f *fencedstore.Fence) { f.Resource = strings.Repeat("é", 256) + "x" })},
		{"ID 0", "ID", with(func(f *fencedstore.Fence) { f.ID = 0 })},
		{"ID -1", "ID", with(func(f *fencedstore.Fence) { f.ID = -1 })},
		{"smallest ID", "ID", with(func(f *fencedstore.Fence) { f.ID = math.MinInt64 })},
		{"no holder", "Holder", with(func(f *fencedstore.Fence) { f.Holder = "" })},
		{"holder of 129 bytes", "Holder", with(func(f *fencedstore.Fence) { f.Holder = strings.Repeat("h", 129) })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.fence.Validate()
			invalid, ok := errors.AsType[*fencedstore.InvalidFenceError](err)
			if !errors.Is(err, fencedstore.ErrInvalidFence) || !ok {
				t.Fatalf("got %v, want an *InvalidFenceError", err)
			}
			if invalid.Field != tt.field {
				t.Errorf("got field %q, want %q", invalid.Field, tt.field)
			}
			if _, err := tt.fence.MarshalText(); !errors.Is(err, fencedstore.ErrInvalidFence) {
				t.Errorf("MarshalText: got %v, want ErrInvalidFence", err)
			}
		})
	}
}

func TestValidateResourceCountsBytes(t *testing.T) {
	t.Parallel()
	if err := fencedstore.ValidateResource(strings.Repeat("é", 256)); err != nil {
		t.Errorf("512 bytes: got %v, want nil", err)
	}
	for _, name := range []string{"", strings.Repeat("é", 256) + "x"} {
		if err := fencedstore.ValidateResource(name); !errors.Is(err, fencedstore.ErrInvalidFence) {
			t.Errorf("%d bytes: got %v, want ErrInvalidFence", len(name), err)
		}
	}
}

func TestNewHolderIsFresh128Bits(t *testing.T) {
	t.Parallel()
	const n = 1000
	seen := make(map[string]bool, n)
	for range n {
		h := fencedstore.NewHolder()
		if b, err := hex.DecodeString(h); err != nil || len(b) != 16 || strings.ToLower(h) != h {
			t.Fatalf("got %d characters (%v), want 16 bytes in lower-case hexadecimal", len(h), err)
		}
		seen[h] = true
	}
	if len(seen) != n {
		t.Errorf("got %d different holders out of %d", len(seen), n)
	}
}

func TestTimeReadsTheIDAsMicroseconds(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 3, 1, 2, 0, 0, 123456000, time.UTC)
	f := fencedstore.Fence{Resource: "r", ID: began.UnixMicro(), Holder: "h"}
	if got := f.Time(); !got.Equal(began) {
		t.Errorf("got %v, want %v", got, began)
	}
}

func TestEveryVerbPrintsTheSame(t *testing.T) {
	t.Parallel()
	const want = `fence 42 on "invoices"`
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%10s"} {
		if got := fmt.Sprintf(verb, valid); got != want {
			t.Errorf("%s: got %s, want %s", verb, got, want)
		}
		if got := fmt.Sprintf(verb, &valid); got != want {
			t.Errorf("%s of a pointer: got %s, want %s", verb, got, want)
		}
	}
	odd := with(func(f *fencedstore.Fence) { f.Resource = "a\nb\"" })
	if got, want := fmt.Sprint(odd), `fence 42 on "a\nb\""`; got != want {
		t.Errorf("got %s, want %s: a resource must not forge a log line", got, want)
	}
}
