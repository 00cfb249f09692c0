package fencedstore

import (
	"errors"
	"fmt"
)

// The classes of refusal. Each is matched by [errors.Is]; the struct named
// with it carries the facts and is reached by [errors.As].
var (
	// ErrStale says that a newer fence was claimed: the caller lost the
	// resource to a successor and must stop. Facts: *StaleError.
	ErrStale = errors.New("fencedstore: stale fence")
	// ErrFenceReused says that the same ID was claimed by another holder,
	// after a lock service lost its data. Exactly one of the two may go on,
	// and it is not this one. Facts: *FenceReusedError.
	ErrFenceReused = errors.New("fencedstore: fence ID reused by another holder")
	// ErrNotClaimed says that this fence was never claimed at this store, or
	// that the store lost the claim (an older backup, a promoted standby).
	// Facts: *NotClaimedError.
	ErrNotClaimed = errors.New("fencedstore: fence not claimed")
	// ErrNoFence says that a guarded call had no fence in its context.
	ErrNoFence = errors.New("fencedstore: no fence in context")
	// ErrInvalidFence says that a fence is malformed. Nothing was sent.
	// Facts: *InvalidFenceError.
	ErrInvalidFence = errors.New("fencedstore: invalid fence")
	// ErrUnknownOutcome says that the call may or may not have taken effect:
	// it was sent and its answer did not arrive. It is neither success nor
	// failure; repeating the call with the same fence converges.
	// Facts: *UnknownOutcomeError.
	ErrUnknownOutcome = errors.New("fencedstore: outcome unknown")
	// ErrNotFound says that a key holds no value.
	ErrNotFound = errors.New("fencedstore: not found")
)

// StaleError is an [ErrStale].
type StaleError struct {
	// Fence is the one that was refused.
	Fence Fence
	// Newest is the resource's high-water mark: the newest ID claimed.
	Newest int64
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("fencedstore: %v is stale: %d was claimed", e.Fence, e.Newest)
}

// Is makes errors.Is(e, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// FenceReusedError is an [ErrFenceReused].
type FenceReusedError struct {
	// Fence is the one that was refused; its ID is the resource's high-water
	// mark.
	Fence Fence
}

func (e *FenceReusedError) Error() string {
	return fmt.Sprintf("fencedstore: %v was claimed by another holder", e.Fence)
}

// Is makes errors.Is(e, ErrFenceReused) true.
func (e *FenceReusedError) Is(target error) bool { return target == ErrFenceReused }

// NotClaimedError is an [ErrNotClaimed].
type NotClaimedError struct {
	// Fence is the one that was refused.
	Fence Fence
	// Newest is the resource's high-water mark, below Fence.ID; 0 when nothing
	// was ever claimed.
	Newest int64
}

func (e *NotClaimedError) Error() string {
	if e.Newest == 0 {
		return fmt.Sprintf("fencedstore: %v was not claimed here: nothing was", e.Fence)
	}
	return fmt.Sprintf("fencedstore: %v was not claimed here: %d is the newest claim", e.Fence, e.Newest)
}

// Is makes errors.Is(e, ErrNotClaimed) true.
func (e *NotClaimedError) Is(target error) bool { return target == ErrNotClaimed }

// InvalidFenceError is an [ErrInvalidFence].
type InvalidFenceError struct {
	// Field is what is wrong: Resource, ID, Holder or text.
	Field string
	// Reason completes the sentence that Field begins. It quotes no input.
	Reason string
}

func (e *InvalidFenceError) Error() string {
	return "fencedstore: invalid fence: " + e.Field + " " + e.Reason
}

// Is makes errors.Is(e, ErrInvalidFence) true.
func (e *InvalidFenceError) Is(target error) bool { return target == ErrInvalidFence }

// UnknownOutcomeError is an [ErrUnknownOutcome].
type UnknownOutcomeError struct {
	// Op is what was asked for: "claim", "write", "commit", …
	Op string
	// Fence is the one it was asked with; zero where the call has none.
	Fence Fence
	// Err is why the answer did not arrive. It may be nil.
	Err error
}

func (e *UnknownOutcomeError) Error() string {
	s := fmt.Sprintf("fencedstore: outcome of %s with %v unknown", e.Op, e.Fence)
	if e.Fence == (Fence{}) {
		s = fmt.Sprintf("fencedstore: outcome of %s unknown", e.Op)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes errors.Is(e, ErrUnknownOutcome) true.
func (e *UnknownOutcomeError) Is(target error) bool { return target == ErrUnknownOutcome }

// Unwrap returns why the answer did not arrive.
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }
