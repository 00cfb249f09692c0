package s3compat

import (
	"context"
	"errors"

	"github.com/fenced-go/fenced/fencedstore"
)

// maxLosses bounds how often a claim or a commit may lose to others.
const maxLosses = 1000

// Claim implements [fencedstore.Claimer]. It reads the register and writes it
// again under f. Every commit of an older holder is conditioned on a version
// from before, so that none succeeds once Claim has returned. Against an older
// holder that commits all the time it tries on until it comes first, within the
// bounds of ctx; then the older one is done.
//
// When there is no register it is made. A register that this Store has seen and
// that is gone is an [ErrRegisterGone] instead.
func (s *Store) Claim(ctx context.Context, f fencedstore.Fence) error {
	const op = "claim"
	if err := begun(ctx, f); err != nil {
		return s.failed(op, f, err)
	}
	sess := s.session(f.Resource)
	if err := sess.begin(ctx); err != nil {
		return s.failed(op, f, err)
	}
	defer sess.end()
	sess.state = state{}
	st, err := s.read(ctx, f.Resource)
	for range maxLosses {
		if err != nil {
			return s.failed(op, f, withCause(ctx, err))
		}
		if err = claimable(f, st.env); err != nil {
			return s.failed(op, f, err)
		}
		st, err = s.swap(ctx, op, f, st, st.env.next(f, s.now()))
		if err == nil {
			sess.keep(st)
			return s.failed(op, f, claimable(f, st.env))
		}
		if errors.Is(err, errLost) {
			err = nil
		}
	}
	return s.failed(op, f, ErrContended)
}

// keep remembers the register for the next commit.
func (sess *session) keep(st state) {
	sess.state = st
	sess.saw(st.seq())
}

// claimable refuses a claim of f over env.
func claimable(f fencedstore.Fence, env *envelope) error {
	switch {
	case env == nil || env.Fence < f.ID:
		return nil
	case env.Fence > f.ID:
		return &fencedstore.StaleError{Fence: f, Newest: env.Fence}
	case env.Holder != hashed(f):
		return &fencedstore.FenceReusedError{Fence: f}
	}
	return nil
}

// guard refuses a commit of f over env.
func guard(f fencedstore.Fence, env *envelope) error {
	switch {
	case env == nil:
		return &fencedstore.NotClaimedError{Fence: f}
	case env.Fence < f.ID:
		return &fencedstore.NotClaimedError{Fence: f, Newest: env.Fence}
	}
	return claimable(f, env)
}

// begun is what every fenced call checks before it sends anything.
func begun(ctx context.Context, f fencedstore.Fence) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return withCause(ctx, ctx.Err())
	}
	return nil
}

// failed is fail about the register of f.
func (s *Store) failed(op string, f fencedstore.Fence, err error) error {
	return s.fail(op, s.registerKey(f.Resource), f, err)
}
