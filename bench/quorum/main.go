package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/bench/internal/rounds"
	"github.com/fenced-go/fenced/internal/testenv"
)

func main() { rounds.Main(run) }

// nodes is how many servers a quorum has, of which up to most are frozen.
const nodes, most = 5, 2

func run(ctx context.Context, p *rounds.Program) (err error) {
	s := &scene{}
	defer func() { err = errors.Join(err, s.close()) }()
	for frozen := range most + 1 {
		if err := s.build(frozen); err != nil { //nolint:contextcheck // a server outlives the call that starts it
			return err
		}
	}
	for _, c := range s.quick {
		if err := voting(ctx, c.acquire); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	acquire, err := compare(ctx, p, "acquire", s.acquires())
	if err != nil {
		return err
	}
	release, err := compare(ctx, p, "release", s.releases())
	if err != nil {
		return err
	}
	report(p, acquire, "acquire")
	report(p, release, "release")
	return s.timeSlow(ctx, rounds.Pick(p, most, 1))
}

func compare(ctx context.Context, p *rounds.Program, what string, variants []rounds.Variant) (*rounds.Result, error) {
	return p.Compare(ctx, rounds.Plan{
		Name:   what + ", and how many of five servers are frozen",
		Rounds: rounds.Pick(p, 200, 12), Slice: 10 * time.Millisecond, Workers: 1,
	}, variants...)
}

func report(p *rounds.Program, r *rounds.Result, what string) {
	p.Report.AtMost("quorum_"+what+"_vs_redsync_p50", r.Ratio(rounds.P50, "fenced 0", "redsync 0"), 1.1)
	p.Report.AtMost("quorum_"+what+"_one_frozen_vs_none_p50", r.Ratio(rounds.P50, "fenced 1", "fenced 0"), 2)
	p.Report.AtMost("quorum_"+what+"_two_frozen_vs_none_p50", r.Ratio(rounds.P50, "fenced 2", "fenced 0"), 2)
}

// scene is all contestants, each with clients of its own, and the servers.
type scene struct {
	quick   []contestant // of which many operations can be timed
	slow    []contestant
	closers []func() error
}

type contestant struct {
	name    string
	acquire acquire
}

// build starts servers, freezes some, and puts the contestants before them.
func (s *scene) build(frozen int) error {
	var addrs []string
	for i := range nodes {
		server, err := testenv.StartRedis("--save", "", "--appendonly", "no")
		if err != nil {
			return err
		}
		s.closers = append(s.closers, server.Stop)
		addrs = append(addrs, server.DirectAddr())
		if i < frozen {
			if err := server.Freeze(); err != nil {
				return err
			}
		}
	}
	name := func(variant string) string { return fmt.Sprint(variant, " ", frozen) }
	ours, closeOurs, err := fenced(s.clients(addrs, redis.Options{}))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, closeOurs)
	plain := contestant{name("redsync"), redsynced(s.clients(addrs, redis.Options{}), false)}
	s.quick = append(s.quick, contestant{name("fenced"), ours})
	if frozen == 0 {
		s.quick = append(s.quick, plain)
	} else {
		s.slow = append(s.slow, plain)
	}
	s.quick = append(s.quick,
		contestant{name("redsync-failfast"), redsynced(s.clients(addrs, redis.Options{}), true)},
		contestant{name("redsync-50ms"), redsynced(s.clients(addrs, impatient), false)})
	return nil
}

// clients are one go-redis client for each server.
func (s *scene) clients(addrs []string, opts redis.Options) []redis.UniversalClient {
	var list []redis.UniversalClient
	for _, addr := range addrs {
		opts.Addr = addr
		rdb := redis.NewClient(&opts)
		s.closers = append(s.closers, rdb.Close)
		list = append(list, rdb)
	}
	return list
}

func (s *scene) acquires() []rounds.Variant {
	var list []rounds.Variant
	for _, c := range s.quick {
		var release release
		list = append(list, rounds.Variant{
			Name:  c.name,
			Do:    func(ctx context.Context, _ int) (err error) { release, err = c.acquire(ctx, c.name); return err },
			After: func(ctx context.Context, _ int) error { return release(ctx) },
		})
	}
	return list
}

func (s *scene) releases() []rounds.Variant {
	var list []rounds.Variant
	for _, c := range s.quick {
		var release release
		list = append(list, rounds.Variant{
			Name:   c.name,
			Before: func(ctx context.Context, _ int) (err error) { release, err = c.acquire(ctx, c.name); return err },
			Do:     func(ctx context.Context, _ int) error { return release(ctx) },
		})
	}
	return list
}

// timeSlow times one operation of each of the first n slow contestants.
func (s *scene) timeSlow(ctx context.Context, n int) error {
	_, _ = fmt.Fprintln(os.Stdout, "\nonce:")
	for _, c := range s.slow[:n] {
		began := time.Now()
		release, err := c.acquire(ctx, c.name)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		acquired := time.Now()
		err = release(ctx)
		_, _ = fmt.Fprintf(os.Stdout, "%s: acquire %v, release %v\n",
			c.name, acquired.Sub(began).Round(time.Millisecond), time.Since(acquired).Round(time.Millisecond))
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// close closes in reverse, so that a Locker goes before its clients, and those
// before the servers.
func (s *scene) close() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
