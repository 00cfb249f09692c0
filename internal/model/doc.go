// Package model explores the protocols of this module exhaustively, within
// bounds: every order of steps, every pause, every lost, late or repeated
// message. A protocol is given as a first state and the steps that can be taken
// from a state; [Model.Explore] visits every state there is and gives, for each
// [Rule] that can be broken, a shortest way to break it.
//
// There are three of them:
//
//	Quorum   a majority of independent nodes agrees on a fence. Besides the way
//	         that fencedlock goes there are the ones that look as good and are
//	         wrong, each with one thing changed.
//	Restart  the same with nodes that come back empty, clocks that are off, and
//	         time, which tells how long such a node has to keep from voting.
//	Store    holders claim their fences at a store, whatever the lock hands out.
//
// [Check] applies the rules about fences to a history of the real thing.
//
// # What it does not do
//
// It proves nothing beyond its bounds: three or five nodes, up to four attempts.
// A lease may end at any moment, so what needs one to end no sooner, exclusion, is
// not in here. It looks at the protocol, not at the code; for that there are tests
// on real servers whose histories are checked.
package model
