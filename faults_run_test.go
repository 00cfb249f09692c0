package fenced_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/faults"
	"github.com/fenced-go/fenced/internal/testenv"
)

// recoverWithin bounds the time from the last fault to the next write of every
// worker. It takes about a lease, and longer on a busy machine.
const recoverWithin = time.Minute

// faultRun is one run of workers, faults and judgement.
type faultRun struct {
	*testing.T
	seed      uint64
	length    time.Duration
	resources []string
	history   faults.History
	faults    []faults.Fault
	setup     faultSetup // of every worker but for its name

	workers map[string]*faultProcess
}

// faultProcess is a worker.
type faultProcess struct {
	*testenv.Process
	stop  *os.File // closed to end it
	heard sync.WaitGroup
	odd   bool // it is expected to be of no use: cut off for good
}

// newFaultRun reads the knobs.
func newFaultRun(t *testing.T) *faultRun {
	t.Helper()
	r := &faultRun{
		T: t, seed: rand.Uint64N(1 << 32), length: 10 * time.Second,
		resources: []string{"north", "south"}, workers: map[string]*faultProcess{},
	}
	if text := os.Getenv("FENCED_TEST_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("FENCED_TEST_SEED: %v", err)
		}
		r.seed = seed
	}
	if text := os.Getenv("FENCED_TEST_FAULTS"); text != "" {
		length, err := time.ParseDuration(text)
		if err != nil || length <= 0 {
			t.Fatalf("FENCED_TEST_FAULTS=%s: want a time, such as 60s", text)
		}
		r.length = length
	}
	r.setup.Seed, r.setup.Resources = r.seed, r.resources
	t.Cleanup(r.sayHowToRepeat)
	return r
}

// harm adds faults.
func (r *faultRun) harm(list ...faults.Fault) { r.faults = append(r.faults, list...) }

// start starts a worker. change may be nil.
func (r *faultRun) start(name string, change func(*faultSetup)) *faultProcess {
	r.Helper()
	s := r.setup
	s.Name = name
	if change != nil {
		change(&s)
	}
	spec, err := json.Marshal(s)
	if err != nil {
		r.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	in, stop := pipe(r)
	lines, out := pipe(r)
	cmd := exec.CommandContext(r.Context(), self)
	cmd.Env = append(os.Environ(), faultWorkerEnv+"="+string(spec))
	cmd.Stdin, cmd.Stdout = in, out
	p := &faultProcess{stop: stop}
	p.Process = testenv.Start(r, cmd)
	_, _ = in.Close(), out.Close() // they are the process's now
	p.heard.Go(func() {
		for s := bufio.NewScanner(lines); s.Scan(); {
			var o faults.Op
			if json.Unmarshal(s.Bytes(), &o) == nil { // a kill may cut the last line short
				r.history.Record(o)
			}
		}
	})
	r.workers[name] = p
	return p
}

// crewSize is how many workers there are: one more than two, so that somebody
// waits while one holds and one is stopped.
const crewSize = 3

// crew starts the workers, which may be paused and killed. change may be nil.
func (r *faultRun) crew(change func(i int, s *faultSetup)) {
	r.Helper()
	for i := range crewSize {
		lane := fmt.Sprint("w", i)
		life := 0
		start := func() *faultProcess {
			life++
			return r.start(fmt.Sprint(lane, ".", life), func(s *faultSetup) {
				if change != nil {
					change(i, s)
				}
			})
		}
		p := start()
		r.harm(
			faults.Fault{
				Name: "pause " + lane, Lane: lane, Longest: long,
				Begin: func() { p.Pause(r) }, End: func() { p.Resume(r) },
			},
			faults.Fault{
				Name: "kill " + lane, Lane: lane,
				Begin: func() {
					p.Kill(r)
					p.heard.Wait()
					for name, other := range r.workers {
						if other == p {
							delete(r.workers, name)
						}
					}
					p = start()
				},
			},
		)
	}
}

// run does the harm, waits until everybody works again, and ends the workers.
func (r *faultRun) run() {
	r.Helper()
	steps := faults.Plan(r.seed, r.length, r.faults)
	faults.Run(r.Context(), steps, &r.history)
	healed := time.Now()
	idle := r.awaitLife(healed)
	if len(idle) > 0 {
		r.Errorf("%v have not written in the %v since the last fault", idle, recoverWithin)
		r.tellLast(idle)
	}
	r.Logf("seed %d: %d faults, %v until everybody wrote again; %s", r.seed, len(steps), time.Since(healed).Round(time.Millisecond), r.counts())
	for _, p := range r.workers {
		_ = p.stop.Close()
	}
	for name, p := range r.workers {
		if err := p.Wait(r, patience); err != nil {
			r.Errorf("worker %s: %v: %s", name, err, p.Output())
		}
		p.heard.Wait()
	}
}

func (r *faultRun) awaitLife(since time.Time) (idle []string) {
	var names []string
	for name, p := range r.workers {
		if !p.odd {
			names = append(names, name)
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for time.Since(since) < recoverWithin {
		if idle = r.history.Idle(since, names, r.resources); len(idle) == 0 {
			return nil
		}
		<-tick.C
	}
	return idle
}

// tellLast shows the end of what idle workers did.
func (r *faultRun) tellLast(idle []string) {
	r.Helper()
	const most = 10
	ops := r.history.Ops()
	for _, who := range idle {
		var last []string
		for _, o := range ops {
			if o.Who == who || o.Resource == who {
				last = append(last, o.String())
			}
		}
		r.Logf("the last of %s:\n%s", who, strings.Join(last[max(0, len(last)-most):], "\n"))
	}
}

func (r *faultRun) counts() string {
	h := &r.history
	return fmt.Sprintf("%d acquired, %d not; %d writes done, %d refused, %d failed, %d unknown, %d without an answer",
		h.Count(faults.Acquire, faults.Done), h.Count(faults.Acquire, faults.Failed)+h.Count(faults.Acquire, faults.Unknown)+h.Count(faults.Acquire, faults.Refused),
		h.Count(faults.Write, faults.Done), h.Count(faults.Write, faults.Refused), h.Count(faults.Write, faults.Failed),
		h.Count(faults.Write, faults.Unknown), h.Count(faults.Write, faults.Never))
}

// judge compares the history with what the store has kept.
func (r *faultRun) judge(account faults.Account) {
	r.Helper()
	r.judgeOps(r.history.Ops(), account)
}

// judgeOps is judge for a part of the history.
func (r *faultRun) judgeOps(ops []*faults.Op, account faults.Account) {
	r.Helper()
	const most = 3
	violations := faults.Judge(ops, account)
	for i, v := range violations {
		if i == most {
			r.Errorf("and %d more violations", len(violations)-most)
			break
		}
		r.Errorf("%s", r.history.Report(v))
	}
	if r.history.Count(faults.Write, faults.Done) == 0 {
		r.Error("nothing was written: the run shows nothing")
	}
}

func (r *faultRun) sayHowToRepeat() {
	r.Helper()
	if r.Failed() {
		r.Logf("FENCED_TEST_SEED=%d FENCED_TEST_FAULTS=%v go test -run '^%s$' . plans the same faults", r.seed, r.length, r.Name())
	}
}
