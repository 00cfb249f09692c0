package testenv

import (
	"errors"
	"fmt"
	"testing"
)

// networked is a [Server] that can be taken off its network, as a container can.
// Its connections stay as they are and hear nothing; new ones are refused or
// unanswered.
type networked interface {
	Disconnect() error
	Connect() error
}

// errNoNetwork is what a server says that has no network of its own.
var errNoNetwork = fmt.Errorf("it has no network of its own, as containers have: %w", errors.ErrUnsupported)

func disconnect(s Server) error {
	if n, ok := s.(networked); ok {
		return n.Disconnect()
	}
	return errNoNetwork
}

func connect(s Server) error {
	if n, ok := s.(networked); ok {
		return n.Connect()
	}
	return errNoNetwork
}

// Disconnect takes the container of the server off its network. Where the server
// is no container the test ends as missing it.
func (r *Redis) Disconnect(tb testing.TB) {
	tb.Helper()
	harm(tb, "redis", "disconnect", func() error { return disconnect(r.srv) })
}

// Connect ends a Disconnect, and waits until the server can be reached again.
func (r *Redis) Connect(tb testing.TB) {
	tb.Helper()
	harm(tb, "redis", "connect", func() error { return connect(r.srv) })
	r.ready(tb)
}

// Disconnect takes the container of the server off its network. Where the server
// is no container the test ends as missing it.
func (p *Postgres) Disconnect(tb testing.TB) {
	tb.Helper()
	harm(tb, "postgres", "disconnect", func() error { return disconnect(p.srv) })
}

// Connect ends a Disconnect, and waits until the server can be reached again.
func (p *Postgres) Connect(tb testing.TB) {
	tb.Helper()
	harm(tb, "postgres", "connect", func() error { return connect(p.srv) })
	p.ready(tb)
}
