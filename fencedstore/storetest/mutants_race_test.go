package storetest_test

import (
	"context"
	"errors"
	"sync"
)

func raceMutants() []mutant {
	return []mutant{
		{name: "looks for the first claim, then sets", fails: []string{"first-claims-race", "equal-claims-race", "many-claims-race"}, wrong: func(s *toy) {
			claim := s.claim
			s.claim = func(ctx context.Context, f fence) error {
				s.mu.Lock()
				_, known := s.marks[f.Resource]
				s.mu.Unlock()
				if known || ready(ctx, f) != nil {
					return claim(ctx, f)
				}
				pause()
				s.mu.Lock()
				defer s.mu.Unlock()
				s.marks[f.Resource] = f
				return nil
			}
		}},
		{name: "checks, then writes", fails: []string{"check-and-write-are-one-step", "claim-drains-older-writes"}, wrong: func(s *toy) {
			s.write = checkThenWrite(s, new(sync.Mutex))
		}},
		{name: "a claim is in force a little after its answer", fails: []string{"claim-drains-older-writes"}, wrong: func(s *toy) {
			s.claim = s.claims(func(f fence) error {
				newest := s.marks[f.Resource]
				if err := older(f, newest); err != nil || newest.ID == 0 {
					return errors.Join(err, s.raise(f))
				}
				go func() {
					pause()
					_ = s.claims(s.raise)(context.Background(), f)
				}()
				return nil
			})
		}},
		{name: "one write at a time, the next is told to come back", fails: []string{"writes-side-by-side"}, wrong: func(s *toy) {
			write, busy := s.write, new(sync.Mutex)
			s.write = func(ctx context.Context, f fence, key string, value []byte) error {
				if !busy.TryLock() {
					return errors.New("could not serialize access")
				}
				defer busy.Unlock()
				pause()
				return write(ctx, f, key, value)
			}
		}},
	}
}

// checkThenWrite has a lock around both, but one of this handle only: other
// handles' claims pass between check and write.
func checkThenWrite(s *toy, handle *sync.Mutex) writeFunc {
	return func(ctx context.Context, f fence, key string, value []byte) error {
		if err := ready(ctx, f); err != nil {
			return err
		}
		handle.Lock()
		defer handle.Unlock()
		s.mu.Lock()
		err := s.guard(f)
		s.mu.Unlock()
		if err != nil {
			return err
		}
		pause()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.set(key, value)
		return nil
	}
}
