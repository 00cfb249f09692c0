package testenv_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fenced-go/fenced/internal/testenv"
)

// state is the letter that the kernel gives a process, "" when it is gone.
func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:1]
}

func gone(pid int) bool { s := state(pid); return s == "" || s == "Z" }

// family starts a shell with a grandchild in a session of its own, as the
// backends of Postgres are, and returns the process IDs of both.
func family(t *testing.T) (*testenv.Process, []int) {
	t.Helper()
	p := testenv.Start(t, exec.CommandContext(t.Context(), "sh", "-c", "setsid sleep 600 & echo $!; wait"))
	testenv.Eventually(t, soon, "the shell prints its child", func() bool { return strings.Contains(p.Output(), "\n") })
	child, err := strconv.Atoi(strings.TrimSpace(p.Output()))
	if err != nil {
		t.Fatal(err)
	}
	return p, []int{p.Pid(), child}
}

func TestPauseStopsTheWholeTree(t *testing.T) {
	t.Parallel()
	p, pids := family(t)
	for range 3 {
		p.Pause(t)
		for _, pid := range pids {
			testenv.Eventually(t, soon, "stopped", func() bool { return state(pid) == "T" })
		}
		p.Resume(t)
		for _, pid := range pids {
			testenv.Eventually(t, soon, "running", func() bool { return state(pid) == "S" })
		}
	}
}

func TestKillEndsTheWholeTreeEvenPaused(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		p, pids := family(t)
		if paused {
			p.Pause(t)
		}
		p.Kill(t)
		for _, pid := range pids {
			if !gone(pid) {
				t.Errorf("paused=%v: process %d is in state %s after Kill", paused, pid, state(pid))
			}
		}
		p.Kill(t) // no error
	}
}

func TestWaitReturnsHowAProcessEnded(t *testing.T) {
	t.Parallel()
	p := testenv.Start(t, exec.CommandContext(t.Context(), "sh", "-c", "echo out; echo err >&2; exit 3"))
	err := p.Wait(t, soon)
	if code := p.ExitCode(); err == nil || code != 3 {
		t.Errorf("got exit code %d, %v; want 3", code, err)
	}
	if got := p.Output(); got != "out\nerr\n" {
		t.Errorf("got output %q", got)
	}
}

// TestServersOutlivedBy is no test: it is run as a process of its own, starts
// servers, says so, and waits to be killed.
func TestServersOutlivedBy(t *testing.T) {
	which := os.Getenv("TESTENV_HOLD_SERVERS")
	if which == "" {
		return
	}
	info, _ := testenv.NewRedis(t).Do(t, "INFO", "server").(string)
	pids := regexp.MustCompile(`process_id:(\d+)`).FindStringSubmatch(info)[1]
	if which == "all" {
		lines := testenv.NewPostgres(t).Do(t, "", "SELECT pg_read_file('postmaster.pid')")[0][0]
		pid, _, _ := strings.Cut(lines, "\n")
		pids += " " + pid
	}
	_, _ = fmt.Fprintf(os.Stdout, "\nservers: %s\n", pids)
	select {}
}

func TestServersEndWithAKilledTestBinary(t *testing.T) {
	t.Parallel()
	p := testBinary(t, "TestServersOutlivedBy", "TESTENV_HOLD_SERVERS=all")
	var found []string
	testenv.Eventually(t, readyWithin, "the servers run", func() bool {
		found = regexp.MustCompile(`servers: (\d+) (\d+)\n`).FindStringSubmatch(p.Output())
		return found != nil
	})
	if err := syscall.Kill(p.Pid(), syscall.SIGKILL); err != nil { // the binary only, not its tree
		t.Fatal(err)
	}
	for _, text := range found[1:] {
		pid, _ := strconv.Atoi(text)
		testenv.Eventually(t, soon, "server "+text+" ends", func() bool { return gone(pid) })
	}
}
