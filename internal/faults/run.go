package faults

import (
	"context"
	"slices"
	"time"
)

// moment is one thing that a run does.
type moment struct {
	at    time.Duration
	step  *Step
	isEnd bool
}

// Run carries out a plan on the goroutine of the caller, one thing at a time, and
// records it in h. Where faults take long to begin or to undo, those are left out
// whose time has passed. Whatever has begun is undone, also when ctx ends.
func Run(ctx context.Context, steps []Step, h *History) {
	var moments []moment
	for i := range steps {
		s := &steps[i]
		moments = append(moments, moment{s.At, s, false}, moment{s.End, s, true})
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return int(a.at - b.at) })
	start := time.Now()
	began := make(map[*Step]time.Time)
	for _, m := range moments {
		ended := !until(ctx, start.Add(m.at))
		switch {
		case !m.isEnd && !ended && time.Since(start) <= m.step.End+lateness:
			began[m.step] = time.Now()
			m.step.Fault.Begin()
		case m.isEnd && !began[m.step].IsZero():
			if undo := m.step.Fault.End; undo != nil {
				undo()
			}
			h.Harmed(Harm{Name: m.step.Fault.Name, Began: began[m.step], Ended: time.Now()})
		}
	}
}

// lateness is forgiven: machines are busy.
const lateness = 250 * time.Millisecond

// until waits for an instant and reports true, or false when ctx has ended.
func until(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
