package fenced_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/internal/testenv"
	"github.com/fenced-go/fenced/internal/testenv/docker"
)

// newContainers is a Redis and a Postgres in containers of the test's own.
func newContainers(t *testing.T) (*testenv.Redis, *testenv.Postgres) {
	t.Helper()
	return docker.NewRedis(t), docker.NewPostgres(t)
}

// The reference service, built and run as a user would.
func TestContainerBilling(t *testing.T) {
	t.Parallel()
	redis, postgres := newContainers(t)
	bin := filepath.Join(t.TempDir(), "billing")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./examples/billing").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"safe", nil, 0, "12 accounts, 12 invoices, 0 duplicates, 1 stale writes refused"},
		{"unsafe", []string{"-unsafe"}, 3, " duplicates, 0 stale writes refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			args := append([]string{"-redis", "redis://" + redis.DirectAddr(), "-postgres", postgres.DirectURL("postgres")}, c.args...)
			cmd := exec.CommandContext(ctx, bin, args...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			_ = cmd.Run() // the exit code tells
			if got := cmd.ProcessState.ExitCode(); got != c.code || !strings.HasSuffix(out.String(), c.says+"\n") {
				t.Errorf("exit code %d, want %d and %q\n%s", got, c.code, c.says, &out)
			}
		})
	}
}

func TestContainerBillingGoesOnAfterRedisWasPaused(t *testing.T) {
	t.Parallel()
	redis, postgres := newContainers(t)
	e := prepare(t, redis, postgres, "postgres")
	a, b := e.worker(t, "a", nil), e.worker(t, "b", nil)
	first := a.must(t, "acquire", 0)
	a.must(t, "set", 1)
	redis.Pause(t)
	if r := a.ask(t, "wait", 0); !r.is("lost") {
		t.Errorf("the context ends with %+v, want *LostError", r)
	}
	b.tell(t, "acquire", 0)
	redis.Resume(t)
	second := b.hear(t)
	if second.Err != "" { // Redis answered too late: it is up to the caller to ask again
		second = b.must(t, "acquire", 0)
	}
	newer(t, first, second)
	b.must(t, "set", 3)
	refused(t, a, a.ask(t, "set", 4))
	if n := e.count(t); n != 3 {
		t.Errorf("the counter is %d, want 3", n)
	}
}

func TestContainerBillingDoublesNothingWhenPostgresIsKilled(t *testing.T) {
	t.Parallel()
	redis, postgres := newContainers(t)
	countThroughRestarts(t, prepare(t, redis, postgres, "postgres"))
}

func TestContainerBillingRefusesAHolderThatWasStopped(t *testing.T) {
	t.Parallel()
	redis, postgres := newContainers(t)
	stopPastTTL(t, prepare(t, redis, postgres, "postgres"), func() {})
}
