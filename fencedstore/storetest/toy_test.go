package storetest_test

import (
	"bytes"
	"context"
	"sync"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/storetest"
)

// state is what the handles of a toy store share. Its methods want mu held.
type state struct {
	mu     sync.Mutex
	marks  map[string]fencedstore.Fence
	values map[string][]byte
}

func newState() *state {
	return &state{marks: map[string]fencedstore.Fence{}, values: map[string][]byte{}}
}

func (st *state) raise(f fencedstore.Fence) error {
	newest := st.marks[f.Resource]
	if err := older(f, newest); err != nil {
		return err
	}
	st.marks[f.Resource] = f
	return nil
}

func (st *state) guard(f fencedstore.Fence) error {
	newest := st.marks[f.Resource]
	if f.ID > newest.ID {
		return &fencedstore.NotClaimedError{Fence: f, Newest: newest.ID}
	}
	return older(f, newest)
}

func older(f, newest fencedstore.Fence) error {
	switch {
	case f.ID < newest.ID:
		return &fencedstore.StaleError{Fence: f, Newest: newest.ID}
	case f.ID == newest.ID && f.Holder != newest.Holder:
		return &fencedstore.FenceReusedError{Fence: f}
	}
	return nil
}

func (st *state) set(key string, value []byte) {
	if value == nil {
		delete(st.values, key)
	} else {
		st.values[key] = bytes.Clone(value)
	}
}

func (st *state) get(key string) ([]byte, error) {
	value, ok := st.values[key]
	if !ok {
		return nil, fencedstore.ErrNotFound
	}
	return bytes.Clone(value), nil
}

type (
	claimFunc = func(ctx context.Context, f fencedstore.Fence) error
	writeFunc = func(ctx context.Context, f fencedstore.Fence, key string, value []byte) error
	readFunc  = func(ctx context.Context, key string) ([]byte, error)
)

// toy is a store in three parts. A mutant replaces one.
type toy struct {
	*state
	claim claimFunc
	write writeFunc
	read  readFunc
}

func (s *toy) Claim(ctx context.Context, f fencedstore.Fence) error { return s.claim(ctx, f) }

func (s *toy) Write(ctx context.Context, f fencedstore.Fence, key string, value []byte) error {
	return s.write(ctx, f, key, value)
}

func (s *toy) Read(ctx context.Context, key string) ([]byte, error) { return s.read(ctx, key) }

// correct returns a handle that keeps the contract.
func correct(st *state) *toy {
	return &toy{
		state: st,
		claim: st.claims(st.raise),
		write: st.writes(func(f fencedstore.Fence, key string, value []byte) error {
			if err := st.guard(f); err != nil {
				return err
			}
			st.set(key, value)
			return nil
		}),
		read: func(ctx context.Context, key string) ([]byte, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			st.mu.Lock()
			defer st.mu.Unlock()
			return st.get(key)
		},
	}
}

// claims returns fn with what comes before: context, validation and lock.
func (st *state) claims(fn func(f fencedstore.Fence) error) claimFunc {
	return func(ctx context.Context, f fencedstore.Fence) error {
		if err := ready(ctx, f); err != nil {
			return err
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		return fn(f)
	}
}

func (st *state) writes(fn func(f fencedstore.Fence, key string, value []byte) error) writeFunc {
	return func(ctx context.Context, f fencedstore.Fence, key string, value []byte) error {
		if err := ready(ctx, f); err != nil {
			return err
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		return fn(f, key, value)
	}
}

func ready(ctx context.Context, f fencedstore.Fence) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.Validate()
}

// lossy answers the first Write or Claim with what lose makes of its answer.
type lossy struct {
	fencedstore.Store
	once sync.Once
	lose func(op string, f fencedstore.Fence, answer error) error
}

func (s *lossy) Claim(ctx context.Context, f fencedstore.Fence) error {
	err := s.Store.Claim(ctx, f)
	s.once.Do(func() { err = s.lose("claim", f, err) })
	return err
}

func (s *lossy) Write(ctx context.Context, f fencedstore.Fence, key string, value []byte) error {
	err := s.Store.Write(ctx, f, key, value)
	s.once.Do(func() { err = s.lose("write", f, err) })
	return err
}

func unknown(op string, f fencedstore.Fence, _ error) error {
	return &fencedstore.UnknownOutcomeError{Op: op, Fence: f}
}

// env makes the stores of one mutant.
type env struct{ m mutant }

var _ storetest.Env = env{}

func (e env) open(st *state) fencedstore.Store {
	s := correct(st)
	if e.m.wrong != nil {
		e.m.wrong(s)
	}
	return s
}

func stateOf(s fencedstore.Store) *state {
	handle, ok := s.(*toy)
	if !ok {
		panic("not a store of this Env")
	}
	return handle.state
}

func (e env) New() fencedstore.Store { return e.open(newState()) }

func (e env) Reopen(s fencedstore.Store) (fencedstore.Store, bool) {
	st := stateOf(s)
	if e.m.reopen != nil {
		st = e.m.reopen(st)
	}
	return e.open(st), true
}

func (e env) LoseReply(s fencedstore.Store) (fencedstore.Store, bool) {
	lose := e.m.lose
	if lose == nil {
		lose = unknown
	}
	return &lossy{Store: e.open(stateOf(s)), lose: lose}, true
}
