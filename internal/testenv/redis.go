package testenv

import (
	"fmt"
	"testing"
)

// Redis is a server of one test, behind a [Proxy].
type Redis struct {
	Proxy *Proxy
	srv   Server
}

// NewRedis starts an empty server with extra arguments of redis-server, such as
// "--appendonly", "yes", and stops it when the test ends. Nothing is written to
// disk unless the arguments say so.
func NewRedis(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	return redisOn(tb, startFirst(tb, "redis", func(p Provider) (Server, error) { return p.Redis(args) }))
}

// NewRedisFrom is [NewRedis] with the provider given; a mode that rules it out, or
// a provider that cannot serve, ends the test as missing.
func NewRedisFrom(tb testing.TB, p Provider, args ...string) *Redis {
	tb.Helper()
	return redisOn(tb, startFrom(tb, p.Name(), p, func(p Provider) (Server, error) { return p.Redis(args) }))
}

// redisOn puts the proxy before a server and leaves both to the test's end.
func redisOn(tb testing.TB, s Server) *Redis {
	tb.Helper()
	r := &Redis{srv: s}
	tb.Cleanup(func() { stopServer(tb, "redis", s) })
	r.ready(tb)
	r.Proxy = proxyFor(tb, s)
	return r
}

func (r *Redis) ready(tb testing.TB) {
	tb.Helper()
	if err := waitReady(r.srv, r.probe); err != nil {
		tb.Fatalf("testenv: redis: %v", err)
	}
}

func (r *Redis) probe() error {
	pong, err := redisDo(r.srv.Addr(), "PING")
	if err == nil && pong != "PONG" {
		err = fmt.Errorf("PING: %v", pong)
	}
	return err
}

// Addr is the server through its proxy; it stays the same over restarts.
func (r *Redis) Addr() string { return r.Proxy.Addr() }

// DirectAddr is the server itself: the test's own eye, which no fault of the
// proxy disturbs.
func (r *Redis) DirectAddr() string { return r.srv.Addr() }

// Do runs one command at the server itself and returns a string, an int64, nil,
// or a []any of these. An error reply fails the test.
func (r *Redis) Do(tb testing.TB, args ...string) any {
	tb.Helper()
	reply, err := r.TryDo(args...)
	if err != nil {
		tb.Fatalf("testenv: redis %v: %v", args, err)
	}
	return reply
}

// TryDo is [Redis.Do] with the error returned.
func (r *Redis) TryDo(args ...string) (any, error) { return redisDo(r.srv.Addr(), args...) }

// Pause stops the server as SIGSTOP does: connections stay, nothing answers.
func (r *Redis) Pause(tb testing.TB) {
	tb.Helper()
	harm(tb, "redis", "pause", r.srv.Pause)
}

// Resume ends a pause.
func (r *Redis) Resume(tb testing.TB) {
	tb.Helper()
	harm(tb, "redis", "resume", r.srv.Resume)
}

// Kill is kill -9 of the server.
func (r *Redis) Kill(tb testing.TB) {
	tb.Helper()
	harm(tb, "redis", "kill", r.srv.Kill)
}

// Start starts a killed server again on the same address and directory, and
// waits until it has loaded its data. What survives is what it had persisted:
// nothing by default.
func (r *Redis) Start(tb testing.TB) {
	tb.Helper()
	harm(tb, "redis", "start", r.srv.Start)
	r.ready(tb)
}

// Log is the end of what the server has printed.
func (r *Redis) Log() string { return r.srv.Log() }
