package faults

import (
	"fmt"
	"slices"
	"time"
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

// After returns what can be judged of a store that has forgotten something at an
// instant: what those did whose acquisition ended afterwards, and what the store
// has accepted since the first of their writes. What they have read is left out, for
// it may be what others wrote before.
func After(t time.Time, ops []*Op, account Account) ([]*Op, Account) {
	type tenure struct {
		resource, holder string
		fence            int64
	}
	later := make(map[tenure]bool)
	var of []*Op
	for _, o := range ops {
		if o.Kind == Acquire && o.Result == Done && o.Ended.After(t) {
			later[tenure{o.Resource, o.Holder, o.Fence}] = true
			of = append(of, o)
		}
	}
	for _, o := range ops {
		if o.Kind == Write && later[tenure{o.Resource, o.Holder, o.Fence}] {
			of = append(of, o)
		}
	}
	since := make(Account)
	for resource, list := range account {
		i := slices.IndexFunc(list, func(a Accepted) bool { return later[tenure{resource, a.Holder, a.Fence}] })
		if i >= 0 {
			since[resource] = slices.Clone(list[i:])
			since[resource][0].Saw = ""
		}
	}
	return of, since
}
