package model

// Way is how an attempt comes to its fence, which is the highest number that
// the nodes of its majority told it.
type Way struct {
	// ask is what a node makes of a request for fence p: its counter afterwards,
	// the number that it tells, and whether it accepts at all.
	ask func(counter, p uint8) (after, told uint8, ok bool)
	// write is the same for the second phase, in which the highest number + 1 is
	// written to the nodes of the majority; nil: there is none.
	write func(counter, p uint8) (after, told uint8, ok bool)
}

// The right way.
var (
	// Propose: the caller names the fence, and a node accepts what is above its
	// counter, which it then keeps. Two majorities share a node, and that has
	// accepted both fences in their order.
	Propose = Way{ask: func(counter, p uint8) (after, told uint8, ok bool) {
		return max(counter, p), p, p > counter
	}}
)

// Wrong ways.
var (
	// AcceptEqual takes a number twice.
	AcceptEqual = Way{ask: func(counter, p uint8) (after, told uint8, ok bool) {
		return max(counter, p), p, p >= counter
	}}
	// MaxOfCounters has each node count by itself and takes the highest, as in one
	// INCR per node. The highest may come from a node that the next majority does
	// not ask.
	MaxOfCounters = Way{ask: func(counter, _ uint8) (after, told uint8, ok bool) {
		return counter + 1, counter + 1, true
	}}
	// MixedRounds asks again only where it was refused, with a number that is high
	// enough there, and counts all acceptances together. No majority knows the
	// higher number.
	MixedRounds = Way{ask: func(counter, p uint8) (after, told uint8, ok bool) {
		after = max(p, counter+1)
		return after, after, true
	}}
	// WriteBack reads the counters of a majority and writes the highest + 1 back,
	// without a condition. Two may read the same.
	WriteBack = Way{
		ask:   func(counter, _ uint8) (after, told uint8, ok bool) { return counter, counter, true },
		write: func(counter, p uint8) (after, told uint8, ok bool) { return max(counter, p), p, true },
	}
)
