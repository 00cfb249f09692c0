package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/bench/internal/rounds"
	"github.com/fenced-go/fenced/fencedlock"
)

// heldLocks is how many locks one process holds.
const heldLocks = 10_000

// heldReport is what it took to hold them.
type heldReport struct {
	CPU        time.Duration // of the process
	Server     time.Duration // of Redis
	Commands   int64
	For        time.Duration
	Goroutines int
	Memory     int64 // bytes of the process that are resident
	Lost       int64
}

// held compares one scheduler with a goroutine and a ticker for every lock, which
// is what people write around a lock that does not renew itself.
func held(ctx context.Context, p *rounds.Program, addr string) error {
	found := map[string][]heldReport{}
	ways := []string{"fenced", "goroutine each"}
	for range rounds.Pick(p, 3, 1) {
		for _, i := range p.Perm(len(ways)) {
			r, err := holdIn(ctx, addr, ways[i], rounds.Pick(p, 30*time.Second, ttl/3))
			if err != nil {
				return fmt.Errorf("hold, %s: %w", ways[i], err)
			}
			found[ways[i]] = append(found[ways[i]], r)
		}
	}
	ours, theirs := found[ways[0]], found[ways[1]]
	ratios := heldFigures(ours, heldCPU)
	for i, under := range heldFigures(theirs, heldCPU) {
		ratios[i] /= under
	}
	p.Report.AtMost("held_cpu_vs_goroutine_each", rounds.SpreadOf(ratios), 0.15)
	p.Report.AtMost("held_goroutines", rounds.SpreadOf(heldFigures(ours, func(r heldReport) float64 { return float64(r.Goroutines) })), 50)
	p.Report.AtMost("held_lost", rounds.SpreadOf(heldFigures(ours, func(r heldReport) float64 { return float64(r.Lost) })), 0)
	return writeHeld(p, ways, found)
}

// heldFigures are one figure of every round.
func heldFigures(list []heldReport, f func(heldReport) float64) []float64 {
	var v []float64
	for _, r := range list {
		v = append(v, f(r))
	}
	return v
}

func writeHeld(p *rounds.Program, ways []string, found map[string][]heldReport) error {
	p.Printf("\n%d locks held by one process, renewed every %v: medians of %d rounds\n\n", heldLocks, (ttl / 3).Round(time.Millisecond), len(found[ways[0]]))
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(t, "CPU ms/s\tof Redis\tcommands/s\tgoroutines\tresident MB\tlost\t \n")
	for _, way := range ways {
		mid := func(f func(heldReport) float64) float64 { return rounds.SpreadOf(heldFigures(found[way], f)).Mid }
		_, _ = fmt.Fprintf(t, "%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t %s\n",
			mid(func(r heldReport) float64 { return 1e3 * r.CPU.Seconds() / r.For.Seconds() }),
			mid(func(r heldReport) float64 { return 1e3 * r.Server.Seconds() / r.For.Seconds() }),
			mid(func(r heldReport) float64 { return float64(r.Commands) / r.For.Seconds() }),
			mid(func(r heldReport) float64 { return float64(r.Goroutines) }),
			mid(func(r heldReport) float64 { return float64(r.Memory) / 1e6 }),
			mid(func(r heldReport) float64 { return float64(r.Lost) }), way)
	}
	return t.Flush()
}

// heldCPU is what a renewal costs both sides. Renewals come in waves, of which a short
// window has more or fewer, so that CPU time by itself would say little.
func heldCPU(r heldReport) float64 { return (r.CPU + r.Server).Seconds() / float64(r.Commands) }

func holdIn(ctx context.Context, addr, way string, length time.Duration) (h heldReport, err error) {
	c, err := muster(ctx, 1)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, c.dismiss()) }()
	r, err := c.obey(order{Op: "hold", Lock: way, Addr: addr, Name: "held:" + way, Waiters: heldLocks, For: length})
	if err != nil {
		return h, err
	}
	return r[0].Held, nil
}

// holdMany is the worker's part: it acquires, measures for some time, and releases.
func holdMany(ctx context.Context, o order) (report, error) {
	w := &wire{}
	rdb := counted(o.Addr, w)
	defer func() { _ = rdb.Close() }()
	var lost atomic.Int64
	take, end := holdEach(ctx, rdb, &lost)
	if o.Lock == "fenced" {
		l, err := fencedlock.New(rdb, &fencedlock.Options{TTL: ttl, Hooks: &fencedlock.Hooks{
			Lost: func(_ context.Context, err *fencedlock.LostError) {
				if err.Reason != fencedlock.Closed {
					lost.Add(1)
				}
			},
		}})
		if err != nil {
			return report{}, err
		}
		take = func(ctx context.Context, name string) error { _, err := l.Acquire(ctx, name, nil); return err }
		end = func() { _ = l.Close() } //nolint:contextcheck // Close has no context
	}
	defer end()
	if err := takeAll(ctx, o, take); err != nil {
		return report{}, err
	}
	<-time.After(ttl / 3) // by then renewals are under way
	h := heldReport{For: o.For}
	sent, cpu, server := w.sent.Load(), cpuTime(), serverCPU(ctx, rdb)
	<-time.After(o.For)
	h.Commands, h.CPU = w.sent.Load()-sent, cpuTime()-cpu
	h.Server = serverCPU(ctx, rdb) - server
	h.Goroutines, h.Memory, h.Lost = runtime.NumGoroutine(), resident(), lost.Load()
	return report{Held: h}, nil
}

// takeAll acquires all locks, some at a time.
func takeAll(ctx context.Context, o order, take func(context.Context, string) error) error {
	errs := make([]error, 32)
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1))
				if i > o.Waiters {
					return
				}
				errs[w] = take(ctx, o.Name+":"+strconv.Itoa(i))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// holdEach renews every lock on a goroutine of its own, by a script that compares
// the holder as redislock's does.
func holdEach(ctx context.Context, rdb *redis.Client, lost *atomic.Int64) (take func(context.Context, string) error, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	return func(_ context.Context, name string) error {
			ok, err := rdb.SetNX(ctx, name, name, ttl).Result()
			if err == nil && !ok {
				err = errNotHeld
			}
			if err != nil {
				return err
			}
			wg.Go(func() { renewEach(ctx, rdb, name, lost) })
			return nil
		}, func() {
			cancel()
			wg.Wait()
			rdb.FlushDB(context.WithoutCancel(ctx))
		}
}

var bareRenew = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

func renewEach(ctx context.Context, rdb *redis.Client, name string, lost *atomic.Int64) {
	t := time.NewTicker(ttl / 3)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if n, err := bareRenew.Run(ctx, rdb, []string{name}, name, ttl.Milliseconds()).Int64(); err == nil && n == 0 {
			lost.Add(1)
		}
	}
}
