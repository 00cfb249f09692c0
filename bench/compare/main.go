package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/fenced-go/fenced/internal/testenv"
)

func main() {
	if os.Getenv(workerEnv) != "" {
		os.Exit(workerMain())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := compare(ctx, os.Stdout, os.Args)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// The plans; QUICK=1 asks for the second, which takes less than a minute.
var (
	full  = plan{Pauses: 120, Within: 90 * time.Second}
	quick = plan{Pauses: 20, Within: 5 * time.Second}
)

// errUnsafe ends the program when the lock that it is about did not do its work.
var errUnsafe = errors.New("something was lost, taken late or written twice under fenced")

func compare(ctx context.Context, out io.Writer, args []string) error {
	p := full
	if quickly := os.Getenv("QUICK"); quickly != "" && quickly != "0" {
		p = quick
	}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	flags.Uint64Var(&p.Seed, "seed", rand.Uint64(), "draws the pauses")
	flags.IntVar(&p.Pauses, "pauses", p.Pauses, "how often each lock is paused")
	flags.DurationVar(&p.Within, "within", p.Within, "how long one lock is tried at most")
	readme := flags.String("readme", "", "write the result into this `file`, between its markers")
	svg := flags.String("svg", "", "write the chart to this `file`")
	_ = flags.Parse(args[1:])
	_, _ = fmt.Fprintf(out, "seed %d, %d pauses\n\n", p.Seed, p.Pauses)
	r, err := all(ctx, p)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, r.markdown()); err != nil {
		return err
	}
	if err := r.save(*readme, *svg); err != nil {
		return err
	}
	return r.check()
}

// all measures every contender on servers of its own.
func all(ctx context.Context, p plan) (r result, err error) {
	servers, err := startServers() //nolint:contextcheck // servers outlive the call that starts them
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, servers.stop()) }()
	r = result{plan: p, when: time.Now(), machine: machine()}
	if r.versions, err = versions(ctx, servers); err != nil {
		return r, err
	}
	for _, c := range contenders() {
		_, _ = fmt.Fprintf(os.Stderr, "%s …\n", c.name)
		row, err := measure(ctx, c, servers.world(), p)
		if err != nil {
			return r, err
		}
		r.rows = append(r.rows, row)
	}
	return r, nil
}

// servers are one Redis and one Postgres.
type servers struct {
	redis    *testenv.Redis
	postgres *testenv.Postgres
}

func startServers() (*servers, error) {
	r, err := testenv.StartRedis("--save", "", "--appendonly", "no")
	if err != nil {
		return nil, err
	}
	p, err := testenv.StartPostgres()
	if err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return &servers{r, p}, nil
}

func (s *servers) stop() error { return errors.Join(s.postgres.Stop(), s.redis.Stop()) }

func (s *servers) world() world {
	return world{Redis: s.redis.DirectAddr(), Postgres: s.postgres.DirectURL("postgres")}
}

// check fails if ours is not what it promises to be.
func (r result) check() error {
	for i, c := range contenders() {
		if c.ours && (i >= len(r.rows) || r.rows[i].harm()) {
			return errUnsafe
		}
	}
	return nil
}
