package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/fenced-go/fenced/examples/billing/internal/nightly"
)

// workerEnv makes this program a worker: it holds a job.
const workerEnv = "FENCED_BILLING_WORKER"

// endWithin is how long a worker may take to end after it was interrupted.
const endWithin = 15 * time.Second

// job is what the story tells a worker process. It travels in the environment,
// which other users cannot read, because the URLs may hold passwords.
type job struct {
	N               int
	StallAt         int64
	Mode            string
	TTL             time.Duration
	Unsafe          bool
	Redis, Postgres string
	S3              string // empty: no statements
}

// tie has the system kill a process with this one, where it can: a worker that
// is stopped when its parent is killed would stay for ever.
var tie = func(*exec.Cmd) {}

// process is a worker in a process of its own.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	once  sync.Once
}

// startProcess runs this program again, as a worker. Its standard output is one
// event a line; a line on its standard input ends its stall, and the end of that
// input ends the worker.
func startProcess(ctx context.Context, j job, tell func(event)) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self)}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(b))
	p.cmd.Cancel, p.cmd.WaitDelay = p.interrupt, endWithin
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	tie(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.relay(stdout, j.N, tell)
	return p, nil
}

// relay tells what the worker writes, until it has ended.
func (p *process) relay(stdout io.Reader, n int, tell func(event)) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var step nightly.Event
		if err := json.Unmarshal(lines.Bytes(), &step); err == nil {
			tell(event{n, step})
		}
	}
	last := nightly.Event{Kind: ended}
	if err := p.cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		last.Err = err.Error()
	}
	tell(event{n, last})
}

func (p *process) freeze() error { return stop(p.cmd.Process) }

// thaw lets the process go on, where it finds the line that ends its stall.
func (p *process) thaw() (err error) {
	p.once.Do(func() { _, err = fmt.Fprintln(p.stdin) })
	if err != nil {
		return err
	}
	return resume(p.cmd.Process)
}

func (p *process) interrupt() error {
	_ = resume(p.cmd.Process)
	return p.cmd.Process.Signal(os.Interrupt)
}
