package model_test

import (
	"fmt"
	"testing"

	"github.com/fenced-go/fenced/internal/model"
)

// A node that came back empty has to wait for as long as votes that it has
// forgotten may still be counted, and until no clock proposes any more what it
// has accepted: the deadline of an attempt and twice what clocks are off.
func TestEmptyNodeHasToWaitForVotesAndClocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ off, deadline int }{{0, 1}, {0, 3}, {1, 1}, {1, 2}} {
		enough := c.deadline + 2*c.off + 1
		for wait := enough - 1; wait <= enough; wait++ {
			t.Run(fmt.Sprintf("clocks off by %d, deadline %d, wait %d", c.off, c.deadline, wait), func(t *testing.T) {
				t.Parallel()
				r := model.Restart{
					Nodes: 3, Majority: 2, Attempts: 2, Losses: 1,
					Off: c.off, Deadline: c.deadline, Wait: wait, End: c.deadline + wait + 2*c.off + 3,
				}
				if wait < enough {
					breaks(t, r.Model(), model.Rising)
				} else {
					keeps(t, r.Model())
				}
			})
		}
	}
}

// Nodes may lose their data one after another or at once: all of them with clocks
// that are right, a majority with others.
func TestMajorityMayComeBackEmptyAfterTheWait(t *testing.T) {
	t.Parallel()
	for off, losses := range []int{3, 2} {
		t.Run(fmt.Sprintf("clocks off by %d, %d lost", off, losses), func(t *testing.T) {
			t.Parallel()
			wait := 1 + 2*off + 1
			keeps(t, model.Restart{
				Nodes: 3, Majority: 2, Attempts: 2, Losses: losses, Off: off, Deadline: 1, Wait: wait, End: wait + 2*off + 4,
			}.Model())
		})
	}
}

func TestThreeAttemptsBearRestarts(t *testing.T) {
	t.Parallel()
	keeps(t, model.Restart{Nodes: 3, Majority: 2, Attempts: 3, Losses: 2, Deadline: 1, Wait: 2, End: 4}.Model())
}
