package fencedlock_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedlock/locktest"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
	"github.com/fenced-go/fenced/internal/testenv"
)

func TestEvictedLockIsLostAndTheNextFenceIsHigher(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"allkeys-random", "volatile-ttl"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			srv := testenv.NewRedis(t)
			l := locker(t, client(t, srv.Addr()), &fencedlock.Options{RenewEvery: 9 * time.Second})
			k := acquire(t, l, "r")
			if got := worst(t, l, "eviction"); got != 0 {
				t.Errorf("before: %v", got)
			}
			srv.Do(t, "CONFIG", "SET", "maxmemory-policy", policy)
			srv.Do(t, "CONFIG", "SET", "maxmemory", "1") // evicts all it may
			_, _ = srv.TryDo("SET", "more", "data")
			testenv.Eventually(t, patience, "the keys are evicted", func() bool {
				return srv.Do(t, "EXISTS", lockKey) == int64(0) && srv.Do(t, "EXISTS", counterKey) == int64(0)
			})
			if got := worstAnyway(t, l, "eviction"); got != fencedlock.Critical {
				t.Errorf("Check: %v", got)
			}
			srv.Do(t, "CONFIG", "SET", "maxmemory", "0")
			if err := k.Renew(t.Context()); reason(err) != fencedlock.Expired {
				t.Errorf("Renew: %v", err)
			}
			if next := acquire(t, l, "r"); next.Fence().ID <= k.Fence().ID {
				t.Errorf("fence %d after %d", next.Fence().ID, k.Fence().ID)
			}
		})
	}
}

// worstAnyway is worst for a server that grants no locks.
func worstAnyway(t *testing.T, l *fencedlock.Locker, name string) fencedlock.Severity {
	t.Helper()
	r, err := l.Check(t.Context())
	if err != nil && !errors.Is(err, fencedlock.ErrUnavailable) {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		if f.Name == name {
			return f.Severity
		}
	}
	return 0
}

func TestRestartWithItsDataKeepsTheLock(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	l := locker(t, client(t, srv.Addr()), nil)
	k := acquire(t, l, "r")
	srv.Kill(t)
	srv.Start(t)
	testenv.Eventually(t, patience, "the lock is renewed", func() bool { return k.Renew(t.Context()) == nil })
	if _, err := l.TryAcquire(t.Context(), "r", nil); !errors.Is(err, fencedlock.ErrHeld) {
		t.Errorf("TryAcquire: %v", err)
	}
}

func TestRestartWithoutItsDataEndsTheLockAndTheStoreDecides(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	store := memstore.New()
	l := locker(t, client(t, srv.Addr()), &fencedlock.Options{Stores: []fencedstore.Claimer{store}, RenewEvery: 9 * time.Second})
	k := acquire(t, l, "r")
	srv.Kill(t)
	srv.Start(t)
	next := acquire(t, l, "r") // while the old holder knows nothing
	if next.Fence().ID <= k.Fence().ID {
		t.Errorf("fence %d after %d", next.Fence().ID, k.Fence().ID)
	}
	if err := store.Write(t.Context(), k.Fence(), "k", nil); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("a write of the old holder: %v", err)
	}
	if err := k.Renew(t.Context()); reason(err) != fencedlock.Taken {
		t.Errorf("Renew: %v", err)
	}
}

// TestRestoredRedisIssuesHigherFences restores a counter that is behind both
// what was issued and what the store has seen, which is ahead of all clocks.
func TestRestoredRedisIssuesHigherFences(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	store := memstore.New()
	rdb := client(t, srv.Addr())
	ahead := time.Now().Add(time.Hour).UnixMicro()
	if err := store.Claim(t.Context(), fencedstore.Fence{Resource: "r", ID: ahead, Holder: "zombie"}); err != nil {
		t.Fatal(err)
	}
	srv.Do(t, "SET", counterKey, "40")
	with := acquire(t, locker(t, rdb, &fencedlock.Options{Stores: []fencedstore.Claimer{store}}), "r")
	if with.Fence().ID <= ahead {
		t.Errorf("with the store: fence %d, it has seen %d", with.Fence().ID, ahead)
	}
	if err := with.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	seed := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(line(t, "SET fenced:"), "invoices", "s"), "1790000000000000", strconv.FormatInt(ahead, 10)))
	srv.Do(t, seed...)
	if seeded := acquire(t, locker(t, rdb, nil), "s"); seeded.Fence().ID <= ahead {
		t.Errorf("seeded by %q: fence %d", seed, seeded.Fence().ID)
	}
}

// line is the line of docs/operations.md that begins like this.
func line(t *testing.T, start string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(l), start) {
			return l
		}
	}
	t.Fatalf("no line begins with %s", start)
	return ""
}

