package main

import (
	"context"
	"errors"
	"time"

	"github.com/fenced-go/fenced/bench/internal/rounds"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
	"github.com/fenced-go/fenced/internal/testenv"
)

func main() { rounds.Main(run) }

func run(ctx context.Context, p *rounds.Program) (err error) {
	server, err := testenv.StartS3() //nolint:contextcheck // a server that starts has no context
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	b, err := newBucket(ctx, server)
	if err != nil {
		return err
	}
	if err := small(ctx, p, b); err != nil {
		return err
	}
	return large(ctx, p, b)
}

func small(ctx context.Context, p *rounds.Program, b *bucket) error {
	r, err := p.Compare(ctx, rounds.Plan{
		Name: "100 bytes", Rounds: rounds.Pick(p, 60, 14), Slice: 100 * time.Millisecond, Workers: 1,
	}, b.small()...)
	if err != nil {
		return err
	}
	p.Report.AtMost("fenced_put_vs_cas", r.Ratio(rounds.P50, "fenced_put", "cas"), 1.1)
	p.Report.AtMost("fenced_put_vs_put", r.Ratio(rounds.P50, "fenced_put", "put"), 1.5)
	p.Report.AtMost("claim_vs_cas", r.Ratio(rounds.P50, "claim", "cas"), 1.8)
	p.Report.AtMost("fenced_get_vs_get", r.Ratio(rounds.P50, "fenced_get", "get"), 1.2)
	return b.count(ctx, p, "", map[string]float64{"fenced_put": 1, "claim": 2, "fenced_get": 1}, b.small())
}

func large(ctx context.Context, p *rounds.Program, b *bucket) error {
	for _, c := range []struct {
		name, base string
		size       int
		goal       float64
		requests   float64
	}{
		{"1MiB", "put", 1 << 20, 1.5, 2},
		// begin, parts, complete, commit
		{"32MiB", "multipart", 32 << 20, 1.2, 1 + 32<<20/s3compat.DefaultPartSize + 2},
	} {
		variants := b.large(c.size)
		r, err := p.Compare(ctx, rounds.Plan{
			Name: c.name, Rounds: rounds.Pick(p, 20, 5), Slice: rounds.Pick(p, 500*time.Millisecond, 200*time.Millisecond), Workers: 1,
		}, variants...)
		if err != nil {
			return err
		}
		p.Report.AtMost("fenced_put_vs_"+c.base+"_"+c.name, r.Ratio(rounds.P50, "fenced_put", c.base), c.goal)
		if err := b.count(ctx, p, "_"+c.name, map[string]float64{"fenced_put": c.requests}, variants); err != nil {
			return err
		}
	}
	return nil
}
