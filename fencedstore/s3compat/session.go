package s3compat

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// maxSessions bounds what a Store remembers. Forgetting costs one request.
const maxSessions = 1024

// session is what a Store remembers of one resource.
type session struct {
	turn  chan struct{} // held by the one commit or claim that is in flight
	state state         // as last seen by the owner of turn; zero: not known
	seen  atomic.Int64  // greatest version seen
}

func (s *Store) session(resource string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess, ok := s.sessions[resource]; ok {
		return sess
	}
	for name := range s.sessions {
		if len(s.sessions) < maxSessions {
			break
		}
		delete(s.sessions, name)
	}
	sess := &session{turn: make(chan struct{}, 1)}
	s.sessions[resource] = sess
	return sess
}

// begin waits for the session's turn; end gives it back.
func (sess *session) begin(ctx context.Context) error {
	select {
	case sess.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return withCause(ctx, ctx.Err())
	}
}

func (sess *session) end() { <-sess.turn }

// saw raises the greatest version seen.
func (sess *session) saw(seq int64) {
	for {
		old := sess.seen.Load()
		if seq <= old || sess.seen.CompareAndSwap(old, seq) {
			return
		}
	}
}

// known is the register if f was its newest claim when last seen.
func (sess *session) known(f fencedstore.Fence) (state, bool) {
	env := sess.state.env
	if env == nil || env.Fence != f.ID || env.Holder != hashed(f) {
		return state{}, false
	}
	return sess.state, true
}

// Pauses before a repetition are random, up to a bound that doubles.
const (
	firstPause = 4 * time.Millisecond
	longPause  = 500 * time.Millisecond
)

// pause waits before attempt i; the first comes at once.
func (s *Store) pause(ctx context.Context, i int) error {
	if i == 0 {
		if ctx.Err() != nil {
			return withCause(ctx, ctx.Err())
		}
		return nil
	}
	bound := min(firstPause<<min(i, 10), longPause)
	timer := time.NewTimer(bound/2 + rand.N(bound/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return withCause(ctx, ctx.Err())
	}
}
