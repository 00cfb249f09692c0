package fencedlock

import (
	"math"
	"sync"
)

// ballot is what the nodes of a quorum may have of one holder. Answers come late,
// or not at all: what is not wanted any more by then is taken back behind the
// caller's back.
type ballot struct {
	mu     sync.Mutex
	at     []vote // by node
	void   int64  // proposals up to this one are not wanted any more
	asked  int64  // the newest one so far
	newest int64  // of the fences that were granted or reserved
}

// vote is what one node may have.
type vote struct {
	proposal int64 // the newest that it has accepted, or may have; 0 for none
	pending  int   // questions under way
	unsure   bool  // the answer to one was lost
	gaveUp   bool  // it confirmed that the lock was there and is gone

	// Of releases that are under way while questions are.
	back  int  // how many
	after bool // the answer to a question came after the first was sent
	spent bool // the one question that is under way has been undone
}

// outcome is what a question has done to a node.
type outcome uint8

const (
	accepted outcome = iota + 1
	unknown          // the answer is lost
	refused          // it changed nothing
	foreign          // it changed nothing, and nothing of ours is there
)

func newBallot(nodes int) *ballot { return &ballot{at: make([]vote, nodes)} }

// next makes a proposal of at least the given fence, with some more reserved, that
// is above every one before: what is on its way about those, a withdrawal above
// all, must not touch it.
func (b *ballot) next(least, more int64) (fence, newest int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fence = max(least, b.asked+1)
	b.asked = fence + more
	return fence, b.asked
}

// ask takes note of a question that may put the lock into a node.
func (b *ballot) ask(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at[i].pending++
}

// answered takes note of the answer. It reports whether the lock is to be taken
// back at the node, up to which proposal, and whether a question may still be on
// its way.
func (b *ballot) answered(i int, proposal int64, o outcome) (upTo int64, unsure, unwanted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := &b.at[i]
	v.pending--
	switch {
	case o == accepted:
		v.proposal = max(v.proposal, proposal)
	case o == unknown:
		v.proposal, v.unsure = max(v.proposal, proposal), true
	case o == foreign && proposal > v.proposal && !v.unsure:
		v.proposal = 0
	}
	switch {
	case v.pending > 0 || v.proposal == 0 || v.proposal > b.void:
		return 0, false, false
	case v.back > 0:
		v.after = true
		return 0, false, false // the answer to the release tells
	case v.spent && o == accepted:
		v.forget()
		return 0, false, false
	}
	return b.void, v.forget(), true
}

// forget leaves the node to others, and reports whether the answer to a question
// was lost.
func (v *vote) forget() (unsure bool) {
	unsure = v.unsure
	v.proposal, v.unsure = 0, false
	return unsure
}

// giveUp makes proposals up to the given one unwanted, and returns the nodes where
// they are to be taken back; those with a question under way follow.
func (b *ballot) giveUp(proposal int64) (back, unsure []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.void = max(b.void, proposal)
	for i := range b.at {
		v := &b.at[i]
		if v.pending > 0 || v.proposal == 0 || v.proposal > b.void {
			continue
		}
		if v.forget() {
			unsure = append(unsure, i)
		} else {
			back = append(back, i)
		}
	}
	return back, unsure
}

// release makes everything unwanted.
func (b *ballot) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.void = math.MaxInt64
}

// has reports whether the lock may be at a node, and whether the node has
// confirmed that it is gone.
func (b *ballot) has(i int) (may, gaveUp bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := &b.at[i]
	return v.pending > 0 || v.proposal > 0, v.gaveUp
}

// askBack takes note of a release that is under way.
func (b *ballot) askBack(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at[i].back++
}

// released takes note of the answer to a release, 0 if it was lost, and reports
// whether the lock is to be taken back once more: because of that, or because it
// was not there, but was accepted while the release was under way.
func (b *ballot) released(i int, said verdict) (again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := &b.at[i]
	v.back--
	if said == 0 {
		return true // it is still to be asked if the release is tried again
	}
	wasThere := said == released
	again = !wasThere && v.after && v.pending == 0
	v.gaveUp = v.gaveUp || wasThere
	v.spent = wasThere && v.pending == 1 && v.proposal == 0
	v.after = false
	v.forget()
	return again
}

// gone takes note of a lock that a node has given up, or keeps until it ends by
// itself.
func (b *ballot) gone(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at[i].forget()
	b.at[i].gaveUp = true
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
