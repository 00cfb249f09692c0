package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/fenced-go/fenced/fencedstore"
)

func answerMutants() []mutant {
	return []mutant{
		answers("leaves Newest out", func(err error) error {
			if stale, ok := errors.AsType[*fencedstore.StaleError](err); ok {
				return &fencedstore.StaleError{Fence: stale.Fence}
			}
			return err
		}, "errors-carry-facts"),
		answers("leaves the fence out", func(err error) error {
			if reused, ok := errors.AsType[*fencedstore.FenceReusedError](err); ok {
				reused.Fence = fence{}
			}
			return err
		}, "errors-carry-facts"),
		answers("returns sentinels only", func(err error) error {
			for _, sentinel := range []error{fencedstore.ErrStale, fencedstore.ErrFenceReused, fencedstore.ErrNotClaimed, fencedstore.ErrInvalidFence} {
				if errors.Is(err, sentinel) {
					return sentinel
				}
			}
			return err
		}, "errors-carry-facts"),
		answers("calls every refusal stale", func(err error) error {
			if errors.Is(err, fencedstore.ErrNotClaimed) {
				return fencedstore.ErrStale
			}
			return err
		}, "write-unclaimed-is-refused"),
		answers("says stale and not claimed at once", func(err error) error {
			if errors.Is(err, fencedstore.ErrStale) {
				return errors.Join(err, fencedstore.ErrNotClaimed)
			}
			return err
		}, "claim-lower-is-stale", "write-lower-is-stale"),
		answers("shows the holder", func(err error) error {
			if stale, ok := errors.AsType[*fencedstore.StaleError](err); ok {
				return fmt.Errorf("holder %s: %w", stale.Fence.Holder, err)
			}
			return err
		}, "errors-keep-the-secret"),
	}
}

func inputMutants() []mutant {
	return []mutant{
		answers("reports a done context as unknown", func(err error) error {
			if errors.Is(err, context.Canceled) {
				return &fencedstore.UnknownOutcomeError{Op: "call", Err: err}
			}
			return err
		}, "done-context-has-no-effect"),
		{name: "ignores a done context", fails: []string{"done-context-has-no-effect"}, wrong: func(s *toy) {
			claim, write := s.claim, s.write
			s.claim = func(ctx context.Context, f fence) error { return claim(context.WithoutCancel(ctx), f) }
			s.write = func(ctx context.Context, f fence, key string, value []byte) error {
				return write(context.WithoutCancel(ctx), f, key, value)
			}
		}},
		{name: "reports a done context after the effect", fails: []string{"done-context-has-no-effect"}, wrong: func(s *toy) {
			claim := s.claim
			s.claim = func(ctx context.Context, f fence) error {
				return errors.Join(claim(context.WithoutCancel(ctx), f), ctx.Err())
			}
		}},
		{name: "accepts invalid claims", fails: []string{"invalid-fence-is-refused"}, wrong: func(s *toy) {
			s.claim = func(_ context.Context, f fence) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.raise(f)
			}
		}},
		{name: "takes an invalid write for a stale one", fails: []string{"invalid-fence-is-refused"}, wrong: func(s *toy) {
			write := s.write
			s.write = func(ctx context.Context, f fence, key string, value []byte) error {
				if f.ID <= 0 {
					return &fencedstore.StaleError{Fence: f}
				}
				return write(ctx, f, key, value)
			}
		}},
	}
}

func handleMutants() []mutant {
	both := []string{"unknown-write-converges", "unknown-claim-converges"}
	return []mutant{
		{name: "forgets marks on reopen", fails: []string{"reopen-keeps-marks"}, reopen: func(old *state) *state {
			st := newState()
			st.values = old.values
			return st
		}},
		{name: "forgets holders on reopen", fails: []string{"reopen-keeps-marks"}, reopen: func(old *state) *state {
			for r, newest := range old.marks {
				newest.Holder = ""
				old.marks[r] = newest
			}
			return old
		}},
		{name: "reads the marks once, at open", fails: []string{"reopen-keeps-marks"}, reopen: func(old *state) *state {
			st := newState()
			maps.Copy(st.marks, old.marks)
			st.values = old.values
			return st
		}},
		{name: "loses values on reopen", fails: []string{"reopen-keeps-values"}, reopen: func(old *state) *state {
			st := newState()
			st.marks = old.marks
			return st
		}},
		{name: "takes a lost answer for success", fails: both, lose: func(_ string, _ fence, answer error) error { return answer }},
		{name: "takes a lost answer for failure", fails: both, lose: func(string, fence, error) error { return errors.New("connection reset") }},
		{name: "takes a lost answer for a refusal", fails: both, lose: func(_ string, f fence, _ error) error {
			return &fencedstore.StaleError{Fence: f, Newest: f.ID}
		}},
		{name: "says unknown without saying of what", fails: both, lose: func(string, fence, error) error { return fencedstore.ErrUnknownOutcome }},
	}
}
