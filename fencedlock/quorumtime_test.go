package fencedlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// proposals counts what all nodes were asked.
func proposals(nodes []*fakeNode, o op) (n int) {
	for _, f := range nodes {
		n += f.count(o)
	}
	return n
}

func TestAQuorumNeedsOneRoundTripUnlessTheClockIsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := fakeQuorum(5)
		slow := newSkewed()
		slow.step(-10 * time.Minute)
		ahead, behind := quorumLocker(t, nodes, newSkewed(), nil), quorumLocker(t, nodes, slow, nil)
		rounds := func(l *Locker) int {
			t.Helper()
			pass(time.Second)
			before := proposals(nodes, opPropose)
			k := mustAcquire(t, l, "r")
			if err := k.Release(t.Context()); err != nil {
				t.Errorf("Release: %v", err)
			}
			synctest.Wait()
			return (proposals(nodes, opPropose) - before + 4) / 5
		}
		for i, c := range []struct {
			l    *Locker
			want int
		}{{ahead, 1}, {ahead, 1}, {behind, 2}, {behind, 1}, {behind, 1}, {ahead, 1}, {behind, 2}, {behind, 1}} {
			if got := rounds(c.l); got != c.want {
				t.Errorf("acquisition %d took %d rounds, want %d", i, got, c.want)
			}
		}
	})
}

// TestAProposalIsCountedForItselfAlone: one node accepts the first proposal, and
// two are far ahead; what it accepted does not count for the next one.
func TestAProposalIsCountedForItselfAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := fakeQuorum(3)
		l := quorumLocker(t, nodes, newSkewed(), nil)
		key := newKeys(DefaultPrefix, "r")
		const high = 1 << 60
		nodes[1].shelf.counters[key.counter] = high
		nodes[2].shelf.counters[key.counter] = high + 5
		k := mustAcquire(t, l, "r")
		if k.Fence().ID <= high {
			t.Errorf("fence %d, a node of every majority had %d", k.Fence().ID, int64(high))
		}
		have := 0
		for _, f := range nodes {
			f.mu.Lock() // stragglers are still asking
			if f.shelf.locks[key.lock].fence == k.Fence().ID {
				have++
			}
			f.mu.Unlock()
		}
		if have < 2 {
			t.Errorf("%d nodes have accepted fence %d", have, k.Fence().ID)
		}
	})
}

// TestOneNodeCannotUseUpTheFences: its counter is where no fence can follow.
func TestOneNodeCannotUseUpTheFences(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := fakeQuorum(3)
		l := quorumLocker(t, nodes, newSkewed(), nil)
		key := newKeys(DefaultPrefix, "r")
		nodes[0].shelf.counters[key.counter] = maxFence - 1
		for range 3 {
			if k := mustAcquire(t, l, "r"); k.Fence().ID > 1<<60 {
				t.Errorf("fence %d", k.Fence().ID)
			} else if err := k.Release(t.Context()); err != nil {
				t.Errorf("Release: %v", err)
			}
			pass(time.Millisecond)
		}
		nodes[1].mu.Lock()
		nodes[1].shelf.counters[key.counter] = maxFence - 1
		nodes[1].mu.Unlock()
		if _, err := l.Acquire(t.Context(), "r", nil); !errors.Is(err, ErrConfig) {
			t.Errorf("two nodes at the bound: %v", err)
		}
	})
}

