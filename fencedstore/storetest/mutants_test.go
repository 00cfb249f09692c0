package storetest_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// mutant is a store with one mistake, and the cases that must fail on it.
type mutant struct {
	name   string
	fails  []string
	wrong  func(s *toy)            // spoils a handle
	reopen func(old *state) *state // nil: the same state
	lose   func(op string, f fencedstore.Fence, answer error) error
}

type fence = fencedstore.Fence

// claimed makes a mutant whose Claim is wrong.
func claimed(name string, fn func(st *state, f fence) error, fails ...string) mutant {
	return mutant{name: name, fails: fails, wrong: func(s *toy) {
		s.claim = s.claims(func(f fence) error { return fn(s.state, f) })
	}}
}

// written makes a mutant whose Write is wrong.
func written(name string, fn func(st *state, f fence, key string, value []byte) error, fails ...string) mutant {
	return mutant{name: name, fails: fails, wrong: func(s *toy) {
		s.write = s.writes(func(f fence, key string, value []byte) error { return fn(s.state, f, key, value) })
	}}
}

// confused makes a mutant that takes one fence for another.
func confused(name string, change func(f fence) fence, fails ...string) mutant {
	return mutant{name: name, fails: fails, wrong: func(s *toy) {
		claim, write := s.claim, s.write
		s.claim = func(ctx context.Context, f fence) error { return claim(ctx, change(f)) }
		s.write = func(ctx context.Context, f fence, key string, value []byte) error {
			return write(ctx, change(f), key, value)
		}
	}}
}

// answers makes a mutant that does right and says something else.
func answers(name string, change func(err error) error, fails ...string) mutant {
	return mutant{name: name, fails: fails, wrong: func(s *toy) {
		claim, write := s.claim, s.write
		s.claim = func(ctx context.Context, f fence) error { return change(claim(ctx, f)) }
		s.write = func(ctx context.Context, f fence, key string, value []byte) error {
			return change(write(ctx, f, key, value))
		}
	}}
}

// pause is a window between a check and what depends on it.
func pause() { <-time.After(rand.N(500 * time.Microsecond)) }

func mutants() []mutant {
	return slices.Concat(claimMutants(), markMutants(), nameMutants(), writeMutants(), valueMutants(), readMutants(),
		answerMutants(), inputMutants(), handleMutants(), raceMutants())
}
