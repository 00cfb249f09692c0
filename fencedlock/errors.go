package fencedlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// The classes of failure. Each is matched by [errors.Is]; the struct named
// with it carries the facts and is reached by [errors.As].
var (
	// ErrHeld says that another holder has the resource now. Facts: *HeldError.
	ErrHeld = errors.New("fencedlock: held")
	// ErrLost says that a lock ended before it was released. Facts: *LostError.
	ErrLost = errors.New("fencedlock: lost")
	// ErrReleased says that a lock was released by its holder.
	ErrReleased = errors.New("fencedlock: released")
	// ErrUnavailable says that Redis could not answer: unreachable, loading,
	// failing over, out of memory. It says nothing about who holds the resource.
	// Facts: *UnavailableError.
	ErrUnavailable = errors.New("fencedlock: Redis unavailable")
	// ErrConfig says that Redis refuses what a Locker needs, so that trying
	// again is of no use: a missing right or password, a foreign value in a key.
	// Facts: *ConfigError.
	ErrConfig = errors.New("fencedlock: Redis not set up for locks")
	// ErrUnexpectedReply says that Redis answered something that the scripts do
	// not return. Facts: *ReplyError.
	ErrUnexpectedReply = errors.New("fencedlock: unexpected reply")
	// ErrInvalidArgument says that an argument or an option is not usable.
	// Nothing was sent. Facts: *ArgumentError.
	ErrInvalidArgument = errors.New("fencedlock: invalid argument")
	// ErrClosed says that the Locker was closed.
	ErrClosed = errors.New("fencedlock: Locker closed")
)

// HeldError is an [ErrHeld].
type HeldError struct {
	// Resource is what was asked for.
	Resource string
	// Label is what the holder calls itself, empty when it has no label.
	Label string
	// TTL is when the lock ends unless its holder renews it. It is negative
	// for a lock without an end, which no Locker makes.
	TTL time.Duration
	// FenceID is the holder's fence.
	FenceID int64
}

func (e *HeldError) Error() string {
	s := fmt.Sprintf("fencedlock: %q is held by fence %d", e.Resource, e.FenceID)
	if e.Label != "" {
		s += fmt.Sprintf(" (%s)", e.Label)
	}
	return s
}

// Is makes errors.Is(e, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// LostError is an [ErrLost], and the cause of the contexts of the lost lock.
type LostError struct {
	// Fence is the tenure that ended.
	Fence fencedstore.Fence
	// Reason is why.
	Reason Reason
	// Err is the last failed renewal, nil when there was none.
	Err error
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("fencedlock: %v is lost: %v", e.Fence, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes errors.Is(e, ErrLost) true, and ErrClosed for [Closed].
func (e *LostError) Is(target error) bool {
	return target == ErrLost || target == ErrClosed && e.Reason == Closed
}

// Unwrap returns the last failed renewal.
func (e *LostError) Unwrap() error { return e.Err }

// Reason is why a lock was lost.
type Reason int

const (
	// Expired says that the lease ran out, or that Redis has no such lock any
	// more: the holder was paused for too long, or Redis lost its data.
	Expired Reason = iota + 1
	// Taken says that Redis names another holder.
	Taken
	// RenewFailed says that the lease ran out while renewals failed.
	RenewFailed
	// MaxHold says that Options.MaxHold was reached.
	MaxHold
	// Forced says that an operator released the lock.
	Forced
	// Closed says that the Locker was closed.
	Closed
)

// String names r in words.
func (r Reason) String() string {
	switch r {
	case Expired:
		return "expired"
	case Taken:
		return "taken by another holder"
	case RenewFailed:
		return "renewal failed"
	case MaxHold:
		return "held for the longest time allowed"
	case Forced:
		return "released by force"
	case Closed:
		return "Locker closed"
	default:
		return fmt.Sprintf("Reason(%d)", int(r))
	}
}

// UnavailableError is an [ErrUnavailable].
type UnavailableError struct {
	// Op is what was tried: acquire, renew, release or close.
	Op string
	// Resource is for which; empty for close.
	Resource string
	// ExpiresIn is set by a failed release: no later than this the lock ends by
	// itself.
	ExpiresIn time.Duration
	// Err is what went wrong.
	Err error
}

func (e *UnavailableError) Error() string {
	s := prefix(e.Op, e.Resource) + "Redis unavailable"
	if e.ExpiresIn > 0 {
		s += fmt.Sprintf(", the lock expires in %d ms or less", (e.ExpiresIn+time.Millisecond-1)/time.Millisecond)
	}
	return s + ": " + e.Err.Error()
}

// Is makes errors.Is(e, ErrUnavailable) true.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns what went wrong.
func (e *UnavailableError) Unwrap() error { return e.Err }

// ConfigError is an [ErrConfig].
type ConfigError struct {
	// Op is what was tried, on Resource.
	Op, Resource string
	// Need says what is missing, as a sentence.
	Need string
	// Err is Redis' own words; nil when a script found the fault.
	Err error
}

func (e *ConfigError) Error() string {
	s := prefix(e.Op, e.Resource) + e.Need
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes errors.Is(e, ErrConfig) true.
func (e *ConfigError) Is(target error) bool { return target == ErrConfig }

// Unwrap returns Redis' own words.
func (e *ConfigError) Unwrap() error { return e.Err }

// ReplyError is an [ErrUnexpectedReply].
type ReplyError struct {
	// Op is what was tried, on Resource.
	Op, Resource string
	// Reply describes what came back, in at most 100 bytes.
	Reply string
}

func (e *ReplyError) Error() string {
	return prefix(e.Op, e.Resource) + "unexpected reply: " + e.Reply
}

// Is makes errors.Is(e, ErrUnexpectedReply) true.
func (e *ReplyError) Is(target error) bool { return target == ErrUnexpectedReply }

// ArgumentError is an [ErrInvalidArgument].
type ArgumentError struct {
	// Name is the argument or option.
	Name string
	// Reason completes the sentence that Name begins.
	Reason string

	err error
}

func (e *ArgumentError) Error() string {
	return "fencedlock: " + e.Name + " " + e.Reason
}

// Is makes errors.Is(e, ErrInvalidArgument) true.
func (e *ArgumentError) Is(target error) bool { return target == ErrInvalidArgument }

// Unwrap returns the rule that was broken, when it is another package's.
func (e *ArgumentError) Unwrap() error { return e.err }

// abandonedError is why a call ended without an answer: its context or the
// Locker ended, and what else was known then.
type abandonedError struct {
	op, resource string
	errs         []error
}

func (e *abandonedError) Error() string {
	start := prefix(e.op, e.resource)
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = strings.TrimPrefix(strings.TrimPrefix(err.Error(), start), "fencedlock: ")
	}
	return start + strings.Join(texts, "; ")
}

func (e *abandonedError) Unwrap() []error { return e.errs }

func prefix(op, resource string) string {
	if resource == "" {
		return "fencedlock: " + op + ": "
	}
	return fmt.Sprintf("fencedlock: %s %q: ", op, resource)
}

// ended is why ctx ended, as an error that matches both ctx.Err and its cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
