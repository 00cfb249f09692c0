package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// local runs the server binaries of this machine as child processes.
type local struct{}

func (local) Name() string { return "local" }

// child is a server that is a child process.
type child struct {
	port    *Port
	dir     string // of its own, removed by Stop
	command func() *exec.Cmd
	prepare func() // before each start; may be nil
	quit    os.Signal

	mu   sync.Mutex
	proc *Process
}

func (c *child) Addr() string { return c.port.Addr() }

func (c *child) Start() error {
	if c.prepare != nil {
		c.prepare()
	}
	p, err := startProcess(c.command())
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proc = p
	return nil
}

func (c *child) process() *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc
}

func (c *child) Pause() error            { return c.process().pause() }
func (c *child) Resume() error           { return c.process().resume() }
func (c *child) Kill() error             { return c.process().kill() }
func (c *child) Exited() <-chan struct{} { return c.process().Exited() }
func (c *child) Log() string             { return c.process().Output() }

func (c *child) Stop() error {
	err := c.process().ask(c.quit, endWithin)
	c.port.Release()
	if rmErr := os.RemoveAll(c.dir); err == nil {
		err = rmErr
	}
	return err
}

// startOnce is the first start; a server that cannot start leaves nothing.
func (c *child) startOnce() (Server, error) {
	if err := c.Start(); err != nil {
		c.port.Release()
		_ = os.RemoveAll(c.dir)
		return nil, err
	}
	return c, nil
}

// redisBinary is FENCED_TEST_REDIS_SERVER, or redis-server on the PATH.
func redisBinary() (string, error) {
	bin := os.Getenv("FENCED_TEST_REDIS_SERVER")
	if bin == "" {
		bin = "redis-server"
	}
	path, err := exec.LookPath(bin)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return path, nil
}

func (local) Redis(args []string) (Server, error) { return localRedis(nil, args) }

// localRedis starts redis-server with more environment.
func localRedis(env, args []string) (Server, error) {
	bin, err := redisBinary()
	if err != nil {
		return nil, err
	}
	c, err := newChild("fenced-redis-")
	if err != nil {
		return nil, err
	}
	args = append([]string{
		"--port", strconv.Itoa(c.port.Number), "--bind", "127.0.0.1", "--dir", c.dir,
		"--save", "", "--protected-mode", "no", "--enable-debug-command", "yes",
	}, args...)
	c.command = func() *exec.Cmd { return command(c.dir, env, bin, args...) }
	c.quit = syscall.SIGKILL // nothing of it is worth an orderly end
	return c.startOnce()
}

func newChild(prefix string) (*child, error) {
	port, err := NewPort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		port.Release()
		return nil, err
	}
	return &child{port: port, dir: dir}, nil
}

// command has no context: a server outlives the call that starts it.
func command(dir string, env []string, bin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), bin, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	return cmd
}
