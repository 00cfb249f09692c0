package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// local runs the server binaries of this machine as child processes.
type local struct{}

// Name implements [Provider].
func (local) Name() string { return "local" }

// child is a server that is a child process.
type child struct {
	port    *Port
	dir     *folder // of its own, removed by Stop
	command func() *exec.Cmd
	prepare func() // before each start; may be nil
	quit    os.Signal

	mu   sync.Mutex
	proc *Process
}

// Addr implements [Server].
func (c *child) Addr() string { return c.port.Addr() }

// Start implements [Server].
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

// Pause implements [Server].
func (c *child) Pause() error { return c.process().pause() }

// Resume implements [Server].
func (c *child) Resume() error { return c.process().resume() }

// Kill implements [Server].
func (c *child) Kill() error { return c.process().kill() }

// Exited implements [Server].
func (c *child) Exited() <-chan struct{} { return c.process().Exited() }

// Log implements [Server].
func (c *child) Log() string { return c.process().Output() }

// Stop implements [Server].
func (c *child) Stop() error {
	return errors.Join(c.process().ask(c.quit, endWithin), c.discard())
}

// discard gives back what the server had.
func (c *child) discard() error {
	c.port.Release()
	return c.dir.remove()
}

// startOnce is the first start; a server that cannot start leaves nothing.
func (c *child) startOnce() (Server, error) {
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, c.discard())
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

// Redis implements [Provider].
func (local) Redis(args []string) (Server, error) {
	return startRedis(nil, func(c *child) ([]string, error) { return c.redisArgs(args), nil })
}

// redisArgs are the arguments of a plain server.
func (c *child) redisArgs(more []string) []string {
	own := []string{"--port", strconv.Itoa(c.port.Number), "--bind", "127.0.0.1", "--dir", c.dir.path}
	return append(own, RedisArgs(more)...)
}

// startRedis runs redis-server with more environment, and with the arguments
// that configure makes once the port is known.
func startRedis(env []string, configure func(*child) ([]string, error)) (Server, error) {
	bin, err := redisBinary()
	if err != nil {
		return nil, err
	}
	c, err := newChild("redis")
	if err != nil {
		return nil, err
	}
	args, err := configure(c)
	if err != nil {
		return nil, errors.Join(err, c.discard())
	}
	c.command = func() *exec.Cmd { return command(c.dir.path, env, bin, args...) }
	c.quit = os.Kill // nothing of it is worth an orderly end
	return c.startOnce()
}

func newChild(prefix string) (*child, error) {
	sweep()
	port, err := NewPort()
	if err != nil {
		return nil, err
	}
	dir, err := newFolder(prefix)
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
