package faults

import (
	"slices"
	"sync"
	"time"
)

// Harm is one fault as it happened.
type Harm struct {
	Name         string
	Began, Ended time.Time
}

// History is what happened in one run. It is safe for concurrent use.
type History struct {
	mu    sync.Mutex
	ops   []*Op
	index map[opID]*Op
	harms []Harm
}

type opID struct {
	who string
	id  int
}

// Record adds an operation, or completes one that was added when it began.
func (h *History) Record(o Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := opID{o.Who, o.ID}
	if known := h.index[id]; known != nil {
		*known = o
		return
	}
	if h.index == nil {
		h.index = make(map[opID]*Op)
	}
	h.index[id] = &o
	h.ops = append(h.ops, &o)
}

// Harmed adds a fault that is over.
func (h *History) Harmed(harm Harm) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.harms = append(h.harms, harm)
}

// Ops returns copies of the operations in the order in which they began.
func (h *History) Ops() []*Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	ops := make([]*Op, len(h.ops))
	for i, o := range h.ops {
		c := *o
		ops[i] = &c
	}
	slices.SortStableFunc(ops, func(a, b *Op) int { return a.Began.Compare(b.Began) })
	return ops
}

// Harms returns the faults in the order in which they began.
func (h *History) Harms() []Harm {
	h.mu.Lock()
	defer h.mu.Unlock()
	harms := slices.Clone(h.harms)
	slices.SortStableFunc(harms, func(a, b Harm) int { return a.Began.Compare(b.Began) })
	return harms
}

// Count returns how many operations of a kind ended with a result.
func (h *History) Count(kind Kind, result Result) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.ops {
		if o.Kind == kind && o.Result == result {
			n++
		}
	}
	return n
}

// Idle returns those workers and resources without an acknowledged write that
// began after an instant.
func (h *History) Idle(since time.Time, workers, resources []string) []string {
	seen := make(map[string]bool)
	for _, o := range h.Ops() {
		if o.Kind == Write && o.Result == Done && o.Began.After(since) {
			seen[o.Who], seen[o.Resource] = true, true
		}
	}
	var idle []string
	for _, name := range slices.Concat(workers, resources) {
		if !seen[name] {
			idle = append(idle, name)
		}
	}
	return idle
}
