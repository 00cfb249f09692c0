package faults

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"
)

// Fault is one kind of harm to one thing.
type Fault struct {
	// Name is what reports call it, such as "pause redis".
	Name string
	// Lane is the thing. Faults of one lane never overlap; those of different
	// lanes do.
	Lane string
	// Longest is how long it lasts at most. With zero it is over at once.
	Longest time.Duration
	// Begin does the harm, End undoes it. Without an End there is nothing to undo.
	Begin, End func()
}

// Step is one fault in a plan.
type Step struct {
	Fault *Fault
	// At and End count from the beginning of the run.
	At, End time.Duration
}

// atOnce is how many faults are at work at an average instant, at most: more, and
// nobody gets anything done that a fault could spoil.
const atOnce = 2.5

// leastGap is the shortest pause between two faults of a lane.
const leastGap = 50 * time.Millisecond

// Plan spreads faults over a time, in the order in which they begin. The same
// arguments make the same plan. Each lane goes through its faults in a random
// order, and through all of them before one comes again. All end within length.
func Plan(seed uint64, length time.Duration, faults []Fault) []Step {
	lanes := make(map[string][]*Fault)
	var names []string
	var sum time.Duration
	for i := range faults {
		name := faults[i].Lane
		if lanes[name] == nil {
			names = append(names, name)
		}
		lanes[name] = append(lanes[name], &faults[i])
		sum += faults[i].usually()
	}
	if len(faults) == 0 {
		return nil
	}
	// a lane is idle for at least two thirds of the time
	usual := float64(sum) / float64(len(faults))
	gap := max(time.Duration(usual*max(float64(len(lanes))/atOnce-1, 2)), leastGap)
	var steps []Step
	for _, name := range names {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(name))
		r := rand.New(rand.NewPCG(seed, hash.Sum64()))
		steps = append(steps, planLane(r, length, gap, lanes[name])...)
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return int(a.At - b.At) })
	return steps
}

// usually is how long a fault lasts on average.
func (f *Fault) usually() time.Duration { return f.Longest/4 + f.Longest*3/8 }

// planLane leaves pauses of gap on average.
func planLane(r *rand.Rand, length, gap time.Duration, faults []*Fault) (steps []Step) {
	var deck []*Fault
	at := time.Duration(0)
	for {
		if len(deck) == 0 {
			deck = slices.Clone(faults)
			r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		f := deck[0]
		deck = deck[1:]
		at += leastGap/2 + time.Duration(r.Int64N(2*int64(gap)))
		end := at
		if f.Longest > 0 {
			end += f.Longest/4 + time.Duration(r.Int64N(int64(f.Longest-f.Longest/4)))
		}
		if end > length {
			return steps
		}
		steps = append(steps, Step{Fault: f, At: at, End: end})
		at = end
	}
}
