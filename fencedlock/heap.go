package fencedlock

import (
	"container/heap"
	"time"
)

// spot is where a lock stands in a lockHeap: index is -1 when it is not in it.
type spot struct {
	key   time.Duration
	index int
}

// nowhere is the spot of a lock that is in no heap.
var nowhere = spot{index: -1}

// lockHeap has locks in the order of an instant that each of them has. A lock
// knows its spot in every heap, so that it can be moved and taken out.
type lockHeap struct {
	locks []*Lock
	of    func(*Lock) *spot
}

// put puts k in, or moves it.
func (h *lockHeap) put(k *Lock, key time.Duration) {
	p := h.of(k)
	p.key = key
	if p.index < 0 {
		heap.Push(h, k)
	} else {
		heap.Fix(h, p.index)
	}
}

// remove takes k out if it is in.
func (h *lockHeap) remove(k *Lock) {
	if p := h.of(k); p.index >= 0 {
		heap.Remove(h, p.index)
	}
}

// next takes the first lock out.
func (h *lockHeap) next() *Lock {
	k, _ := heap.Pop(h).(*Lock)
	return k
}

// empty takes all locks out and returns them.
func (h *lockHeap) empty() []*Lock {
	locks := h.locks
	h.locks = nil
	for _, k := range locks {
		h.of(k).index = -1
	}
	return locks
}

// Len implements [heap.Interface].
func (h *lockHeap) Len() int { return len(h.locks) }

// Less implements [heap.Interface].
func (h *lockHeap) Less(i, j int) bool { return h.of(h.locks[i]).key < h.of(h.locks[j]).key }

// Swap implements [heap.Interface].
func (h *lockHeap) Swap(i, j int) {
	h.locks[i], h.locks[j] = h.locks[j], h.locks[i]
	h.of(h.locks[i]).index, h.of(h.locks[j]).index = i, j
}

// Push implements [heap.Interface].
func (h *lockHeap) Push(x any) {
	k, _ := x.(*Lock)
	h.of(k).index = len(h.locks)
	h.locks = append(h.locks, k)
}

// Pop implements [heap.Interface].
func (h *lockHeap) Pop() any {
	last := len(h.locks) - 1
	k := h.locks[last]
	h.locks[last] = nil
	h.locks = h.locks[:last]
	h.of(k).index = -1
	return k
}