// TestALeaseCountsFromBeforeTheFirstQuestion: nodes take most of the lease to
// answer, or so long that nothing of it is left.
func TestALeaseCountsFromBeforeTheFirstQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, took := range []time.Duration{0, 30 * time.Millisecond, 150 * time.Millisecond} {
			nodes := fakeQuorum(3)
			l := quorumLocker(t, nodes, newSkewed(), &Options{TTL: time.Second})
			for _, f := range nodes {
				f.late(func(*call) time.Duration { return took })
			}
			k := mustAcquire(t, l, "r")
			if want := time.Second - margin(time.Second) - took; k.Remaining() != want {
				t.Errorf("answered after %v: %v remain, want %v", took, k.Remaining(), want)
			}
		}
		nodes := fakeQuorum(3)
		l := quorumLocker(t, nodes, newSkewed(), &Options{TTL: time.Second})
		var stuck atomic.Bool
		stuck.Store(true)
		for _, f := range nodes { // they do not keep the deadline, as a machine that was stopped
			f.late(func(c *call) time.Duration {
				if c.op == opPropose && stuck.Load() {
					return 990 * time.Millisecond
				}
				return 0
			})
		}
		if k, err := l.Acquire(t.Context(), "r", nil); k != nil || !errors.Is(err, ErrLost) {
			t.Errorf("answered after 990ms of 1s: got %v, %v", k, err)
		}
		stuck.Store(false)
		pass(5 * time.Second)
		for i, f := range nodes {
			if f.live() != 0 {
				t.Errorf("node %d still has the lock", i)
			}
		}
	})
}

// TestAFrozenNodeIsLeftAlone has one of three nodes answer nothing, and counts
// what it is asked.
func TestAFrozenNodeIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := fakeQuorum(3)
		l := quorumLocker(t, nodes, newSkewed(), nil)
		var asked atomic.Int64
		nodes[0].fault(func(ctx context.Context, _ *call) error {
			asked.Add(1)
			return hang(ctx)
		})
		start := time.Now()
		for i := range 1000 {
			k := mustAcquire(t, l, fmt.Sprint(i))
			if err := k.Release(t.Context()); err != nil {
				t.Errorf("Release: %v", err)
			}
			pass(10 * time.Millisecond)
		}
		if took := time.Since(start); took > 1000*10*time.Millisecond {
			t.Errorf("it took %v, %v of them the pauses", took, 10*time.Second)
		}
		if n := asked.Load(); n < 3 || n > 150 {
			t.Errorf("the frozen node was asked %d times in 1000 acquisitions", n)
		}
		nodes[0].fault(nil)
		pass(3 * time.Second)
		k := mustAcquire(t, l, "after")
		pass(100 * time.Millisecond)
		if nodes[0].live() != 1 {
			t.Error("the node is not asked again")
		}
		if err := k.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
}

// TestNothingOfAQuorumIsLeftAfterClose closes a Locker that holds locks, while a
// node answers nothing and calls are under way.
func TestNothingOfAQuorumIsLeftAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := fakeQuorum(3)
		l := quorumLocker(t, nodes, newSkewed(), nil)
		for i := range 10 {
			mustAcquire(t, l, fmt.Sprint("held ", i))
		}
		other := quorumLocker(t, nodes, newSkewed(), nil)
		nodes[2].fault(func(ctx context.Context, _ *call) error { return hang(ctx) })
		waiting := make(chan error, 1)
		go func() {
			_, err := other.Acquire(t.Context(), "held 0", nil)
			waiting <- err
		}()
		pass(100 * time.Millisecond)
		start := time.Now()
		if err := other.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("the waiter got %v", err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(start); took > 2*closeTimeout {
			t.Errorf("Close took %v", took)
		}
		for i, f := range nodes[:2] {
			if f.live() != 0 {
				t.Errorf("node %d has %d locks", i, f.live())
			}
		}
		synctest.Wait()
	})
}

// TestLateProposalsAreTakenBack: a node works on a proposal for so long that the
// acquire has failed, or its lock was released, when it accepts.
func TestLateProposalsAreTakenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := fakeQuorum(3)
		l := quorumLocker(t, nodes, newSkewed(), nil)
		nodes[0].late(func(c *call) time.Duration {
			if c.op == opPropose {
				return 500 * time.Millisecond
			}
			return 0
		})
		k := mustAcquire(t, l, "r")
		if err := k.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
		if n := nodes[0].count(opPropose); n != 0 {
			t.Errorf("the late node has answered %d proposals", n)
		}
		pass(600 * time.Millisecond)
		if n := nodes[0].count(opPropose); n != 1 || nodes[0].live() != 0 {
			t.Errorf("the late node has answered %d proposals, and has %d locks", n, nodes[0].live())
		}
	})
}

