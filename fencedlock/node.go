package fencedlock

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// node is one server of a quorum.
type node struct {
	b       *quorumBackend
	index   int
	name    string
	rdb     *redis.Client // nil in tests without one
	ask     backend
	gate    gate
	breaker breaker
	debts   debts
	double  atomic.Pointer[string] // which other node is the same server
}

// errAvoided is why a node was not asked.
var errAvoided = errors.New("not asked, because it has just failed to answer")

// run asks n all of calls, which are its own copies. The caller has entered the
// breaker.
func (n *node) run(ctx context.Context, calls []*call) {
	began := n.b.now()
	if n.admitted(ctx, calls, began) {
		if len(calls) == 1 {
			n.ask.do(ctx, calls[0])
		} else {
			n.ask.batch(ctx, calls)
		}
		n.admitted(ctx, calls, began)
	}
	n.settle(calls)
	answered := false
	for _, c := range calls {
		fault := asFault(c.err)
		answered = answered || fault == nil || isReply(fault)
	}
	if answered {
		n.gate.hear()
	}
	if n.breaker.done(answered, began.mono, n.b.now().mono) {
		n.tellBreaker(ctx, answered, calls[0].err)
	}
}

// isReply reports that the server did answer, if only that it cannot.
func isReply(fault *faultError) bool {
	var reply redis.Error
	return errors.As(fault, &reply)
}

// admitted has votes counted only of a node that may vote. What it has accepted
// already by then is an unknown outcome.
func (n *node) admitted(ctx context.Context, calls []*call, began instant) bool {
	if op := calls[0].op; op != opPropose && op != opMend {
		return true
	}
	err := n.gate.open(ctx, began.mono)
	if need := n.double.Load(); err == nil && need != nil {
		err = &ConfigError{Need: *need}
	}
	if err == nil {
		return true
	}
	for _, c := range calls {
		accepted := c.answer.verdict == granted || c.answer.verdict == renewed
		if c.err != nil && !accepted {
			continue // it has its own error
		}
		if accepted {
			c.wrote = true
		}
		c.answer, c.err = answer{}, err
	}
	return false
}

// settle takes note of what the node now has, and takes back what is not wanted.
func (n *node) settle(calls []*call) {
	for _, c := range calls {
		if c.ballot == nil {
			continue
		}
		switch c.op {
		case opPropose, opForce, opMend:
			if upTo, unsure, unwanted := c.ballot.answered(n.index, c.newest, c.outcome()); unwanted {
				n.owe(c, upTo, unsure)
			}
		case opRelease:
			if c.ballot.released(n.index, c.answer.verdict) {
				n.owe(c, math.MaxInt64, c.err != nil)
			}
		case opKeep:
			if c.err == nil && c.answer.verdict == released {
				c.ballot.gone(n.index)
			}
		default:
		}
	}
}

// outcome is what the question has done to the node that answered it.
func (c *call) outcome() outcome {
	fault := asFault(c.err)
	switch {
	case fault != nil && fault.ran, c.wrote, errors.Is(c.err, ErrUnexpectedReply):
		return unknown
	case c.err != nil:
		return refused
	case c.answer.verdict == granted, c.answer.verdict == renewed:
		return accepted
	case c.answer.verdict == behind:
		return refused
	}
	return foreign
}

func (n *node) tellBreaker(ctx context.Context, answered bool, err error) {
	level, text := slog.LevelWarn, "fencedlock: a node of the quorum does not answer"
	if answered {
		level, text = slog.LevelDebug, "fencedlock: a node of the quorum answers again"
	}
	n.b.log.Log(context.WithoutCancel(ctx), level, text, "node", n.name, "err", err)
}
