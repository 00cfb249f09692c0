package faults

import (
	"fmt"
	"slices"
)

// Accepted is one write that a store has accepted.
type Accepted struct {
	Value, Saw string
	Fence      int64
	Holder     string // a digest
}

// Account is, by resource, what a store has accepted, in its order.
type Account map[string][]Accepted

// Chain makes the account of one resource from its last value, for a store that
// keeps no other: each value was written by somebody, who recorded what it
// replaced. Writes that nobody has seen are not in it. An error means that a
// value was never written.
func Chain(ops []*Op, resource, last string) ([]Accepted, error) {
	written := make(map[string]*Op)
	for _, o := range ops {
		if o.Kind == Write && o.Resource == resource {
			written[o.Value] = o
		}
	}
	var chain []Accepted
	for value := last; value != ""; {
		o := written[value]
		if o == nil {
			return nil, fmt.Errorf("faults: %s had the value %q, which nobody has written", resource, value)
		}
		chain = append(chain, Accepted{Value: value, Saw: o.Saw, Fence: o.Fence, Holder: o.Holder})
		delete(written, value)
		value = o.Saw
	}
	slices.Reverse(chain)
	return chain, nil
}
