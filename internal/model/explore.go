package model

import (
	"errors"
	"fmt"
	"strings"
)

// Model is a protocol. A state is compared with ==, and is all that the future
// depends on.
type Model[S comparable] struct {
	First S
	// Steps gives everything that can happen next.
	Steps func(s S, happens func(Step[S]))
	// Lacks says what a state breaks by itself; nil: nothing.
	Lacks func(s S) Rule
}

// Step is one thing that happens.
type Step[S comparable] struct {
	Text   Text
	To     S
	Breaks Rule
}

// Text says what happened. It is put together only if somebody reads it.
type Text struct {
	Format string
	Args   [3]uint8
}

// String is the text, put together.
func (t Text) String() string {
	args := make([]any, strings.Count(t.Format, "%"))
	for i := range args {
		args[i] = t.Args[i]
	}
	return fmt.Sprintf(t.Format, args...)
}

// Trace is a way from the first state to one that breaks a rule.
type Trace []string

// String numbers the steps, one a line.
func (t Trace) String() string {
	var b strings.Builder
	for i, line := range t {
		_, _ = fmt.Fprintf(&b, "%d. %s\n", i+1, line)
	}
	return b.String()
}

// Result is what an exploration has found.
type Result struct {
	States, Steps int
	// Broken has a shortest trace for each rule that can be broken.
	Broken map[Rule]Trace
}

// ErrTooManyStates ends an exploration at its limit: it has proven nothing.
var ErrTooManyStates = errors.New("model: more states than the limit")

// Explore visits all states, the nearest first. It ends early when all rules of
// until are broken, if there are any in it.
func (m Model[S]) Explore(limit int, until Rule) (*Result, error) {
	x := &exploration[S]{Model: m, seen: map[S]struct{}{}, result: Result{Broken: map[Rule]Trace{}}}
	x.visit(m.First, -1)
	for at := 0; at < len(x.states); at++ {
		if until != 0 && x.broken&until == until {
			break
		}
		if len(x.states) > limit {
			return nil, fmt.Errorf("%w: %d", ErrTooManyStates, limit)
		}
		x.look(at)
	}
	x.result.States = len(x.states)
	return &x.result, nil
}

type exploration[S comparable] struct {
	Model[S]
	result Result
	broken Rule
	seen   map[S]struct{}
	states []S     // in the order they were found
	from   []int32 // where each was found from
}

func (x *exploration[S]) visit(s S, from int) {
	if _, ok := x.seen[s]; ok {
		return
	}
	x.seen[s] = struct{}{}
	x.states, x.from = append(x.states, s), append(x.from, int32(from))
}

// look takes every step from one state.
func (x *exploration[S]) look(at int) {
	s := x.states[at]
	if x.Lacks != nil {
		x.breaks(x.Lacks(s), at, nil)
	}
	x.Steps(s, func(step Step[S]) {
		x.result.Steps++
		x.breaks(step.Breaks, at, &step)
		x.visit(step.To, at)
	})
}

// breaks keeps the trace of each rule that is broken for the first time, by a
// state or by a step from it.
func (x *exploration[S]) breaks(rules Rule, at int, step *Step[S]) {
	for fresh := rules &^ x.broken; fresh != 0; fresh &= fresh - 1 {
		rule := fresh & -fresh
		x.broken |= rule
		trace := x.trace(at)
		if step != nil {
			trace = append(trace, step.Text.String())
		}
		if len(trace) == 0 {
			trace = Trace{"nothing has happened yet"}
		}
		trace[len(trace)-1] += "  <== not " + rule.String()
		x.result.Broken[rule] = trace
	}
}

// trace is the way to a state. Steps are not kept: they are taken again to see
// which of them led on.
func (x *exploration[S]) trace(at int) Trace {
	if x.from[at] < 0 {
		return nil
	}
	before := int(x.from[at])
	trace := x.trace(before)
	found := false
	x.Steps(x.states[before], func(step Step[S]) {
		if !found && step.To == x.states[at] {
			found = true
			trace = append(trace, step.Text.String())
		}
	})
	return trace
}
