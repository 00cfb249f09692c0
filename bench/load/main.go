package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fenced-go/fenced/internal/testenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := program(ctx, os.Stdout, os.Args)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// defaults undo what testenv chooses for tests.
var defaults = []string{
	"-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=on", "-c", "wal_level=replica",
}

func program(ctx context.Context, out io.Writer, args []string) (err error) {
	d := time.Minute
	if quick := os.Getenv("QUICK"); quick != "" && quick != "0" {
		d = 10 * time.Second
	}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	flags.DurationVar(&d, "for", d, "how long the load lasts")
	_ = flags.Parse(args[1:])
	_, _ = fmt.Fprintf(out, "%s %s/%s, %d CPUs, for %v\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), d)
	r, err := testenv.StartRedis("--save", "", "--appendonly", "no") //nolint:contextcheck // a server outlives the call that starts it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	p, err := testenv.StartPostgres(defaults...) //nolint:contextcheck // the same
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	return run(ctx, out, r.DirectAddr(), p.DirectURL("postgres"), d)
}

const (
	// warmUp is which part of the time finds the rate.
	warmUp = 10
	// share is how much of the highest rate is asked for.
	share = 0.6
)

var (
	errFailed = errors.New("operations failed")
	errIdle   = errors.New("nothing was done")
	errGrown  = errors.New("grew under a steady load")
)

// run puts the load on two servers for d and writes what came of it.
func run(ctx context.Context, out io.Writer, redisAddr, url string, d time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*d+time.Minute) // work that is late is done all the same
	defer cancel()
	l := &load{}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.open(ctx, redisAddr, url); err != nil {
		return err
	}
	kinds := l.kinds()
	most := drive(ctx, kinds, nil, d/warmUp)
	if err := verdict(kinds, most); err != nil {
		return err
	}
	rates := make([]float64, len(kinds))
	for i := range kinds {
		rates[i] = share * most[i].perSecond()
	}
	list := gauges(l.rdb)
	var series [][]float64
	watched := make(chan error, 1)
	go func() {
		var err error
		series, err = watch(ctx, list, d)
		watched <- err
	}()
	tallies := drive(ctx, kinds, rates, d)
	if err := errors.Join(<-watched, context.Cause(ctx)); err != nil {
		return err
	}
	if err := writeTallies(out, kinds, rates, tallies); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "locks lost to standstills of the machine: %d\n\n", l.stalls.Load())
	grown, err := writeGrowth(out, list, series)
	if err == nil && len(grown) > 0 {
		err = fmt.Errorf("%w: %s", errGrown, strings.Join(grown, ", "))
	}
	return errors.Join(err, verdict(kinds, tallies), l.settle(ctx))
}

// verdict is an error if any operation failed, or none was done.
func verdict(kinds []kind, tallies []tally) error {
	var errs []error
	for i := range tallies {
		switch t := &tallies[i]; {
		case t.errors > 0:
			errs = append(errs, fmt.Errorf("%s: %w: %d of %d, one of them: %w", kinds[i].name, errFailed, t.errors, t.n, t.err))
		case t.n == 0:
			errs = append(errs, fmt.Errorf("%s: %w", kinds[i].name, errIdle))
		}
	}
	return errors.Join(errs...)
}

func writeTallies(w io.Writer, kinds []kind, rates []float64, tallies []tally) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(t, "\nasked per second\tdone\terrors\tp50 ms\tp90 ms\tp99 ms\tp99.9 ms\tmost ms\t \n")
	for i, k := range kinds {
		y := &tallies[i]
		_, _ = fmt.Fprintf(t, "%.0f\t%d\t%d", rates[i], y.n, y.errors)
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
			_, _ = fmt.Fprintf(t, "\t%.2f", float64(y.quantile(q))/float64(time.Millisecond))
		}
		_, _ = fmt.Fprintf(t, "\t %s\n", k.name)
	}
	_, _ = fmt.Fprintf(t, "\n")
	return t.Flush()
}
