package main

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// chanceWorking and chanceWriting are how many of a hundred sections are
	// paused before and after the worker has asked its lock.
	chanceWorking, chanceWriting = 8, 12
	// beyondLeast and beyondMost are by how much a pause is longer than the TTL:
	// it ends while a successor is at work.
	beyondLeast, beyondMost = 10 * time.Millisecond, 100 * time.Millisecond
)

// pauses decides who is stopped, and for how long, until there were enough.
type pauses struct {
	mu       sync.Mutex
	rand     *rand.Rand
	wanted   int
	deadline time.Time
	made     int
	late     int // of them, after the question
}

// next says how long the worker is stopped that has just said something, 0 for
// not at all.
func (p *pauses) next(said string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	chance := chanceWorking
	if said == sayWriting {
		chance = chanceWriting
	}
	if p.made == p.wanted || p.rand.IntN(100) >= chance {
		return 0
	}
	p.made++
	if said == sayWriting {
		p.late++
	}
	return ttl + beyondLeast + time.Duration(p.rand.Int64N(int64(beyondMost-beyondLeast)))
}

// over says whether a worker that begins anew should end.
func (p *pauses) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made == p.wanted || time.Now().After(p.deadline)
}
