package s3compat

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenced-go/fenced/fencedstore"
)

// errLost says that a conditional write certainly had no effect, because
// another one came first.
var errLost = errors.New("s3compat: another write came first")

// attempt is one version of a register on its way to the store.
type attempt struct {
	op   string
	key  string
	f    fencedstore.Fence
	base state
	next *envelope
	body []byte

	// open says that an earlier sending of it may have taken effect or may
	// still do so.
	open bool
	err  error // the last one
}

// swap replaces base by next and does not return before it knows whether that
// happened, except with an [fencedstore.ErrUnknownOutcome]. It returns the
// register as it is afterwards; with errLost that is what came first. After any
// other error nothing has happened.
//
// A request whose reply was lost may be executed later. It can be so only while
// the ETag is the one that it was conditioned on, and no ETag comes back, since
// every version has a random ID in its bytes. So the same request is sent again
// until some write, this or another, has moved the ETag: then all copies of it
// are dead, and the IDs in the bytes tell whether one of them was applied.
func (s *Store) swap(ctx context.Context, op string, f fencedstore.Fence, base state, next *envelope) (state, error) {
	body, staged, err := s.spill(ctx, f, next)
	st := base
	if err == nil {
		a := &attempt{op: op, key: s.registerKey(f.Resource), f: f, base: base, next: next, body: body}
		st, err = s.settle(ctx, a)
	}
	if err != nil && !errors.Is(err, fencedstore.ErrUnknownOutcome) {
		s.discard(ctx, f.Resource, staged)
	}
	return st, err
}

// settle sends an attempt until its outcome is known or its time is over.
func (s *Store) settle(ctx context.Context, a *attempt) (state, error) {
	// It ends between two attempts, so that it makes no outcome unknown.
	within, cancel := context.WithTimeout(ctx, s.opts.SettleTimeout)
	defer cancel()
	for i := 0; ; i++ {
		if err := s.pause(within, i); err != nil {
			return state{}, a.gaveUp(ctx, err)
		}
		st, final, err := s.try(ctx, a)
		if final {
			return st, err
		}
	}
}

// try sends the attempt once. It says whether the outcome is final.
func (s *Store) try(ctx context.Context, a *attempt) (afterwards state, final bool, err error) {
	etag, got := s.send(ctx, a)
	switch got {
	case done:
		return state{env: a.next, etag: etag}, true, nil
	case lost:
		return s.lookUp(ctx, a)
	case refused:
		return state{}, true, a.refused(unsupported(a.err))
	case ambiguous:
		a.open = true
	case again:
	}
	return state{}, false, nil
}

func (s *Store) send(ctx context.Context, a *attempt) (etag string, got answer) {
	etag, err := s.put(ctx, a.key, a.base, a.next, a.body)
	a.note(err)
	return etag, classify(err)
}

func (a *attempt) note(err error) {
	if err != nil {
		a.err = err
	}
}

// lookUp finds out what came of an attempt whose condition did not hold: it may
// have been its own effect that changed the register.
func (s *Store) lookUp(ctx context.Context, a *attempt) (st state, final bool, err error) {
	wasOpen := a.open
	a.open = true // a proxy below us may have sent the request twice
	st, err = s.read(ctx, a.f.Resource)
	a.note(err)
	switch {
	case errors.Is(err, ErrRegisterGone), err == nil && st.env == nil && a.base.env != nil:
		a.open = wasOpen
		return state{}, true, a.refused(gone(err))
	case errors.Is(err, ErrVersion), errors.Is(err, ErrCorrupt):
		return state{}, true, a.refused(err)
	case err != nil, st.env == nil, st.etag == a.base.etag:
		return state{}, false, nil //nolint:nilerr // the attempt keeps it; the next one finds out
	}
	write, ok := st.env.writeAt(a.base.seq() + 1)
	switch {
	case !ok && !wasOpen:
		// The base was old before the only sending of it: docs/design.md, a 412
		// older than the history.
		return st, true, errLost
	case !ok:
		return state{}, true, a.refused(errors.New("s3compat: more writes came since than the register remembers"))
	case write == a.next.Write:
		return st, true, nil
	}
	return st, true, errLost
}

func gone(err error) error {
	if err == nil {
		return fmt.Errorf("%w: it does not exist any more", ErrRegisterGone)
	}
	return err
}

// refused is the error of an attempt that will not be sent again.
func (a *attempt) refused(err error) error {
	if !a.open {
		return err
	}
	return &fencedstore.UnknownOutcomeError{Op: a.op, Fence: a.f, Err: err}
}

// gaveUp is the error of an attempt whose time is over.
func (a *attempt) gaveUp(ctx context.Context, err error) error {
	if a.err != nil {
		err = fmt.Errorf("%w, after %w", err, a.err)
	}
	return a.refused(withCause(ctx, err))
}
