package fencedlock

import (
	"context"
	"strings"
)

// run is the goroutine of one shard: it connects and receives until the connection
// breaks, or nobody has waited for a while.
func (s *shards) run(sh *shard, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if t, err := s.b.tune(ctx, key); err == nil {
		err = s.begin(ctx, sh, t)
		for err == nil && s.sweep(sh, t) {
			var h heard
			if h, err = t.receive(); err == nil {
				s.take(sh, h)
			}
		}
		t.close()
	}
	s.end(sh)
}

// begin joins the rooms that have been waiting for the connection.
func (s *shards) begin(ctx context.Context, sh *shard, t tuner) error {
	var names []string
	s.mu.Lock()
	sh.tuner = t
	for _, r := range s.rooms {
		if r.at == sh {
			names = append(names, r.name)
		}
	}
	s.mu.Unlock()
	for _, name := range names {
		if err := t.join(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// sweep leaves the rooms that nobody has waited in for a while, now and then, and
// reports whether the shard is still needed.
func (s *shards) sweep(sh *shard, t tuner) bool {
	s.mu.Lock()
	now := s.l.now().mono
	if s.ended || now-sh.swept < quiet {
		defer s.mu.Unlock()
		return !s.ended
	}
	sh.swept = now
	var idle []string
	left := 0
	for _, r := range s.rooms {
		switch {
		case r.at != sh:
		case r.waiters == 0 && now-r.left >= earIdle:
			idle = append(idle, r.name)
			r.at = nil
			s.tidy(r)
		default:
			left++
		}
	}
	if left == 0 {
		delete(s.by, sh.server) // under the same mutex, so that nobody comes in between
	}
	s.mu.Unlock()
	for _, name := range idle {
		if left > 0 && t.leave(context.Background(), name) != nil {
			return false
		}
	}
	return left > 0
}

// take is told what was received.
func (s *shards) take(sh *shard, h heard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.text != "" {
		s.deliver(h.text)
		return
	}
	for _, r := range s.rooms {
		switch {
		case r.at != sh:
		case r.name == h.joined:
			s.opened(r)
		case r.name == h.left && r.open, h.refused && !r.open:
			s.lost(r)
		}
	}
}

func (s *shards) deliver(text string) {
	holder, rest, _ := strings.Cut(text, " ")
	var g answer
	if w := s.waiting[holder]; w != nil && g.decodeGrant(rest) {
		w.wake(g)
	}
}

// opened has those who wait ask if they may have missed something.
func (s *shards) opened(r *room) {
	r.open = true
	r.tell()
	if r.missed {
		r.missed = false
		s.wakeAll(r)
	}
}

// lost has those who wait look for the room elsewhere.
func (s *shards) lost(r *room) {
	r.at, r.open, r.missed = nil, false, true
	r.tell()
	s.wakeAll(r)
	s.tidy(r)
}

// tell says that it is known whether the room opens.
func (r *room) tell() {
	select {
	case <-r.known:
	default:
		close(r.known)
	}
}

func (s *shards) wakeAll(r *room) {
	for _, w := range s.waiting {
		if w.room == r {
			w.wake(answer{})
		}
	}
}

// end gives up a shard with all its rooms.
func (s *shards) end(sh *shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[sh.server] == sh {
		delete(s.by, sh.server)
	}
	for _, r := range s.rooms {
		if r.at == sh {
			s.lost(r)
		}
	}
}
