package testenv

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
)

// foreign hands out the servers that the environment names by URL. They belong
// to somebody: they cannot be configured, paused or killed.
type foreign struct{}

// Name implements [Provider].
func (foreign) Name() string { return "url" }

// given is a server named by URL.
type given struct {
	addr string
	stop func() error
}

// Addr implements [Server].
func (g *given) Addr() string { return g.addr }

// Start implements [Server].
func (*given) Start() error { return errNotOurs }

// Pause implements [Server].
func (*given) Pause() error { return errNotOurs }

// Resume implements [Server].
func (*given) Resume() error { return errNotOurs }

// Kill implements [Server].
func (*given) Kill() error { return errNotOurs }

// Stop implements [Server]; the server itself goes on.
func (g *given) Stop() error { return g.stop() }

// Exited implements [Server].
func (*given) Exited() <-chan struct{} { return nil }

// Log implements [Server].
func (*given) Log() string { return "" }

// knobURL reads a knob; errors never show it, since it may hold a password.
func knobURL(knob, port string, args []string) (*url.URL, error) {
	text := os.Getenv(knob)
	if text == "" {
		return nil, fmt.Errorf("%w: %s is not set", ErrUnavailable, knob)
	}
	if len(args) > 0 {
		return nil, fmt.Errorf("%w: the server of %s cannot be given the arguments %v", ErrUnavailable, knob, args)
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("%s is not a URL with a host", knob)
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	return u, nil
}

// givenRedis lets one test at a time have the one server there is.
var givenRedis sync.Mutex

// Redis implements [Provider]. Stop flushes the server.
func (foreign) Redis(args []string) (Server, error) {
	const knob = "FENCED_TEST_REDIS_URL"
	u, err := knobURL(knob, "6379", args)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "redis" || u.User != nil || strings.Trim(u.Path, "/0") != "" {
		return nil, fmt.Errorf("%s: only redis://host:port without password and database can be used", knob)
	}
	if !givenRedis.TryLock() {
		return nil, fmt.Errorf("%w: the server of %s is in use by another test of this binary", ErrUnavailable, knob)
	}
	if err := mustBeEmpty(u.Host, knob); err != nil {
		givenRedis.Unlock()
		return nil, err
	}
	return &given{addr: u.Host, stop: func() error {
		defer givenRedis.Unlock()
		_, err := redisDo(u.Host, "FLUSHALL")
		return err
	}}, nil
}

// mustBeEmpty keeps us from flushing what tests did not write.
func mustBeEmpty(addr, knob string) error {
	keys, err := redisDo(addr, "DBSIZE")
	if err != nil {
		return fmt.Errorf("%s: %w", knob, err)
	}
	if keys != int64(0) {
		return fmt.Errorf("%s: the server holds %v keys; tests flush it, so it must be empty and nobody else's", knob, keys)
	}
	return nil
}

// Postgres implements [Provider]. Tests may share the server: each makes a
// database of its own.
func (foreign) Postgres(args []string) (Server, error) {
	u, err := knobURL("FENCED_TEST_POSTGRES_URL", "5432", args)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("FENCED_TEST_POSTGRES_URL: want postgres://user:password@host:port/database")
	}
	if _, err := pgExec(u, "SELECT 1"); err != nil {
		return nil, fmt.Errorf("FENCED_TEST_POSTGRES_URL: %w", err)
	}
	return &given{addr: u.Host, stop: func() error { return nil }}, nil
}
