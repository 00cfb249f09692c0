// Package rounds compares several ways of doing one thing, on a machine that is
// not quiet.
//
// All variants run in one process, in rounds: each round gives every variant
// one slice of time, in an order drawn anew.
//
//	round 1   | bare | peer | ours |
//	round 2   | ours | bare | peer |      a ratio per round, ours ÷ bare,
//	round 3   | peer | ours | bare |      and the median of them
//	…
//
// What disturbs the machine for longer than a round disturbs all variants
// alike, so a ratio says more than the figures that it is made of. What
// disturbs one slice spoils one round, which the median leaves out.
//
// # What it does not do
//
// It does not make a figure comparable with one of another run, another machine
// or another order of magnitude of load.
package rounds
