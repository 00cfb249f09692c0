package fencedlock

import (
	"math"
	"sync"
)

// nodeSet is a set of nodes by their index.
type nodeSet uint64

func (s nodeSet) has(i int) bool     { return s>>i&1 == 1 }
func (s nodeSet) with(i int) nodeSet { return s | 1<<i }
func (s nodeSet) less(i int) nodeSet { return s &^ (1 << i) }

// ballot is what the nodes of a quorum may have of one holder. Answers come late,
// or not at all: what is not wanted any more by then is taken back behind the
// caller's back.
type ballot struct {
	mu      sync.Mutex
	mine    nodeSet // may have the lock
	unsure  nodeSet // of those, where a question was lost
	pending nodeSet // of those, where a question is under way
	gaveUp  nodeSet // confirmed that the lock was there, and is gone
	void    int64   // proposals up to this one are not wanted any more
	newest  int64   // of the fences that were granted or reserved
}

// ask takes note of a question that may put the lock into a node.
func (b *ballot) ask(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mine, b.pending = b.mine.with(i), b.pending.with(i)
}

// answered takes note of the answer, and reports whether the lock is to be taken
// back there.
func (b *ballot) answered(i int, proposal int64, accepted, lost bool) (unwanted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending = b.pending.less(i)
	switch {
	case (accepted || lost) && proposal <= b.void:
		b.mine, b.unsure = b.mine.less(i), b.unsure.less(i)
		return true
	case lost:
		b.unsure = b.unsure.with(i)
	case !accepted && !b.unsure.has(i):
		b.mine = b.mine.less(i)
	}
	return false
}

// giveUp makes proposals up to the given one unwanted, and returns the nodes
// where they are to be taken back; those with a question under way follow.
func (b *ballot) giveUp(proposal int64) (back, unsure nodeSet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.void = max(b.void, proposal)
	back = b.mine &^ b.pending
	unsure = b.unsure & back
	b.mine, b.unsure = b.mine&^back, b.unsure&^back
	return back, unsure
}

// release makes everything unwanted, and returns the nodes to ask, and those that
// have confirmed before.
func (b *ballot) release() (ask, gaveUp nodeSet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.void = math.MaxInt64
	return b.mine, b.gaveUp
}

// released takes note of a confirmed release.
func (b *ballot) released(i int, wasThere bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mine, b.unsure = b.mine.less(i), b.unsure.less(i)
	if wasThere {
		b.gaveUp = b.gaveUp.with(i)
	}
}

// won takes note of a fence that a majority has accepted.
func (b *ballot) won(newest int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest = max(b.newest, newest)
}

// wanted reports whether a majority has the lock and it was not given back.
func (b *ballot) wanted() (newest int64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newest, b.newest > b.void
}
