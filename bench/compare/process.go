package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// endWithin is how long a worker may take to end after it was told to.
const endWithin = 30 * time.Second

// process is one worker.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// start runs this program again as a worker. It ends with ctx, and with this
// process.
func start(ctx context.Context, w world) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self)}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(b))
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = endWithin
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, spawn(p.cmd)
}

// hear returns what the worker says next, io.EOF when it has ended.
func (p *process) hear() (string, error) {
	text, err := p.out.ReadString('\n')
	return strings.TrimSpace(text), err
}

func (p *process) answer(text string) error {
	_, err := fmt.Fprintln(p.in, text)
	return err
}

// wait returns how the worker ended, with what it complained about.
func (p *process) wait() error {
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(p.stderr.String()))
	}
	return nil
}

// pause stops the process for d. It stands still when before is called.
func (p *process) pause(ctx context.Context, d time.Duration, before func() error) error {
	if err := stop(ctx, p.cmd.Process); err != nil {
		return err
	}
	err := before()
	waited := wait(ctx, d)
	return errors.Join(err, waited, resume(p.cmd.Process))
}
