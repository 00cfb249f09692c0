package storetest_test

import (
	"bytes"
	"context"
	"errors"

	"github.com/fenced-go/fenced/fencedstore"
)

func writeMutants() []mutant {
	// unless makes a write whose refusal is overruled.
	unless := func(overruled error, then func(st *state, f fence)) func(st *state, f fence, key string, value []byte) error {
		return func(st *state, f fence, key string, value []byte) error {
			if err := st.guard(f); errors.Is(err, overruled) {
				then(st, f)
			} else if err != nil {
				return err
			}
			st.set(key, value)
			return nil
		}
	}
	nothing := func(*state, fence) {}
	raise := func(st *state, f fence) { st.marks[f.Resource] = f }
	return []mutant{
		written("does not check at writes", unless(fencedstore.ErrStale, nothing), "write-lower-is-stale"),
		written("accepts an equal write from another holder", unless(fencedstore.ErrFenceReused, nothing), "write-equal-of-another-holder-is-reused"),
		written("claims in the guard", unless(fencedstore.ErrNotClaimed, raise), "write-unclaimed-is-refused", "write-above-the-mark-is-refused"),
		written("lets unclaimed writes through", unless(fencedstore.ErrNotClaimed, nothing), "write-unclaimed-is-refused", "write-above-the-mark-is-refused"),
		written("refuses, and raises the mark", func(st *state, f fence, key string, value []byte) error {
			if err := st.guard(f); err != nil {
				if f.ID > st.marks[f.Resource].ID {
					raise(st, f)
				}
				return err
			}
			st.set(key, value)
			return nil
		}, "write-unclaimed-is-refused", "write-above-the-mark-is-refused", "write-refused-changes-nothing"),
		written("writes, then refuses", func(st *state, f fence, key string, value []byte) error {
			st.set(key, value)
			return st.guard(f)
		}, "write-refused-changes-nothing"),
		written("refuses, and leaves an empty value", func(st *state, f fence, key string, value []byte) error {
			if err := st.guard(f); err != nil {
				if _, ok := st.values[key]; !ok {
					st.set(key, []byte{})
				}
				return err
			}
			st.set(key, value)
			return nil
		}, "write-refused-changes-nothing"),
		onceOnly(),
		stubborn(),
	}
}

// onceOnly compares with < where <= is meant: it has seen the fence before.
func onceOnly() mutant {
	return mutant{name: "< for <=: one write for each fence", fails: []string{"write-again"}, wrong: func(s *toy) {
		seen := map[fence]bool{}
		s.write = s.writes(func(f fence, key string, value []byte) error {
			if err := s.guard(f); err != nil {
				return err
			}
			if seen[f] {
				return &fencedstore.StaleError{Fence: f, Newest: f.ID}
			}
			seen[f] = true
			s.set(key, value)
			return nil
		})
	}}
}

// stubborn refuses a fence twice and then takes it for a network problem.
func stubborn() mutant {
	return mutant{name: "lets the fourth attempt through", fails: []string{"any-sequence"}, wrong: func(s *toy) {
		refusals := map[fence]int{}
		s.write = s.writes(func(f fence, key string, value []byte) error {
			if err := s.guard(f); err != nil && refusals[f] < 3 {
				refusals[f]++
				return err
			}
			s.set(key, value)
			return nil
		})
	}}
}

func valueMutants() []mutant {
	// keeps makes a mutant that keeps something else than it was given.
	keeps := func(name string, change func(st *state, key string, value []byte), fails ...string) mutant {
		return written(name, func(st *state, f fence, key string, value []byte) error {
			if err := st.guard(f); err != nil {
				return err
			}
			change(st, key, value)
			return nil
		}, fails...)
	}
	return []mutant{
		keeps("ends values at NUL", func(st *state, key string, value []byte) {
			if i := bytes.IndexByte(value, 0); i >= 0 {
				value = value[:i]
			}
			st.set(key, value)
		}, "values-are-exact"),
		keeps("overwrites in place", func(st *state, key string, value []byte) {
			if old := st.values[key]; value != nil && len(old) > len(value) {
				value = append(bytes.Clone(value), old[len(value):]...)
			}
			st.set(key, value)
		}, "values-are-exact"),
		keeps("keeps nil as an empty value", func(st *state, key string, value []byte) {
			st.set(key, append([]byte{}, value...))
		}, "nil-deletes"),
		keeps("deletes all keys", func(st *state, key string, value []byte) {
			if value == nil {
				clear(st.values)
			}
			st.set(key, value)
		}, "nil-deletes"),
		keeps("deletes on an empty value", func(st *state, key string, value []byte) {
			if len(value) == 0 {
				value = nil
			}
			st.set(key, value)
		}, "empty-is-a-value"),
		keeps("keeps the caller's slice", func(st *state, key string, value []byte) {
			st.set(key, value)
			if value != nil {
				st.values[key] = value
			}
		}, "values-are-copied"),
	}
}

func readMutants() []mutant {
	return []mutant{
		{name: "gives its own slice away", fails: []string{"values-are-copied"}, wrong: func(s *toy) {
			read := s.read
			s.read = func(ctx context.Context, key string) ([]byte, error) {
				if _, err := read(ctx, key); err != nil {
					return nil, err
				}
				return s.values[key], nil
			}
		}},
		{name: "reads nothing as an empty value", fails: []string{"absent-is-not-found"}, wrong: func(s *toy) {
			read := s.read
			s.read = func(ctx context.Context, key string) ([]byte, error) {
				value, err := read(ctx, key)
				if errors.Is(err, fencedstore.ErrNotFound) {
					return nil, nil
				}
				return value, err
			}
		}},
	}
}
