package main

import (
	"math/bits"
	"time"
)

const (
	fine    = 64 // microseconds that have a bucket each
	perStep = 32 // buckets for every doubling above
	steps   = 30 // doublings: up to 19 hours
)

// histogram counts durations in buckets that are 3 % wide. Its size does not
// depend on how much it has counted.
type histogram struct {
	counts [fine + perStep*steps]uint64
	n      uint64
	most   time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(d)]++
	h.n++
	h.most = max(h.most, d)
}

func bucket(d time.Duration) int {
	v := uint64(max(d, 0) / time.Microsecond)
	if v < fine {
		return int(v)
	}
	step := bits.Len64(v) - bits.Len64(fine-1)
	if step > steps {
		return fine + perStep*steps - 1
	}
	return fine + perStep*(step-1) + int(v>>step) - perStep
}

// edge is the first duration above a bucket.
func edge(i int) time.Duration {
	if i < fine {
		return time.Duration(i+1) * time.Microsecond
	}
	step := (i-fine)/perStep + 1
	within := (i-fine)%perStep + perStep + 1
	return time.Duration(within<<step) * time.Microsecond
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.most = max(h.most, other.most)
}

// quantile is what q of all durations were below, rounded up to a bucket.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.n))
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += n; seen > rank {
			return min(edge(i), h.most)
		}
	}
	return h.most
}
