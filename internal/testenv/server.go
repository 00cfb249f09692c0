package testenv

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// Server is a running server and the harm that can be done to it. A [Provider]
// makes it.
type Server interface {
	// Addr is where the server itself listens, host:port. It never changes.
	Addr() string
	// Start runs the server again after Kill, on the same address and data.
	Start() error
	// Pause stops every process of the server: connections stay, nothing answers.
	Pause() error
	// Resume ends a pause.
	Resume() error
	// Kill is kill -9 of every process of the server, paused or not.
	Kill() error
	// Stop ends the server for good and removes its data.
	Stop() error
	// Exited is closed once the server has ended; nil where that is not known.
	Exited() <-chan struct{}
	// Log is the end of what the server has printed.
	Log() string
}

// Provider starts servers. Its errors match [ErrUnavailable] when it cannot
// serve at all here, so that the next provider is asked.
type Provider interface {
	// Name is what FENCED_TEST_MODE calls it.
	Name() string
	// Redis starts an empty server with extra configuration arguments.
	Redis(args []string) (Server, error)
	// Postgres starts an empty server with extra arguments of the server
	// program. The user "postgres" needs no password from 127.0.0.1.
	Postgres(args []string) (Server, error)
}

// ErrUnavailable is matched by the error of a provider that cannot serve here.
var ErrUnavailable = errors.New("unavailable")

// RedisArgs are the arguments that a provider gives to redis-server: nothing is
// written to disk, connections from outside the container's network are taken,
// DEBUG is allowed; more comes after, and so wins.
func RedisArgs(more []string) []string {
	return append([]string{"--save", "", "--protected-mode", "no", "--enable-debug-command", "yes"}, more...)
}

// PostgresArgs are the arguments that a provider gives to postgres; more comes
// after, and so wins. They are fast and still lose nothing to kill -9: fsync is
// for machines that lose power, and the page cache outlives the server.
func PostgresArgs(more []string) []string {
	var args []string
	for _, setting := range []string{
		"fsync=off", "full_page_writes=off", "synchronous_commit=on", "wal_level=logical",
		"max_connections=200", "shared_buffers=64MB", "jit=off",
		"dynamic_shared_memory_type=mmap", // in the data directory, so it goes with it
	} {
		args = append(args, "-c", setting)
	}
	return append(args, more...)
}

// errNotOurs is what a server named by address says to Pause and the like.
var errNotOurs = errors.New("the server belongs to somebody else and can only be reached")

var (
	providersMu sync.Mutex
	registered  []Provider
)

// Register adds a provider, which is asked before the local binaries. Packages
// call it from init.
func Register(p Provider) {
	providersMu.Lock()
	defer providersMu.Unlock()
	registered = append(registered, p)
}

func providers() []Provider {
	providersMu.Lock()
	defer providersMu.Unlock()
	return append(append([]Provider{foreign{}}, registered...), local{})
}

// startFirst asks the providers in turn, or ends the test with their reasons.
func startFirst(tb testing.TB, service string, run func(Provider) (Server, error)) Server {
	tb.Helper()
	checkMode(tb)
	s, err := first(run)
	if errors.Is(err, ErrUnavailable) {
		Missing(tb, service, err.Error())
	}
	if err != nil {
		tb.Fatalf("testenv: %s by %v", service, err)
	}
	return s
}

// first asks the providers in turn. Its error matches ErrUnavailable when none
// of them can serve here, and gives their reasons.
func first(run func(Provider) (Server, error)) (Server, error) {
	var reasons []error
	for _, p := range providers() {
		if !allowed(p.Name()) {
			continue
		}
		s, err := run(p)
		if err == nil {
			return s, nil
		}
		err = fmt.Errorf("%s: %w", p.Name(), err)
		if !errors.Is(err, ErrUnavailable) {
			return nil, err
		}
		reasons = append(reasons, err)
	}
	if len(reasons) == 0 {
		return nil, fmt.Errorf("%w: FENCED_TEST_MODE=%s has no provider in this program", ErrUnavailable, os.Getenv("FENCED_TEST_MODE"))
	}
	return nil, joined(reasons)
}

// joined are several reasons on one line.
type joined []error

func (j joined) Error() string {
	texts := make([]string, len(j))
	for i, err := range j {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (j joined) Unwrap() []error { return j }

// harm does something to a server, or ends the test.
func harm(tb testing.TB, service, what string, do func() error) {
	tb.Helper()
	err := do()
	if errors.Is(err, errNotOurs) || errors.Is(err, errors.ErrUnsupported) {
		Missing(tb, service, "to "+what+" it: "+err.Error())
	}
	if err != nil {
		tb.Fatalf("testenv: %s %s: %v", what, service, err)
	}
}

// startFrom asks one provider, or ends the test for want of a service.
func startFrom(tb testing.TB, service string, p Provider, run func(Provider) (Server, error)) Server {
	tb.Helper()
	checkMode(tb)
	if !allowed(p.Name()) {
		Missing(tb, service, "FENCED_TEST_MODE="+os.Getenv("FENCED_TEST_MODE")+" rules it out")
	}
	s, err := run(p)
	if errors.Is(err, ErrUnavailable) {
		Missing(tb, service, err.Error())
	}
	if err != nil {
		tb.Fatalf("testenv: %s: %v", p.Name(), err)
	}
	return s
}

func stopServer(tb testing.TB, service string, s Server) {
	tb.Helper()
	if err := s.Stop(); err != nil {
		tb.Errorf("testenv: stop %s: %v", service, err)
	}
}

func proxyFor(tb testing.TB, s Server) *Proxy {
	tb.Helper()
	p, err := NewProxy(s.Addr())
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	tb.Cleanup(func() { _ = p.Close() })
	return p
}
