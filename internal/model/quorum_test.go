package model_test

import (
	"fmt"
	"testing"

	"github.com/fenced-go/fenced/internal/model"
)

func TestProposedFencesAreUniqueAndRise(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]model.Quorum{
		// Without locks there is every order of executions that there is with them.
		"3 nodes, 4 attempts, any proposals":    {Nodes: 3, Majority: 2, Attempts: 4, Highest: 4, Repeats: true},
		"3 nodes, locks that go at any time":    {Nodes: 3, Majority: 2, Attempts: 3, Highest: 3, Locks: true, Expiry: true},
		"3 nodes, the same, requests repeated":  {Nodes: 3, Majority: 2, Attempts: 3, Highest: 3, Locks: true, Expiry: true, Repeats: true},
		"4 nodes":                               {Nodes: 4, Majority: 3, Attempts: 3, Highest: 3, Repeats: true},
		"5 nodes, 3 attempts":                   {Nodes: 5, Majority: 3, Attempts: 3, Highest: 3, Repeats: true},
		"5 nodes, 2 attempts, with their locks": {Nodes: 5, Majority: 3, Attempts: 2, Highest: 3, Repeats: true, Locks: true, Expiry: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q.Way = model.Propose
			keeps(t, q.Model())
		})
	}
}

// Two of these majorities share 2·majority - nodes of them. One that has
// forgotten nothing is enough.
func TestMajorityBearsFewerLossesThanTwoOfThemShareNodes(t *testing.T) {
	t.Parallel()
	for nodes := 3; nodes <= 5; nodes++ {
		for majority := nodes/2 + 1; majority <= nodes; majority++ {
			for losses := range 4 {
				t.Run(fmt.Sprintf("%d of %d, %d lost", majority, nodes, losses), func(t *testing.T) {
					t.Parallel()
					q := model.Quorum{Nodes: nodes, Majority: majority, Losses: losses, Way: model.Propose, Attempts: 2, Highest: 2, Repeats: true}
					if 2*majority-nodes > losses {
						keeps(t, q.Model())
					} else {
						breaks(t, q.Model(), model.Rising)
					}
				})
			}
		}
	}
}

func TestThreeAttemptsBearTheLosses(t *testing.T) {
	t.Parallel()
	q := model.Quorum{Nodes: 3, Majority: 3, Losses: 2, Way: model.Propose, Attempts: 3, Highest: 3, Repeats: true}
	keeps(t, q.Model())
}

// Each of these differs from the right way in one thing. Nothing is lost and
// nothing repeated, and locks are perfect but for the one that needs a holder to
// pause past its lease.
func TestWrongWaysBreakTheRules(t *testing.T) {
	t.Parallel()
	for name, q := range wrong {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			breaks(t, q.Model(), model.Unique)
			right := q
			right.Way, right.Highest = model.Propose, max(q.Highest, 2)
			keeps(t, right.Model())
		})
	}
}

var wrong = map[string]model.Quorum{
	"the highest of counters": {Nodes: 3, Majority: 2, Attempts: 3, Way: model.MaxOfCounters, Locks: true},
	"the same number twice":   {Nodes: 3, Majority: 2, Attempts: 2, Way: model.AcceptEqual, Highest: 2, Locks: true},
	"rounds counted together": {Nodes: 3, Majority: 2, Attempts: 3, Way: model.MixedRounds, Highest: 2, Locks: true},
	"unconditional writes":    {Nodes: 3, Majority: 2, Attempts: 2, Way: model.WriteBack, Locks: true, Expiry: true},
}
