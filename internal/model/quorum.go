package model

import "math/bits"

// Bounds of what a state has room for.
const (
	maxNodes    = 5
	maxAttempts = 4
)

// Quorum is a number of nodes that know nothing of each other, and attempts to
// get a fence from a majority of them.
//
// An attempt is one round: the same request to all nodes. A call that asks
// again with a higher number is an attempt that was given up, and another one,
// which begins later and so has to keep more. A request may be executed at any
// time after it was sent, or never; an attempt may stop at any time, by not
// going on. An answer that is lost is the same to the attempt as a request that
// is, unless a node has forgotten it.
type Quorum struct {
	Nodes, Majority, Attempts int
	// Way is how an attempt comes to its fence.
	Way Way
	// Highest bounds the proposals: any of 1 to Highest, whatever clocks say. At 0
	// nothing is proposed.
	Highest int
	// Repeats: a request may be executed any number of times.
	Repeats bool
	// Locks: a node serves one attempt until its lock has gone.
	Locks bool
	// Expiry: a lock may go at any time. Otherwise it goes when its attempt is
	// over, which is what a perfect lock would do.
	Expiry bool
	// Losses is how often a node may lose its data, over all nodes.
	Losses int
}

// Model is the protocol as steps.
func (q Quorum) Model() Model[quorumState] {
	return Model[quorumState]{Steps: q.steps}
}

// quorumState is comparable, and as small as it can be.
type quorumState struct {
	nodes    [maxNodes]node
	attempts [maxAttempts]attempt
	losses   uint8
}

type node struct {
	counter uint8
	owner   uint8 // 1 + the attempt that has the lock; 0: none
	used    bool
}

type attempt struct {
	begun    bool
	writing  bool // in the second phase, of the ways that have one
	end      end
	p        uint8 // what it asks for
	fence    uint8 // the highest number that it was told
	pending  set   // nodes that have its request still to execute
	accepted set   // nodes that have accepted
	before   set   // attempts that had got their fences when it began
}

type end uint8

const (
	open end = iota
	acquired
	givenUp
)

// set is a set of small numbers.
type set uint8

func (s set) has(i int) bool { return s&(1<<i) != 0 }
func (s *set) add(i int)     { *s |= 1 << i }
func (s *set) remove(i int)  { *s &^= 1 << i }
func (s set) size() int      { return bits.OnesCount8(uint8(s)) }

// letter names an attempt in texts; nodes are numbered from 1.
func letter(i int) uint8 { return 'A' + uint8(i) }

func number(k int) uint8 { return uint8(k) + 1 }
