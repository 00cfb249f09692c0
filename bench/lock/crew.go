package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// crew is processes of this program that do as they are told.
type crew struct{ members []*member }

type member struct {
	cmd     *exec.Cmd
	in      io.Closer
	orders  *json.Encoder
	reports *json.Decoder
}

// muster starts n workers.
func muster(ctx context.Context, n int) (*crew, error) {
	c := &crew{}
	for range n {
		m, err := enlist(ctx)
		if err != nil {
			return nil, errors.Join(err, c.dismiss())
		}
		c.members = append(c.members, m)
	}
	return c, nil
}

func enlist(ctx context.Context) (*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), workerEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &member{cmd: cmd, in: in, orders: json.NewEncoder(in), reports: json.NewDecoder(out)}, nil
}

// tell gives everybody an order.
func (c *crew) tell(o order) error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.orders.Encode(o))
	}
	return errors.Join(errs...)
}

// hear waits for a report of everybody.
func (c *crew) hear() ([]report, error) {
	reports, errs := make([]report, len(c.members)), make([]error, len(c.members))
	var wg sync.WaitGroup
	for i, m := range c.members {
		wg.Go(func() {
			errs[i] = m.reports.Decode(&reports[i])
			if text := reports[i].Err; text != "" {
				errs[i] = fmt.Errorf("worker %d: %s", i, text)
			}
		})
	}
	wg.Wait()
	return reports, errors.Join(errs...)
}

func (c *crew) obey(o order) ([]report, error) {
	if err := c.tell(o); err != nil {
		return nil, err
	}
	return c.hear()
}

// dismiss ends the workers: they end when nobody can tell them anything.
func (c *crew) dismiss() error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.in.Close(), m.cmd.Wait())
	}
	return errors.Join(errs...)
}
