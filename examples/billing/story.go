package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fenced-go/fenced/examples/billing/internal/ledger"
	"github.com/fenced-go/fenced/examples/billing/internal/nightly"
)

// stage is where the story plays.
type stage interface {
	// describe is one sentence for the reader.
	describe() string
	// start begins worker n. If stallAt is not 0 the worker stands still before
	// it writes the invoice of that account, until it is thawed. Everything it
	// does is told, and last that it has ended. It ends when ctx does.
	start(ctx context.Context, n int, stallAt int64, tell func(event)) (actor, error)
	audit(ctx context.Context) (ledger.Audit, error)
	close(ctx context.Context)
}

// actor is a worker that can be made to stand still altogether, renewals of its
// lock included.
type actor interface {
	freeze() error
	thaw() error
}

// event is a step of worker n.
type event struct {
	worker int
	nightly.Event
}

// What workers tell besides what their job does.
const (
	stalled nightly.Kind = "stalled"
	ended   nightly.Kind = "ended"
)

// story directs the workers.
type story struct {
	cfg      config
	stage    stage
	timeline *timeline
	events   chan event
	running  int
	refused  int // invoices
	files    int // statements that were refused
}

// tell plays the story and reports whether the books are right afterwards.
func tell(ctx context.Context, cfg config, w io.Writer) (right bool, err error) {
	st, err := newStage(ctx, cfg)
	if err != nil {
		return false, err
	}
	defer st.close(ctx)
	s := &story{cfg: cfg, stage: st, timeline: newTimeline(w), events: make(chan event, 64)}
	s.timeline.title(cfg, st.describe())
	if err := s.play(ctx); err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	a, err := st.audit(ctx)
	if err != nil {
		return false, err
	}
	s.timeline.audit(a, s.refused, s.files)
	right = a.Duplicates == 0 && a.WrongBalances == 0 && a.WrongStatements == 0 && a.Invoices == a.Accounts
	if right && (s.refused == 0 || cfg.s3 != "" && s.files == 0) {
		return false, errors.New("nobody was refused: the first worker woke up before its lease had ended")
	}
	return right, nil
}

func newStage(ctx context.Context, cfg config) (stage, error) {
	if cfg.postgres != "" {
		return newServers(ctx, cfg)
	}
	return newEmbedded(ctx, cfg)
}

// play has the first worker stall, the others take over, and the first wake up
// when one of them has finished.
func (s *story) play(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience(s.cfg.ttl))
	defer cancel()
	first, err := s.start(ctx, 1, s.cfg.stallAt())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			cancel() // ends the workers
			_ = first.thaw()
		}
		s.drain()
	}()
	if err := s.await(ctx, "worker 1 to come to its stall", func(e event) bool { return e.Kind == stalled }); err != nil {
		return err
	}
	if err := first.freeze(); err != nil {
		return err
	}
	for n := 2; n <= s.cfg.workers; n++ {
		if _, err := s.start(ctx, n, 0); err != nil {
			return err
		}
	}
	if err := s.await(ctx, "another worker to finish", func(e event) bool { return e.worker != 1 && e.Kind == nightly.Finished }); err != nil {
		return err
	}
	s.timeline.line(1, "wakes up, and writes the invoice", 0)
	if err := first.thaw(); err != nil {
		return err
	}
	return s.await(ctx, "the workers to end", func(event) bool { return s.running == 0 })
}

// patience bounds the story: the lease has to run out once.
func patience(ttl time.Duration) time.Duration { return 2*time.Minute + 3*ttl }

func (s *story) start(ctx context.Context, n int, stallAt int64) (actor, error) {
	a, err := s.stage.start(ctx, n, stallAt, func(e event) { s.events <- e })
	if err == nil {
		s.running++
	}
	return a, err
}

// await prints what happens until the event that is waited for.
func (s *story) await(ctx context.Context, what string, is func(event) bool) error {
	for {
		select {
		case e := <-s.events:
			s.note(e)
			if is(e) {
				return nil
			}
			if s.running == 0 {
				return fmt.Errorf("all workers ended; still waiting for %s", what)
			}
		case <-ctx.Done():
			return fmt.Errorf("while waiting for %s: %w", what, ctx.Err())
		}
	}
}

// drain waits for workers that were told to end, so that they release.
func (s *story) drain() {
	for s.running > 0 {
		s.note(<-s.events)
	}
}

func (s *story) note(e event) {
	if e.Kind == ended {
		s.running--
	}
	if e.Kind == nightly.Refused {
		s.refused++
	}
	if e.Kind == fileRefused {
		s.files++
	}
	s.timeline.event(e)
}
