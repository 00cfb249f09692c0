package fencedlock

import (
	"errors"
	"fmt"
	"strings"
)

// QuorumError is what an [ErrUnavailable] of a Locker made by [NewQuorum] wraps:
// fewer nodes have answered than are needed.
type QuorumError struct {
	// Need is how many nodes have to agree, of how many.
	Need, Of int
	// Nodes are those that could not, and why.
	Nodes []NodeError
}

// NodeError is what was wrong with one node of a quorum.
type NodeError struct {
	// Node is its address.
	Node string
	// Err is why it did not vote.
	Err error
}

func (e *QuorumError) Error() string {
	texts := make([]string, len(e.Nodes))
	for i, n := range e.Nodes {
		texts[i] = n.Error()
	}
	return fmt.Sprintf("%d of %d nodes are needed; %s", e.Need, e.Of, strings.Join(texts, "; "))
}

// Unwrap returns the errors of the nodes.
func (e *QuorumError) Unwrap() []error {
	errs := make([]error, len(e.Nodes))
	for i, n := range e.Nodes {
		errs[i] = n
	}
	return errs
}

func (e NodeError) Error() string {
	return e.Node + ": " + strings.TrimPrefix(e.Err.Error(), "fencedlock: ")
}

// Unwrap returns Err.
func (e NodeError) Unwrap() error { return e.Err }

// final says that the node will go on refusing until somebody changes its set-up.
func (e NodeError) final() bool {
	return errors.Is(e.Err, ErrConfig) || errors.Is(e.Err, ErrUnexpectedReply)
}
