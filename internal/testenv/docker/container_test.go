package docker_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/testenv"
	"github.com/fenced-go/fenced/internal/testenv/docker"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const soon = time.Minute

func TestRedisContainerPausesDiesAndComesBack(t *testing.T) {
	r := docker.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	r.Do(t, "SET", "k", "v")
	r.Pause(t)
	answered := make(chan error, 1)
	go func() {
		_, err := r.TryDo("INCR", "n")
		answered <- err
	}()
	r.Resume(t)
	if err := <-answered; err != nil {
		t.Errorf("after the pause: %v", err)
	}
	addr := r.DirectAddr()
	r.Kill(t)
	if _, err := r.TryDo("PING"); err == nil {
		t.Error("a killed server answers")
	}
	r.Start(t)
	if got := r.Do(t, "GET", "k"); got != "v" {
		t.Errorf("after the restart: got %v, want v", got)
	}
	if r.DirectAddr() != addr {
		t.Errorf("the address moved from %s to %s", addr, r.DirectAddr())
	}
}

func TestContainerIsOffItsNetworkUntilItIsConnected(t *testing.T) {
	r, p := docker.NewRedis(t), docker.NewPostgres(t)
	r.Do(t, "SET", "k", "v")
	p.Do(t, "", "CREATE TABLE t (n int)")
	addr := r.DirectAddr()
	r.Disconnect(t)
	p.Disconnect(t)
	if _, err := r.TryDo("PING"); err == nil {
		t.Error("a server without a network answers")
	}
	r.Connect(t)
	p.Connect(t)
	if got := r.Do(t, "GET", "k"); got != "v" || r.DirectAddr() != addr {
		t.Errorf("afterwards: got %v at %s, want v at %s", got, r.DirectAddr(), addr)
	}
	p.Do(t, "", "INSERT INTO t VALUES (1)")
}

func TestPostgresContainerKeepsWhatItCommitted(t *testing.T) {
	p := docker.NewPostgres(t, "-c", "max_connections=20")
	if got := p.Do(t, "", "SHOW max_connections")[0][0]; got != "20" {
		t.Errorf("max_connections: got %s, want the argument's 20", got)
	}
	p.Do(t, "", "CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
	p.Kill(t)
	p.Start(t)
	if rows := p.Do(t, "", "SELECT n FROM t"); len(rows) != 1 {
		t.Errorf("after the restart: got rows %v, want one", rows)
	}
	p.Pause(t) // and ends although it is paused
}

func TestContainerModeServesWhateverIsAsked(t *testing.T) {
	docker.NewRedis(t) // or there are no containers
	t.Setenv("FENCED_TEST_MODE", "docker")
	r := testenv.NewRedis(t)
	if got := r.Do(t, "PING"); got != "PONG" {
		t.Errorf("got %v", got)
	}
	if !strings.Contains(r.Log(), "Ready to accept connections") {
		t.Errorf("the log does not say that it is ready: %s", r.Log())
	}
	if rows := testenv.SharedPostgres(t).Do(t, "", "SELECT 1"); len(rows) != 1 {
		t.Errorf("got %v", rows)
	}
}

// A machine without an engine or an image sees these as skips.
func TestMissingContainersSayWhatHelps(t *testing.T) {
	const test = "TestRedisContainerPausesDiesAndComesBack"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  []string
		says string
	}{
		{"no engine", []string{"DOCKER_HOST=unix:///nowhere/docker.sock"}, "no Docker engine answers"},
		{"ruled out", []string{"FENCED_TEST_MODE=local"}, "FENCED_TEST_MODE=local rules it out"},
		{"no image", []string{"FENCED_TEST_REDIS_IMAGE=fenced-test/none:local", "FENCED_TEST_NO_PULL=1"}, "images/build.sh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+test+"$", "-test.v", "-test.count=1")
			cmd.Env = append(append(os.Environ(), "FENCED_TEST_REQUIRE=", "FENCED_TEST_MODE="), c.env...)
			p := testenv.Start(t, cmd)
			if err := p.Wait(t, soon); err != nil {
				t.Errorf("%v: %s", err, p.Output())
			}
			if out := p.Output(); !strings.Contains(out, "--- SKIP: "+test) || !strings.Contains(out, c.says) {
				t.Errorf("want a skip that says %q: %s", c.says, out)
			}
		})
	}
}
