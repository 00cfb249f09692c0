package rounds

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"time"
)

// Program is one comparison as a program.
type Program struct {
	// Report takes the figures with a goal; they are printed last.
	Report Report
	// Quick asks for a run of less than a minute.
	Quick bool

	out  io.Writer
	rand *rand.Rand
}

// Pick returns the value for a full run, or the one for a quick run.
func Pick[T any](p *Program, full, quick T) T {
	if p.Quick {
		return quick
	}
	return full
}

// Compare runs variants and prints their table.
func (p *Program) Compare(ctx context.Context, plan Plan, variants ...Variant) (*Result, error) {
	plan.Rand = p.rand
	r, err := plan.Run(ctx, variants...)
	if err != nil {
		return nil, err
	}
	return r, r.WriteTable(p.out)
}

// Perm draws an order of n variants.
func (p *Program) Perm(n int) []int { return p.rand.Perm(n) }

// Write implements [io.Writer]: it is where the tables go.
func (p *Program) Write(b []byte) (int, error) { return p.out.Write(b) }

// Printf writes beside the tables.
func (p *Program) Printf(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format, args...) }

// timeout bounds a whole comparison: a lock that hangs ends it.
const timeout = 15 * time.Minute

// errMissed ends a program whose goals are checked.
var errMissed = errors.New("goals missed")

// Main runs a comparison and exits. Of the environment it reads
//
//	QUICK=1   less than a minute, and noisier
//	CHECK=1   a missed goal is exit status 1; without it noise fails nothing
func Main(run func(ctx context.Context, p *Program) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	err := start(ctx, os.Stdout, os.Args, run)
	cancel()
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, out io.Writer, args []string, run func(context.Context, *Program) error) error {
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	seed := flags.Uint64("seed", rand.Uint64(), "draws the order of the variants")
	cpu := flags.String("cpuprofile", "", "write a CPU profile, labelled by variant, to this `file`")
	mem := flags.String("memprofile", "", "write a profile of all allocations to this `file`")
	_ = flags.Parse(args[1:])
	p := &Program{Quick: set("QUICK"), out: out, rand: rand.New(rand.NewPCG(*seed, 0))}
	_, _ = fmt.Fprintf(out, "%s %s/%s, %d CPUs, seed %d, load %s\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), *seed, load())
	err := profiled(*cpu, *mem, func() error { return run(ctx, p) })
	if err != nil {
		return err
	}
	if err := p.Report.Write(out); err != nil {
		return err
	}
	if n := p.Report.Missed(); n > 0 && set("CHECK") {
		return fmt.Errorf("%w: %d", errMissed, n)
	}
	return nil
}

func set(name string) bool { return os.Getenv(name) != "" && os.Getenv(name) != "0" }

// load is how busy the machine is already; "?" where it does not say.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil || len(b) < 4 {
		return "?"
	}
	return string(b[:4])
}

// profiled runs f under the profiles that were asked for.
func profiled(cpu, mem string, f func() error) (err error) {
	if cpu != "" {
		file, err := os.Create(cpu)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if mem == "" {
		return f()
	}
	runtime.MemProfileRate = 1 << 10
	file, err := os.Create(mem)
	if err != nil {
		return err
	}
	return errors.Join(f(), pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}
