package fencedlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/internal/testenv"
)

// failing is a store that cannot be reached.
type failing struct{ err error }

func (f failing) Claim(context.Context, fencedstore.Fence) error { return f.err }

func TestInspectTellsWhoHolds(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), &fencedlock.Options{Label: "host a/12 x: y"})
	if s, err := l.Inspect(t.Context(), "r"); err != nil || s.String() != (fencedlock.Status{Resource: "r"}).String() || s.Newest != 0 || s.Nodes != nil {
		t.Errorf("never held: %+v, %v", s, err)
	}
	k := acquire(t, l, "r")
	srv.Do(t, "RPUSH", "fenced:{r}:queue", "one", "two")
	s, err := l.Inspect(t.Context(), "r")
	if err != nil || !s.Held || s.FenceID != k.Fence().ID || s.Label != "host a/12 x: y" || s.Queued != 2 || s.Newest < s.FenceID {
		t.Errorf("got %+v, %v", s, err)
	}
	if s.TTL <= 0 || s.TTL > fencedlock.DefaultTTL || !s.Since.Equal(k.Fence().Time()) {
		t.Errorf("TTL %v, since %v", s.TTL, s.Since)
	}
	if text := s.String(); !strings.Contains(text, "host a/12") || strings.Contains(text, k.Fence().Holder) {
		t.Errorf("printed as %s", text)
	}
	srv.Do(t, "SET", lockKey, "rubbish")
	if _, err := l.Inspect(t.Context(), "r"); !errors.Is(err, fencedlock.ErrConfig) {
		t.Errorf("a foreign value: %v", err)
	}
}

var odd = []string{"a", "user:1", "{x}", "a}b{c", "é✓", "100%", "%25", "*", "[a]?\\", " "}

// listed are the names that List yields, sorted.
func listed(t *testing.T, l *fencedlock.Locker, start string) []string {
	t.Helper()
	var names []string
	for s, err := range l.List(t.Context(), start) {
		if err != nil {
			t.Fatal(err)
		}
		if !s.Held || s.FenceID == 0 {
			t.Errorf("listed %+v", s)
		}
		names = append(names, s.Resource)
	}
	slices.Sort(names)
	return names
}

func TestListFindsEveryLockByItsName(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	rdb := client(t, srv.Addr())
	l := locker(t, rdb, &fencedlock.Options{Prefix: "app[1]*:"})
	other := locker(t, rdb, &fencedlock.Options{Prefix: "app1x:"})
	acquire(t, other, "not mine")
	var want, orders []string
	for _, name := range odd {
		want = append(want, acquire(t, l, name).Fence().Resource)
	}
	for i := range 1500 { // several steps of a SCAN
		orders = append(orders, acquire(t, l, fmt.Sprintf("order:%04d", i)).Fence().Resource)
	}
	if err := acquire(t, l, "released").Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, l, "order:"); !slices.Equal(got, orders) {
		t.Errorf("%d orders listed", len(got))
	}
	all := slices.Concat(want, orders)
	slices.Sort(all)
	if got := listed(t, l, ""); !slices.Equal(got, all) {
		t.Errorf("listed %d of %d", len(got), len(all))
	}
	for _, name := range odd {
		if got := listed(t, l, name); !slices.Contains(got, name) {
			t.Errorf("%q is not listed by its own name: %q", name, got)
		}
	}
	for _, err := range l.List(t.Context(), "") {
		if err != nil {
			t.Error(err)
		}
		break // is allowed
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range l.List(ctx, "") {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("an ended context: %v", err)
		}
	}
}

// TestSecretsAreInNoText prints everything that a program can get hold of, with
// every verb, and logs it.
func TestSecretsAreInNoText(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	srv.Do(t, "CONFIG", "SET", "requirepass", "hunter2")
	rdb := client(t, srv.Addr(), func(o *redis.Options) { o.Password = "hunter2" })
	opts := &fencedlock.Options{Hooks: &fencedlock.Hooks{}}
	l := locker(t, rdb, opts)
	k := acquire(t, l, "r")
	_, held := l.TryAcquire(t.Context(), "r", nil)
	status, _ := l.Inspect(t.Context(), "r")
	report, _ := l.Check(t.Context())
	mismatch := l.ForceRelease(t.Context(), "r", 1)
	if err := l.ForceRelease(t.Context(), "r", k.Fence().ID); err != nil {
		t.Fatal(err)
	}
	lost := k.Renew(t.Context())
	var nobody *fencedlock.Lock
	var nowhere *fencedlock.Locker
	for _, v := range []any{
		l, k,
		[]any{l, k},
		map[string]any{"k": k},
		struct{ K *fencedlock.Lock }{k},
		nobody, nowhere,
		k.Fence(), held, status, report, mismatch, lost, opts,
		&fencedlock.AcquireOptions{}, fencedlock.Forced, fencedlock.Critical,
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%T", "%t"} {
			check(t, k, fmt.Sprintf("%T %s", v, verb), fmt.Sprintf(verb, v))
		}
		for name, h := range map[string]func(*strings.Builder) slog.Handler{
			"text": func(b *strings.Builder) slog.Handler { return slog.NewTextHandler(b, nil) },
			"JSON": func(b *strings.Builder) slog.Handler { return slog.NewJSONHandler(b, nil) },
		} {
			var b strings.Builder
			slog.New(h(&b)).Info("x", "v", v)
			check(t, k, fmt.Sprintf("%T in %s", v, name), b.String())
		}
	}
	if got := fmt.Sprintf("%v", k); !strings.Contains(got, fmt.Sprint(k.Fence().ID)) {
		t.Errorf("a lock prints as %s", got)
	}
}

func check(t *testing.T, k *fencedlock.Lock, what, text string) {
	t.Helper()
	for _, secret := range []string{k.Fence().Holder, fmt.Sprintf("%x", k.Fence().Holder), "hunter2"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s has a secret: %s", what, text)
		}
	}
}

func TestInspectWithoutRedisIsUnavailable(t *testing.T) {
	t.Parallel()
	l := locker(t, client(t, "127.0.0.1:1"), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := l.Inspect(ctx, "r"); !errors.Is(err, fencedlock.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Inspect: %v", err)
	}
	for _, err := range l.List(t.Context(), "") {
		if !errors.Is(err, fencedlock.ErrUnavailable) {
			t.Errorf("List: %v", err)
		}
	}
}
