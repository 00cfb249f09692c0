package fencedlock

import (
	"context"
	"errors"

	"github.com/fenced-go/fenced/fencedstore"
)

// Elect campaigns for resource and calls fn while it leads, again after every
// loss, until ctx ends or fn is done. It is [Locker.Do] in a loop, for the one
// process of many that does something all the time.
//
// fn leads until its context ends; it should return soon then. If the lock was
// lost, Elect campaigns again, whatever fn returned. If not, fn has resigned:
// Elect releases and returns the error of fn. When Redis or a store cannot be
// reached it tries on, less often as time goes by. It returns at once what
// trying again cannot change: [ErrConfig], [ErrInvalidArgument],
// [ErrUnexpectedReply] and [ErrClosed]. When ctx ends while it does not lead,
// the error matches ctx.Err.
func (l *Locker) Elect(ctx context.Context, resource string, opts *AcquireOptions, fn func(ctx context.Context, f fencedstore.Fence) error) error {
	if fn == nil {
		return &ArgumentError{Name: "fn", Reason: "is nil"}
	}
	for try := 1; ; try++ {
		led := false
		err := l.Do(ctx, resource, opts, func(ctx context.Context, f fencedstore.Fence) error {
			led = true
			return fn(ctx, f)
		})
		switch {
		case led && !errors.Is(err, ErrLost), final(err), ctx.Err() != nil:
			return err
		case led:
			try = 1
		}
		if stopped := l.wait(ctx, min(backoff(min(try, 10)), maxBackoff)); stopped != nil {
			return &abandonedError{op: "elect", resource: resource, errs: []error{stopped, err}}
		}
	}
}

// final says that trying again is of no use.
func final(err error) bool {
	return errors.Is(err, ErrConfig) || errors.Is(err, ErrInvalidArgument) || errors.Is(err, ErrUnexpectedReply) || errors.Is(err, ErrClosed)
}
