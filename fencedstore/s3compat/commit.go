package s3compat

import (
	"context"
	"errors"

	"github.com/fenced-go/fenced/fencedstore"
)

// change is one step of a commit, applied to the version that is about to be
// written. It may be applied several times, each time to another version.
type change func(next *envelope) error

// current is the register under f: as remembered, or read now. The caller has
// the session's turn.
func (s *Store) current(ctx context.Context, sess *session, f fencedstore.Fence) (state, error) {
	st, ok := sess.known(f)
	if !ok {
		var err error
		if st, err = s.read(ctx, f.Resource); err != nil {
			return state{}, err
		}
	}
	return s.ready(ctx, f, st)
}

// ready is a register that f may change, with its entries.
func (s *Store) ready(ctx context.Context, f fencedstore.Fence, st state) (state, error) {
	if err := guard(f, st.env); err != nil {
		return state{}, err
	}
	st, err := s.load(ctx, f.Resource, st)
	if err != nil {
		return state{}, err
	}
	return st, guard(f, st.env) // it may have been read again
}

// peek is current for a caller without the turn: it is only a look, before work
// that a commit will check.
func (s *Store) peek(ctx context.Context, f fencedstore.Fence) (state, error) {
	sess := s.session(f.Resource)
	if err := sess.begin(ctx); err != nil {
		return state{}, err
	}
	defer sess.end()
	st, err := s.current(ctx, sess, f)
	if err == nil {
		sess.state = st
	}
	return st, err
}

// commit applies changes in one version of the register. When another writer of
// the same tenure came first, it applies them to that one's version.
func (s *Store) commit(ctx context.Context, op string, f fencedstore.Fence, changes []change) error {
	sess := s.session(f.Resource)
	if err := sess.begin(ctx); err != nil {
		return err
	}
	defer sess.end()
	st, err := s.current(ctx, sess, f)
	for range maxLosses {
		if err != nil {
			return withCause(ctx, err)
		}
		st, err = s.step(ctx, op, f, sess, st, changes)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errLost):
			st, err = s.ready(ctx, f, st)
		}
	}
	return ErrContended
}

// step tries to commit changes over base. The session remembers the register
// unless it is not known what has become of it.
func (s *Store) step(ctx context.Context, op string, f fencedstore.Fence, sess *session, base state, changes []change) (state, error) {
	next := base.env.next(f, s.now())
	for _, c := range changes {
		if err := c(next); err != nil {
			sess.state = base
			return base, err
		}
	}
	st, err := s.swap(ctx, op, f, base, next)
	switch {
	case err == nil, errors.Is(err, errLost):
		sess.keep(st)
	case errors.Is(err, fencedstore.ErrUnknownOutcome):
		sess.state = state{}
	default:
		sess.state = base
	}
	return st, err
}
