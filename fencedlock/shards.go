package fencedlock

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// sharder is a backend of several servers that can keep a channel on the one that
// has a key. A message then goes to that server alone, which knows whether anybody
// listens; others go to all servers, of which none knows.
type sharder interface {
	// shardOf names the server that has the key; ok says that it can keep channels.
	shardOf(ctx context.Context, key string) (server string, ok bool)
	// tune connects to the server that has the key.
	tune(ctx context.Context, key string) (tuner, error)
}

// tuner listens to any number of channels of one server over one connection.
type tuner interface {
	// join begins to listen to a channel and leave ends it: receive tells when.
	join(ctx context.Context, name string) error
	leave(ctx context.Context, name string) error
	// receive waits for what comes next. An error ends the tuner.
	receive() (heard, error)
	// close ends a receive, and the tuner.
	close()
}

// heard is what a tuner receives: one of these, or nothing now and then.
type heard struct {
	text    string // a message
	joined  string // the channel is listened to
	left    string // it is not any more, because nobody asked for it or it has moved
	refused bool   // a channel that was to be joined is elsewhere
}

// shards hears of the grants to the waiters of one Locker where channels are kept
// by key: there is one for each resource that is waited for, and a connection and a
// goroutine for each server.
type shards struct {
	l  *Locker
	b  sharder // nil where channels are not kept by key
	id string

	mu      sync.Mutex
	waiting map[string]*waiter // by holder
	rooms   map[string]*room   // by the key of the lock
	by      map[string]*shard  // by server
	ended   bool
}

// room is the channel for one resource.
type room struct {
	name, key string
	at        *shard // nil when it is not listened to, nor about to be
	open      bool
	known     chan struct{} // closed when it is known whether it opens
	waiters   int
	left      time.Duration // when the last of them went
	missed    bool          // messages may have been lost
}

// shard is one connection; it is given up for good when it breaks.
type shard struct {
	server string
	tuner  tuner // nil until it is connected
	swept  time.Duration
}

func (s *shards) init(l *Locker) {
	s.l, s.id = l, fencedstore.NewHolder()[:16]
	s.b, _ = l.backend.(sharder)
	s.waiting, s.rooms, s.by = map[string]*waiter{}, map[string]*room{}, map[string]*shard{}
}

// hears reports that the channel for a resource is open.
func (s *shards) hears(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rooms[key]
	return r != nil && r.open
}

// enter is that of an ear. It reports false where channels are not kept by key.
func (s *shards) enter(ctx context.Context, w *waiter) bool {
	if s.b == nil {
		return false
	}
	server, ok := s.b.shardOf(ctx, w.k.ask.keys.lock)
	if !ok {
		return false
	}
	known := s.add(ctx, w, server)
	if known == nil {
		return false
	}
	s.l.ear.wait(ctx, known)
	w.k.ask.waits, w.k.ask.waker = true, ""
	if s.hears(w.k.ask.keys.lock) {
		w.k.ask.waker = "#" + s.id
	} else if _, ok := s.b.shardOf(ctx, w.k.ask.keys.lock); !ok {
		s.leave(w) // the server has just turned out not to
		return false
	}
	return true
}

// follow has w listen again if its channel was lost. It does not wait: when the
// channel is open w is told to ask.
func (s *shards) follow(ctx context.Context, w *waiter) {
	s.mu.Lock()
	lost := w.room != nil && w.room.at == nil
	s.mu.Unlock()
	if !lost {
		return
	}
	if server, ok := s.b.shardOf(ctx, w.room.key); ok {
		s.connect(ctx, w.room, server)
	}
}

// add makes w one of those who are told, and returns what is closed when it is
// known whether they are; nil when the Locker was closed.
func (s *shards) add(ctx context.Context, w *waiter, server string) <-chan struct{} {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return nil
	}
	key := w.k.ask.keys.lock
	r := s.rooms[key]
	if r == nil {
		r = &room{key: key, name: strings.TrimSuffix(key, "lock") + "wake:" + s.id}
		s.rooms[key] = r
	}
	r.waiters++
	w.room = r
	s.waiting[w.k.ask.holder] = w
	s.mu.Unlock()
	return s.connect(ctx, r, server)
}

// connect has a room be listened to at a server, unless it is.
func (s *shards) connect(ctx context.Context, r *room, server string) <-chan struct{} {
	s.mu.Lock()
	if r.at != nil || s.ended {
		defer s.mu.Unlock()
		return r.known
	}
	known := make(chan struct{})
	r.known = known
	sh := s.by[server]
	start := sh == nil
	if start {
		sh = &shard{server: server, swept: s.l.now().mono}
		s.by[server] = sh
	}
	r.at = sh
	t := sh.tuner
	s.mu.Unlock()
	switch {
	case start:
		s.l.scheduler.spawn(func() { s.run(sh, r.key) }) //nolint:contextcheck // it goes on when ctx has ended
	case t != nil && t.join(ctx, r.name) != nil:
		t.close()
	}
	return known
}

// leave is that of an ear. The channel stays for a while.
func (s *shards) leave(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := w.room
	if r == nil {
		return
	}
	w.room = nil
	delete(s.waiting, w.k.ask.holder)
	r.waiters--
	r.left = s.l.now().mono
	s.tidy(r)
}

// tidy forgets a room that nobody needs. The mutex is held.
func (s *shards) tidy(r *room) {
	if r.waiters == 0 && r.at == nil && s.rooms[r.key] == r {
		delete(s.rooms, r.key)
	}
}

// shut ends all connections.
func (s *shards) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, sh := range s.by {
		if sh.tuner != nil {
			sh.tuner.close()
		}
	}
}
