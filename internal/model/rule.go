package model

import (
	"fmt"
	"strings"
)

// Rule is a set of sentences that a protocol has to keep.
type Rule uint8

// The rules.
const (
	// Unique: no two tenures have the same fence.
	Unique Rule = 1 << iota
	// Rising: a tenure that was asked for when another had been handed out has
	// a higher fence than that.
	Rising
	// NoStaleWrite: once a newer holder has read or written, no write of an older
	// one is accepted.
	NoStaleWrite
	// NoLostUpdate: nobody writes what it made of a value that has changed since.
	NoLostUpdate
	// Served: whoever is alone, and nothing fails any more, gets through at the
	// second try.
	Served
)

var ruleNames = []string{"Unique", "Rising", "NoStaleWrite", "NoLostUpdate", "Served"}

// String names the rules of the set.
func (r Rule) String() string {
	var names []string
	for i, name := range ruleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

// clash is what a tenure breaks against another one, which had been handed out
// before this one was asked for, or not.
func clash(fence, other int64, before bool) (r Rule) {
	if fence == other {
		r |= Unique
	}
	if before && fence <= other {
		r |= Rising
	}
	return r
}

// Tenure is one that was acquired, in a recorded history. Asked and Got are
// moments of one clock: before the request was sent, and after the lock was
// returned.
type Tenure struct {
	Asked, Got int64
	Fence      int64
}

// BrokenError is about two tenures of a history that break a rule together.
type BrokenError struct {
	Rule  Rule
	Older Tenure
	Newer Tenure
}

// Error implements error.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("model: %v: fence %d, asked for at %d and got at %d, and fence %d, asked for at %d",
		e.Rule, e.Older.Fence, e.Older.Asked, e.Older.Got, e.Newer.Fence, e.Newer.Asked)
}

// Check says whether a history keeps Unique and Rising, as the first
// [BrokenError] that it finds. Tenures of which nobody learnt must not be in it.
func Check(history []Tenure) error {
	for i, a := range history {
		for _, b := range history[:i] {
			older, newer := b, a
			if a.Got < b.Asked {
				older, newer = a, b
			}
			if r := clash(newer.Fence, older.Fence, older.Got < newer.Asked); r != 0 {
				return &BrokenError{Rule: r, Older: older, Newer: newer}
			}
		}
	}
	return nil
}
