package locktest

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// What a Locker does, for [Faults.Only].
const (
	Acquire = "acquire"
	Renew   = "renew"
	Release = "release"
)

// Faults is a hook that makes commands fail:
//
//	faults := locktest.NewFaults()
//	locker := server.Locker(t, nil, faults)
//	faults.Only(locktest.Renew).FailNext(3, nil)
//
// It counts commands one by one, also those in a pipeline. What go-redis sends
// to set a connection up is left alone. Faults come above the client's own
// retries: each is seen by the caller. A command that is not failed and does not
// lose its reply is only ever delayed.
//
// Give one Faults to several clients and Lockers and they share its counts.
type Faults struct {
	mu       sync.Mutex
	only     []string
	fail     int
	failErr  error
	lose     int
	delay    time.Duration
	injected int
}

var _ redis.Hook = (*Faults)(nil)

// NewFaults returns a Faults that does nothing yet.
func NewFaults() *Faults { return &Faults{} }

// ErrInjected is matched by the faults that come without an error of the
// test's own. They also match what a broken network gives: ECONNREFUSED when
// the command was not sent, ECONNRESET when its reply was lost.
var ErrInjected = errors.New("locktest: injected fault")

type injectedError struct{ net.OpError }

func (e *injectedError) Error() string { return "locktest: injected: " + e.OpError.Error() }

// Is makes errors.Is(e, ErrInjected) true.
func (e *injectedError) Is(target error) bool { return target == ErrInjected }

// Unwrap returns what a broken network gives.
func (e *injectedError) Unwrap() error { return &e.OpError }

func injected(op, syscall string, errno error) error {
	return &injectedError{net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(syscall, errno)}}
}

// ServerError returns an error as if Redis had answered it, for
// [Faults.FailNext]: "READONLY You can't write against a read only replica.",
// "LOADING Redis is loading the dataset in memory", ….
func ServerError(text string) error { return serverError(text) }

type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError makes it a [redis.Error].
func (serverError) RedisError() {}

// Only limits what follows to commands with these names: those of Redis, such
// as "get", or what a Locker does, such as [Renew]. Without a name it is all
// commands again. It returns f.
func (f *Faults) Only(names ...string) *Faults {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.only = slices.Clone(names)
	return f
}

// FailNext makes the next n commands fail with err; they are not sent. A nil
// err is a refused connection and matches [ErrInjected].
func (f *Faults) FailNext(n int, err error) {
	if err == nil {
		err = injected("dial", "connect", syscall.ECONNREFUSED)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.failErr = n, err
}

// LoseReply makes the next n commands run and their answers get lost: the
// caller gets an [ErrInjected] that looks like a broken connection. An answer
// that is an error is not lost and does not count, since nothing happened.
func (f *Faults) LoseReply(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lose = n
}

// Delay makes every command wait for d before it is sent, until Delay(0). When
// its context ends first, or its deadline is reached, it fails and is not sent.
func (f *Faults) Delay(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = d
}

// Heal ends all faults. Only stays.
func (f *Faults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.failErr, f.lose, f.delay = 0, nil, 0, 0
}

// Injected returns how many commands have failed or lost their reply so far.
func (f *Faults) Injected() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.injected
}

// plan is what happens to one command.
type plan struct {
	delay time.Duration
	err   error // it is not sent
	lose  bool
}

func (f *Faults) plan(cmd redis.Cmder) (p plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.concerns(cmd) {
		return p
	}
	p.delay = f.delay
	switch {
	case f.fail > 0:
		f.fail--
		f.injected++
		p.err = f.failErr
	case f.lose > 0:
		f.lose--
		f.injected++
		p.lose = true
	}
	return p
}

// setUp are the commands that go-redis sends by itself.
var setUp = []string{"hello", "auth", "client", "select", "readonly"}

func (f *Faults) concerns(cmd redis.Cmder) bool {
	name := strings.ToLower(cmd.Name())
	if len(f.only) == 0 {
		return !slices.Contains(setUp, name)
	}
	does := lockerDoes(name, cmd.Args())
	return slices.ContainsFunc(f.only, func(only string) bool {
		return strings.EqualFold(only, name) || does != "" && only == does
	})
}

// lockerDoes tells the scripts of a Locker apart by their shape: an acquire
// has two keys, a renewal two arguments, a release one.
func lockerDoes(name string, args []any) string {
	if name != "evalsha" && name != "eval" || len(args) < 5 {
		return ""
	}
	switch keys, _ := args[2].(int); {
	case keys == 2:
		return Acquire
	case keys == 1 && len(args) == 6:
		return Renew
	case keys == 1 && len(args) == 5:
		return Release
	}
	return ""
}

// DialHook implements [redis.Hook]. It changes nothing.
func (f *Faults) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (f *Faults) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p := f.plan(cmd)
		if err := wait(ctx, p.delay); err != nil {
			cmd.SetErr(err)
			return err
		}
		if p.err != nil {
			cmd.SetErr(p.err)
			return p.err
		}
		err := next(ctx, cmd)
		if p.lose {
			return f.loseReply(cmd, err)
		}
		return err
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (f *Faults) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		plans := make([]plan, len(cmds))
		var sent []redis.Cmder
		var delay time.Duration
		for i, cmd := range cmds {
			plans[i] = f.plan(cmd)
			delay = max(delay, plans[i].delay)
			if plans[i].err == nil {
				sent = append(sent, cmd)
			}
		}
		if err := wait(ctx, delay); err != nil {
			return failAll(cmds, err)
		}
		var err error
		if len(sent) > 0 {
			err = next(ctx, sent)
		}
		return f.apply(cmds, plans, err)
	}
}

// apply puts the faults of plans into cmds and returns the pipeline's error:
// that of the first command that has one, as go-redis does.
func (f *Faults) apply(cmds []redis.Cmder, plans []plan, err error) error {
	for i, cmd := range cmds {
		switch {
		case plans[i].err != nil:
			cmd.SetErr(plans[i].err)
		case plans[i].lose:
			_ = f.loseReply(cmd, cmd.Err())
		}
	}
	for _, cmd := range cmds {
		if cmd.Err() != nil {
			return cmd.Err()
		}
	}
	return err
}

func failAll(cmds []redis.Cmder, err error) error {
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return err
}

// loseReply replaces the answer to cmd, err, by a fault.
func (f *Faults) loseReply(cmd redis.Cmder, err error) error {
	if err != nil && !errors.Is(err, redis.Nil) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lose++
		f.injected--
		return err
	}
	err = injected("read", "read", syscall.ECONNRESET)
	cmd.SetErr(err)
	return err
}

// wait looks at the deadline as well: a Locker's contexts have one that their
// Done does not fire at, since go-redis puts it on the socket.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	err := error(nil)
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		d, err = time.Until(end), context.DeadlineExceeded
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
