package locktest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
)

// Server is a Redis in this process, on a free port of 127.0.0.1. Its TTLs run
// down by themselves, as those of a real one do. Three of them serve a quorum.
type Server struct{ mini *miniredis.Miniredis }

// Start starts a Server that ends with the test. It is for tests; a program
// uses [NewServer].
func Start(tb testing.TB) *Server {
	tb.Helper()
	s, err := NewServer()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// NewServer starts a Server. The caller must call Close.
func NewServer() (*Server, error) {
	mini, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("locktest: start a server: %w", err)
	}
	mini.ClockTTL(true)
	mini.Server().SetPreHook(identify())
	return &Server{mini}, nil
}

// identify answers INFO server, which a quorum asks: a server of its own that has
// been up for long enough to vote.
func identify() server.Hook {
	text := "# Server\r\nrun_id:" + fencedstore.NewHolder() + "\r\nuptime_in_seconds:86400\r\n"
	return func(c *server.Peer, cmd string, args ...string) bool {
		if !strings.EqualFold(cmd, "INFO") || len(args) != 1 || !strings.EqualFold(args[0], "server") {
			return false
		}
		c.WriteBulk(text)
		return true
	}
}

// Close stops the server and cuts all connections.
func (s *Server) Close() { s.mini.Close() }

// Addr returns the server's host and port.
func (s *Server) Addr() string { return s.mini.Addr() }

// Client returns a new client with hooks, such as [Faults]. It is closed when
// the test ends.
func (s *Server) Client(tb testing.TB, hooks ...redis.Hook) *redis.Client {
	tb.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	for _, h := range hooks {
		rdb.AddHook(h)
	}
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Locker returns a new Locker over a client of its own with hooks, such as
// [Faults]. Both are closed when the test ends. Options that fencedlock.New
// refuses fail the test; opts may be nil.
func (s *Server) Locker(tb testing.TB, opts *fencedlock.Options, hooks ...redis.Hook) *fencedlock.Locker {
	tb.Helper()
	l, err := fencedlock.New(s.Client(tb, hooks...), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// Held reports whether somebody holds resource, under whatever prefix.
func (s *Server) Held(resource string) bool { return len(s.locks(resource)) > 0 }

// Expire ends the lease on resource as if its TTL had run out, under whatever
// prefix. The holder learns of it at its next renewal. Expire reports whether
// there was a lock.
func (s *Server) Expire(resource string) bool {
	expired := false
	for _, key := range s.locks(resource) {
		expired = s.mini.Del(key) || expired
	}
	return expired
}

var tagEscaper = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// locks returns the lock keys of resource. A prefix has no braces, so that
// nothing else ends like them.
func (s *Server) locks(resource string) []string {
	var locks []string
	for _, key := range s.mini.Keys() {
		if strings.HasSuffix(key, "{"+tagEscaper.Replace(resource)+"}:lock") {
			locks = append(locks, key)
		}
	}
	return locks
}

// stealTries bounds Steal when others take the lock first.
const stealTries = 100

// Steal lets another holder take resource, as happens when a lease runs out
// while its holder is paused, and returns the other's fence. It is higher, and
// no store has claimed it; a test that needs that does it. The other holder
// keeps the lock until the test ends or the lock is taken from it in turn.
// Prefix is that of the lock which is there, otherwise the default.
func (s *Server) Steal(tb testing.TB, resource string) fencedstore.Fence {
	tb.Helper()
	opts := &fencedlock.Options{Label: "locktest"}
	if locks := s.locks(resource); len(locks) > 0 {
		opts.Prefix, _, _ = strings.Cut(locks[0], "{")
	}
	other := s.Locker(tb, opts)
	for range stealTries {
		s.Expire(resource)
		k, err := other.TryAcquire(tb.Context(), resource, nil)
		if err == nil {
			return k.Fence()
		}
		if !errors.Is(err, fencedlock.ErrHeld) {
			tb.Fatalf("locktest: steal %q: %v", resource, err)
		}
	}
	tb.Fatalf("locktest: steal %q: others were faster %d times", resource, stealTries)
	return fencedstore.Fence{}
}

// Wipe loses all data, as Redis without persistence does when it restarts.
func (s *Server) Wipe() { s.mini.FlushAll() }
