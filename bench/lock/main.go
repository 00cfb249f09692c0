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

func main() {
	if isWorker() {
		if err := work(os.Stdin, os.Stdout); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "bench worker:", err)
			os.Exit(1)
		}
		return
	}
	rounds.Main(run)
}

// many is how many goroutines make "many".
const many = 64

func run(ctx context.Context, p *rounds.Program) (err error) {
	server, err := testenv.StartRedis("--save", "", "--appendonly", "no") //nolint:contextcheck // a server outlives the call that starts it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	s := &scene{ctx: ctx, addr: server.DirectAddr()}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.build(); err != nil {
		return err
	}
	if err := lone(ctx, p, s); err != nil {
		return err
	}
	if err := crowd(ctx, p, s); err != nil {
		return err
	}
	if err := contest(ctx, p, s.addr); err != nil {
		return err
	}
	return held(ctx, p, s.addr)
}

// lone measures one goroutine that meets nobody.
func lone(ctx context.Context, p *rounds.Program, s *scene) error {
	r, err := p.Compare(ctx, rounds.Plan{
		Name:   "acquire and release a free name",
		Rounds: rounds.Pick(p, 400, 60), Slice: 20 * time.Millisecond, Workers: 1,
	}, s.variants...)
	if err != nil {
		return err
	}
	p.Report.AtMost("pair_vs_bare_p50", r.Ratio(rounds.P50, "fenced", "bare"), 1.05)
	p.Report.AtMost("pair_vs_redislock_p50", r.Ratio(rounds.P50, "fenced", "redislock"), 1)
	p.Report.AtMost("pair_vs_redsync_p50", r.Ratio(rounds.P50, "fenced", "redsync"), 0.5)
	p.Report.AtMost("pair_vs_rueidislock_p50", r.Ratio(rounds.P50, "fenced", "rueidislock"), 0.45)
	p.Report.AtMost("allocs_per_pair", r.Median(rounds.Allocs, "fenced"), 16)
	return nil
}

// crowd measures many goroutines of one process that do not meet each other.
func crowd(ctx context.Context, p *rounds.Program, s *scene) error {
	r, err := p.Compare(ctx, rounds.Plan{
		Name:   "the same, each goroutine with a name of its own",
		Rounds: rounds.Pick(p, 40, 6), Slice: 200 * time.Millisecond, Workers: many,
	}, s.variants...)
	if err != nil {
		return err
	}
	p.Report.AtLeast("pairs_per_second_64_vs_redislock", r.Ratio(rounds.PerSecond, "fenced", "redislock"), 2)
	return nil
}

// scene is all variants, each with a client of its own.
type scene struct {
	ctx      context.Context
	addr     string
	variants []rounds.Variant
	closers  []func() error
}

func (s *scene) build() error {
	if err := load(s.ctx, s.client()); err != nil {
		return err
	}
	s.add("bare", bare(s.client()))
	s.add("incr", incr(s.client()))
	s.add("bare-boxed", bareBoxed(s.client()))
	ours, closeOurs, err := fenced(s.client())
	if err != nil {
		return err
	}
	s.add("fenced", ours)
	s.closers = append(s.closers, closeOurs)
	s.add("redislock", bsm(s.client()))
	s.add("redsync", redsyncPair(s.client()))
	rueidis, closeRueidis, err := rueidisPair(s.ctx, s.addr)
	if err != nil {
		return err
	}
	s.add("rueidislock", rueidis)
	s.closers = append(s.closers, closeRueidis)
	return nil
}

// client is a go-redis client with its defaults.
func (s *scene) client() *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: s.addr})
	s.closers = append(s.closers, rdb.Close)
	return rdb
}

// add makes a variant, with a name for every worker.
func (s *scene) add(variant string, do pair) {
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprintf("%s:%d", variant, i)
	}
	s.variants = append(s.variants, rounds.Variant{
		Name: variant,
		Do:   func(ctx context.Context, worker int) error { return do(ctx, names[worker]) },
	})
}

// close closes in reverse, so that a Locker goes before its client.
func (s *scene) close() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