func TestGateTellsRestartsWhateverTheServersClockSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const wait = 10 * time.Second
		f := fakeQuorum(1)[0]
		now := newClock()
		newGate := func() *gate {
			return &gate{wait: wait, now: now, asking: make(chan struct{}, 1), dials: f.dials, who: f.who}
		}
		votes := func(g *gate) bool {
			t.Helper()
			err := g.open(t.Context(), now().mono)
			if _, waits := errors.AsType[*quarantineError](err); err != nil && !waits {
				t.Fatal(err)
			}
			return err == nil
		}
		old := newGate()
		if !votes(old) {
			t.Error("a server that has been up for a day does not vote")
		}
		f.restart()
		fresh := newGate()
		if votes(old) || votes(fresh) {
			t.Error("a server that has just restarted votes")
		}
		f.ahead = time.Hour // its clock is set after it has started
		f.conns++           // and a connection is made
		if votes(old) {
			t.Error("a clock that was set lets a server vote that was known before")
		}
		pass(wait - time.Second)
		if votes(old) || votes(fresh) {
			t.Error("it votes a second too early")
		}
		pass(time.Second)
		if !votes(old) {
			t.Error("it does not vote when it may")
		}
		old.hear()
		f.restart()
		if votes(old) {
			t.Error("a clock that is wrong when the server starts lets it vote, although its predecessor was heard")
		}
	})
}

// TestAReleaseThatNobodyAnswersCanBeRepeated: it is unavailable, not lost.
func TestAReleaseThatNobodyAnswersCanBeRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := fakeQuorum(5)
		l := quorumLocker(t, nodes, newSkewed(), nil)
		k := mustAcquire(t, l, "r")
		pass(2 * time.Second) // all have it
		for _, f := range nodes[2:] {
			f.fault(func(ctx context.Context, _ *call) error { return hang(ctx) })
		}
		err := k.Release(t.Context())
		if u, ok := errors.AsType[*UnavailableError](err); !ok || u.ExpiresIn <= 0 {
			t.Errorf("Release with three of five nodes frozen: %v", err)
		}
		for _, f := range nodes[2:] {
			f.fault(nil)
		}
		pass(5 * time.Second)
		if err := k.Release(t.Context()); err != nil {
			t.Errorf("Release again: %v", err)
		}
		pass(5 * time.Second)
		for i, f := range nodes {
			if f.live() != 0 {
				t.Errorf("node %d still has the lock", i)
			}
		}
	})
}

// TestNoHolderProposesAFenceTwice has a caller whose clock is behind wait for a
// resource that somebody holds: all that it knows stays the same, and still each
// proposal is a new one, which the withdrawal of the one before does not touch.
func TestNoHolderProposesAFenceTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := fakeQuorum(3)
		slow := newSkewed()
		slow.step(-10 * time.Minute)
		l, waiter := quorumLocker(t, nodes, newSkewed(), nil), quorumLocker(t, nodes, slow, nil)
		k := mustAcquire(t, l, "r")
		pass(2 * time.Second)
		nodes[0].wipe() // one node accepts whatever the waiter proposes, and takes it back
		var mu sync.Mutex
		type fences struct{ first, last int64 } // a proposal, and what it reserves
		var seen []fences                       // in any order: one may overtake another
		nodes[0].fault(func(_ context.Context, c *call) error {
			mu.Lock()
			defer mu.Unlock()
			if c.op == opPropose {
				for _, f := range seen {
					if c.proposal <= f.last && c.newest >= f.first {
						t.Errorf("proposal %d to %d after %v", c.proposal, c.newest, f)
					}
				}
				seen = append(seen, fences{c.proposal, c.newest})
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := waiter.Acquire(ctx, "r", nil); !errors.Is(err, ErrHeld) {
			t.Errorf("Acquire: %v", err)
		}
		if err := k.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
}
