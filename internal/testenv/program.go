package testenv

import (
	"errors"
	"fmt"
)

// StartRedis is [NewRedis] for programs that are not tests. It never skips:
// an error matches [ErrUnavailable] where a test would be skipped. The caller
// ends the server with [Redis.Stop]; local ones also end with the program.
func StartRedis(args ...string) (*Redis, error) {
	s, err := first(func(p Provider) (Server, error) { return p.Redis(args) })
	if err != nil {
		return nil, fmt.Errorf("testenv: redis: %w; %s", err, remedy("redis"))
	}
	r := &Redis{srv: s}
	if r.Proxy, err = open(s, r.probe); err != nil {
		return nil, fmt.Errorf("testenv: redis: %w", err)
	}
	return r, nil
}

// Stop ends a server from [StartRedis] for good, and its proxy.
func (r *Redis) Stop() error { return errors.Join(r.Proxy.Close(), r.srv.Stop()) }

// Freeze is [Redis.Pause] for programs. Stop ends a frozen server too.
func (r *Redis) Freeze() error { return r.srv.Pause() }

// StartPostgres is [NewPostgres] for programs that are not tests, as
// [StartRedis] is. The caller ends the server with [Postgres.Stop].
func StartPostgres(args ...string) (*Postgres, error) {
	s, err := first(func(p Provider) (Server, error) { return p.Postgres(args) })
	if err != nil {
		return nil, fmt.Errorf("testenv: postgres: %w; %s", err, remedy("postgres"))
	}
	p := newPostgres(s)
	if p.Proxy, err = open(s, p.probe); err != nil {
		return nil, fmt.Errorf("testenv: postgres: %w", err)
	}
	return p, nil
}

// Stop ends a server from [StartPostgres] for good, and its proxy.
func (p *Postgres) Stop() error { return errors.Join(p.Proxy.Close(), p.srv.Stop()) }

// open waits for a started server and puts a proxy before it, or stops it.
func open(s Server, probe func() error) (*Proxy, error) {
	err := waitReady(s, probe)
	if err == nil {
		var p *Proxy
		if p, err = NewProxy(s.Addr()); err == nil {
			return p, nil
		}
	}
	return nil, errors.Join(err, s.Stop())
}