func TestRestoredStoreIsRaisedByOneAcquisition(t *testing.T) {
	t.Parallel()
	srv := locktest.Start(t)
	backup, store := memstore.New(), memstore.New() // of before the newer holder, and lost
	older := acquire(t, srv.Locker(t, &fencedlock.Options{Stores: []fencedstore.Claimer{backup}}), "r")
	if err := older.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	newer := acquire(t, srv.Locker(t, &fencedlock.Options{Stores: []fencedstore.Claimer{store}}), "r")
	if err := newer.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The backup is restored: it accepts whom it remembers, and not the newer.
	if err := backup.Write(t.Context(), older.Fence(), "k", nil); err != nil {
		t.Errorf("the risk is gone, change the document: %v", err)
	}
	if err := backup.Write(t.Context(), newer.Fence(), "k", nil); err == nil {
		t.Error("a holder whose claim was lost can write")
	}
	raise := srv.Locker(t, &fencedlock.Options{Stores: []fencedstore.Claimer{backup}})
	if err := raise.Do(t.Context(), "r", nil, func(context.Context, fencedstore.Fence) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, f := range []fencedstore.Fence{older.Fence(), newer.Fence()} {
		if err := backup.Write(t.Context(), f, "k", nil); !errors.Is(err, fencedstore.ErrStale) {
			t.Errorf("%v, after the mark was raised: %v", f, err)
		}
	}
}

func TestEqualLabelsAreDifferentHolders(t *testing.T) {
	t.Parallel()
	srv := locktest.Start(t)
	one := srv.Locker(t, &fencedlock.Options{Label: "job-9"})
	two := srv.Locker(t, &fencedlock.Options{Label: "job-9"})
	k := acquire(t, one, "r")
	for _, l := range []*fencedlock.Locker{one, two} {
		if _, err := l.TryAcquire(t.Context(), "r", nil); !errors.Is(err, fencedlock.ErrHeld) {
			t.Errorf("TryAcquire: %v", err)
		}
	}
	if err := k.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next := acquire(t, two, "r"); next.Fence().ID <= k.Fence().ID || next.Fence().Holder == k.Fence().Holder {
		t.Errorf("%v after %v", next.Fence(), k.Fence())
	}
}

func TestConnectionToADemotedPrimaryIsDroppedWithinOneRetry(t *testing.T) {
	t.Parallel()
	old, next := testenv.NewRedis(t), testenv.NewRedis(t)
	target := make(chan string, 1)
	target <- old.DirectAddr()
	readonly := 0
	count := func(o *redis.Options) { o.PoolSize = 1 }
	rdb := client(t, old.DirectAddr(), switched(target), count)
	rdb.AddHook(refusals{&readonly})
	l := locker(t, rdb, nil)
	if err := acquire(t, l, "warm").Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-target
	target <- next.DirectAddr()
	old.Do(t, "REPLICAOF", "127.0.0.1", "1") // which lives on
	acquire(t, l, "r")
	if readonly != 1 || next.Do(t, "EXISTS", lockKey) != int64(1) {
		t.Errorf("refused %d times, want 1", readonly)
	}
}

// refusals counts the answers READONLY.
type refusals struct{ n *int }

func (refusals) DialHook(next redis.DialHook) redis.DialHook { return next }

func (refusals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r refusals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil && strings.HasPrefix(err.Error(), "READONLY") {
			*r.n++
		}
		return err
	}
}

// TestGuaranteesNameTestsThatExist keeps the documents honest that name tests.
func TestGuaranteesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	var text []byte
	for _, name := range []string{"guarantees", "security", "formats"} {
		b, err := os.ReadFile("../docs/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	out, err := exec.CommandContext(t.Context(), "grep", "-rhoE", `^func (Test|Fuzz)[A-Za-z0-9_]+\(`, "--include=*_test.go", "..").Output()
	if err != nil {
		t.Skip("no grep here: ", err)
	}
	names := regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
	if len(names) < 20 {
		t.Errorf("only %d tests are named", len(names))
	}
	have := strings.Split(string(out), "\n")
	for _, m := range names {
		if !slices.Contains(have, "func "+m[1]+"(") {
			t.Errorf("there is no %s", m[1])
		}
	}
}

// TestEveryFaultInTheGuaranteesHasATest reads the rows of the table of faults.
func TestEveryFaultInTheGuaranteesHasATest(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Fault by fault")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := 0
	for l := range strings.Lines(table) {
		if !strings.HasPrefix(l, "| ") || strings.HasPrefix(l, "| fault") {
			continue
		}
		rows++
		if !strings.Contains(l, "`Test") {
			t.Errorf("no test in: %s", l)
		}
	}
	if rows < 10 {
		t.Errorf("%d rows", rows)
	}
}
