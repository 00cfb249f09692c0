package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// workers is how many processes want the accounts.
const workers = 8

// row is what was counted under one lock.
type row struct {
	Lock, How             string
	Acknowledged, Unknown int
	Pauses, Late          int
	Noticed, Refused      int
	verdict
}

// harm says whether anything went wrong that a lock is there to prevent.
func (r row) harm() bool { return r.Lost != 0 || r.Stale != 0 || r.Duplicates != 0 }

// errOracle is about figures that cannot be true.
var errOracle = errors.New("the store and the workers do not agree")

// consistent compares what workers were told with what the store has.
func (r row) consistent() error {
	if r.Committed < r.Acknowledged || r.Committed > r.Acknowledged+r.Unknown {
		return fmt.Errorf("%w: %d writes are committed, %d were acknowledged, %d are unknown",
			errOracle, r.Committed, r.Acknowledged, r.Unknown)
	}
	return nil
}

// experiment is one contender at work.
type experiment struct {
	contender contender
	world     world
	pauses    pauses

	mu   sync.Mutex
	said map[string]int
}

// plan is how long an experiment lasts.
type plan struct {
	// Pauses is after how many it ends.
	Pauses int
	// Within bounds it all the same: a lock may hang.
	Within time.Duration
	// Seed draws the pauses.
	Seed uint64
}

// measure runs one contender from an empty store to the verdict.
func measure(ctx context.Context, c contender, w world, p plan) (row, error) {
	if err := prepare(ctx, w.Postgres); err != nil {
		return row{}, err
	}
	w.Contender = c.name
	x := &experiment{contender: c, world: w, said: map[string]int{}, pauses: pauses{
		rand: rand.New(rand.NewPCG(p.Seed, 0)), wanted: p.Pauses, deadline: time.Now().Add(p.Within),
	}}
	if err := x.run(ctx, p.Within+endWithin); err != nil {
		return row{}, fmt.Errorf("%s: %w", c.name, err)
	}
	v, err := judge(ctx, w.Postgres)
	if err != nil {
		return row{}, err
	}
	r := row{
		Lock: c.name, How: c.how, verdict: v,
		Acknowledged: x.said[sayAcknowledged], Unknown: x.said[sayUnknown],
		Noticed: x.said[sayNoticed], Refused: x.said[sayRefused],
		Pauses: x.pauses.made, Late: x.pauses.late,
	}
	return r, r.consistent()
}

// run has all workers work until there were enough pauses, and waits for them.
func (x *experiment) run(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	errs := make([]error, workers)
	var all sync.WaitGroup
	for i := range workers {
		p, err := start(ctx, x.world)
		if err != nil {
			errs[i] = err
			cancel()
			break
		}
		all.Go(func() {
			if errs[i] = errors.Join(x.drive(ctx, p), p.wait()); errs[i] != nil {
				cancel() // one that fails ends all
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// drive answers a worker until it has ended.
func (x *experiment) drive(ctx context.Context, p *process) error {
	defer func() { _ = p.in.Close() }()
	for {
		said, err := p.hear()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := x.respond(ctx, p, said); err != nil {
			return err
		}
	}
}

func (x *experiment) respond(ctx context.Context, p *process, said string) error {
	onward := func() error { return p.answer(answerGo) }
	switch said {
	case sayNext:
		if x.pauses.over() {
			return p.answer(answerStop)
		}
		return onward()
	case sayWorking, sayWriting:
		if d := x.pauses.next(said); d > 0 {
			return p.pause(ctx, d, onward)
		}
		return onward()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.said[said]++
	return nil
}
