package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"
)

// endWithin bounds the wait for a killed process to be gone.
const endWithin = 20 * time.Second

// Process is a child process that ends with the test binary, however that ends
// (on Linux; elsewhere with the test).
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; read after done
	out  *tail
}

// Start runs cmd and kills it, with everything it started, when the test ends.
// Unless cmd says otherwise, both its outputs go to [Process.Output]. cmd must
// not have pipes: they are closed when the process ends.
func Start(tb testing.TB, cmd *exec.Cmd) *Process {
	tb.Helper()
	p, err := startProcess(cmd)
	if err != nil {
		tb.Fatalf("testenv: start %s: %v", cmd.Path, err)
	}
	tb.Cleanup(func() {
		if err := p.kill(); err != nil {
			tb.Errorf("testenv: %v", err)
		}
	})
	return p
}

func startProcess(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{}), out: new(tail)}
	if cmd.Stdout == nil {
		cmd.Stdout = p.out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.out
	}
	cmd.WaitDelay = 5 * time.Second // a grandchild may keep the pipe open
	if err := startChild(cmd); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Pid is the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Exited is closed once the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.done }

// Output is the end of what the process has printed, up to a megabyte.
func (p *Process) Output() string { return p.out.String() }

// ExitCode is how an ended process ended, -1 when by a signal or not yet.
func (p *Process) ExitCode() int {
	if p.running() {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// Wait waits for the process to end by itself and returns what
// [exec.Cmd.Wait] does. It fails the test when within passes before.
func (p *Process) Wait(tb testing.TB, within time.Duration) error {
	tb.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(within):
		tb.Fatalf("testenv: process %d has not ended within %v: %s", p.Pid(), within, p.Output())
		return nil
	}
}

// Pause stops the process and all that it started, as SIGSTOP does: like a
// machine that is suspended, or a very long garbage collection.
func (p *Process) Pause(tb testing.TB) {
	tb.Helper()
	harm(tb, "process", "pause", p.pause)
}

// Resume lets a paused process go on.
func (p *Process) Resume(tb testing.TB) {
	tb.Helper()
	harm(tb, "process", "resume", p.resume)
}

// Kill is kill -9 of the process and all that it started, and waits until they
// are gone. A process that has ended already is no error.
func (p *Process) Kill(tb testing.TB) {
	tb.Helper()
	harm(tb, "process", "kill", p.kill)
}

func (p *Process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *Process) pause() error {
	if !p.running() {
		return os.ErrProcessDone
	}
	_, err := stopTree(p.Pid())
	return err
}

func (p *Process) resume() error {
	if !p.running() {
		return os.ErrProcessDone
	}
	return resumeTree(p.Pid())
}

func (p *Process) kill() error {
	if !p.running() {
		return nil
	}
	pids, _ := stopTree(p.Pid()) // stopped, it starts no more children
	killAll(pids)
	return p.await(pids)
}

// await waits for all of them: only the first is a child to wait for.
func (p *Process) await(pids []int) error {
	gone := poll(endWithin, func() bool {
		return !p.running() && !slices.ContainsFunc(pids[min(1, len(pids)):], alive)
	})
	if !gone {
		return fmt.Errorf("process %d is still there %v after kill -9", p.Pid(), endWithin)
	}
	return nil
}

// ask sends a signal and gives the process time to end, then kills it.
func (p *Process) ask(sig os.Signal, within time.Duration) error {
	if p.running() {
		_ = p.resume()
		_ = p.cmd.Process.Signal(sig)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(within):
		return p.kill()
	}
}

// tail keeps the end of a program's output.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailSize = 1 << 20

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - tailSize; over > 0 {
		t.b = append(t.b[:0], t.b[over+tailSize/2:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
