package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/fenced-go/fenced/bench/internal/rounds"
)

// sizes are processes × waiters in each, who all want one name.
var sizes = []struct{ processes, waiters int }{{1, 8}, {8, 8}, {64, 1}}

// contest has processes contend for one name.
func contest(ctx context.Context, p *rounds.Program, addr string) error {
	for _, s := range sizes {
		size := fmt.Sprintf("%dx%d", s.processes, s.waiters)
		found := map[string][]outcome{}
		for round := range rounds.Pick(p, 5, 1) {
			for _, i := range p.Perm(len(contenders)) {
				lock := contenders[i].name
				if p.Quick && lock != "fenced" && lock != "bare" {
					continue
				}
				m := match{addr: addr, lock: lock, name: fmt.Sprintf("%s:%s:%d", lock, size, round), waiters: s.waiters}
				o, err := m.play(ctx, s.processes, rounds.Pick(p, 2*time.Second, time.Second))
				if err != nil {
					return fmt.Errorf("%s, %s: %w", size, lock, err)
				}
				found[lock] = append(found[lock], o)
			}
		}
		if err := writeContest(p, size, found); err != nil {
			return err
		}
		ours := found["fenced"]
		p.Report.AtMost("drain_vs_ideal_"+size, over(ours, drainRatio), 1.2)
		switch size {
		case "8x8":
			p.Report.AtMost("commands_per_acquisition_8x8", over(ours, commands), 0.5)
		case "64x1":
			p.Report.AtMost("commands_per_acquisition_64x1", over(ours, commands), 2.5)
			p.Report.AtMost("handoff_vs_round_trip_64x1", over(ours, handOffRatio), 3)
			p.Report.AtLeast("jain_64x1", over(ours, jain), 0.99)
		}
	}
	return nil
}

// match is one lock and one crowd.
type match struct {
	addr, lock, name string
	waiters          int
}

// outcome is what became of it.
type outcome struct {
	handOff  []time.Duration // sorted; from the call of release to the next holder
	rtt      time.Duration   // of a PING
	length   time.Duration
	tenures  int
	commands int64
	counts   []float64 // by waiter
	longest  time.Duration
	drain    time.Duration // from the first release to the end of the last tenure
	ideal    time.Duration // the tenures alone
}

func (m match) play(ctx context.Context, processes int, length time.Duration) (o outcome, err error) {
	c, err := muster(ctx, processes)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, c.dismiss()) }()
	if o.rtt, err = m.roundTrip(c); err != nil {
		return o, err
	}
	if err := m.loop(c, length, &o); err != nil {
		return o, err
	}
	return o, m.drain(ctx, c, &o)
}

func (m match) order(op string) order {
	return order{Op: op, Lock: m.lock, Addr: m.addr, Name: m.name + ":" + op, Waiters: m.waiters}
}

// roundTrip is what a PING of one worker takes while the others are at rest.
func (m match) roundTrip(c *crew) (time.Duration, error) {
	r, err := (&crew{c.members[:1]}).obey(m.order("ping"))
	if err != nil {
		return 0, err
	}
	return r[0].RTT, nil
}

// loop has everybody take the name again and again: shortly at first, when
// connections are made and wake-ups begin to be heard, and then in earnest.
func (m match) loop(c *crew, length time.Duration, o *outcome) error {
	rtt := o.rtt
	for _, length := range []time.Duration{length / 4, length} {
		order := m.order("loop")
		order.For = length
		r, err := c.obey(order)
		if err != nil {
			return err
		}
		*o = outcome{rtt: rtt, length: length}
		if err := o.judge(r); err != nil {
			return err
		}
	}
	return nil
}

// settle is for how long a crowd that was told to wait is left alone.
const settle = 300 * time.Millisecond

// drain has everybody wait for one holder, and then take the name once.
func (m match) drain(ctx context.Context, c *crew, o *outcome) error {
	first, err := contend(m.lock, m.addr, &wire{})
	if err != nil {
		return err
	}
	defer first.close()
	order := m.order("drain")
	_, release, err := first.acquire(ctx, order.Name)
	if err != nil {
		return err
	}
	if err := c.tell(order); err != nil {
		return err
	}
	if _, err := c.hear(); err != nil {
		return err
	}
	<-time.After(settle)
	began := time.Now()
	if err := release(ctx); err != nil {
		return err
	}
	r, err := c.hear()
	if err != nil {
		return err
	}
	if err := new(outcome).judge(r); err != nil {
		return err
	}
	var last int64
	for _, w := range r {
		for _, t := range w.Tenures {
			o.ideal += time.Duration(t.To - t.From)
			last = max(last, t.To)
		}
	}
	o.drain = time.Duration(last - began.UnixNano())
	return nil
}

var errTwoInside = errors.New("two were inside at once, or a fence did not rise")

// judge checks what the workers report and adds it up.
func (o *outcome) judge(reports []report) error {
	type stay struct {
		tenure
		who int
	}
	var all []stay
	for i, r := range reports {
		waiters := 0
		for _, t := range r.Tenures {
			all = append(all, stay{t, i<<16 + t.Waiter})
			waiters = max(waiters, t.Waiter+1)
			o.longest = max(o.longest, time.Duration(t.From-t.Asked))
		}
		counts := make([]float64, waiters)
		for _, t := range r.Tenures {
			counts[t.Waiter]++
		}
		o.counts = append(o.counts, counts...)
		o.commands += r.Commands
	}
	o.tenures = len(all)
	slices.SortFunc(all, func(a, b stay) int { return cmp.Compare(a.From, b.From) })
	for i := 1; i < len(all); i++ {
		last, next := all[i-1], all[i]
		if last.To > next.From || next.Fence > 0 && next.Fence <= last.Fence {
			return errTwoInside
		}
		if last.who != next.who && next.Asked < last.To {
			o.handOff = append(o.handOff, time.Duration(next.From-last.To))
		}
	}
	slices.Sort(o.handOff)
	return nil
}

func (o outcome) percentile(p float64) time.Duration {
	if len(o.handOff) == 0 {
		return 0
	}
	return o.handOff[int(p*float64(len(o.handOff)-1))]
}

func handOffRatio(o outcome) float64 { return float64(o.percentile(0.5)) / float64(o.rtt) }
func commands(o outcome) float64     { return float64(o.commands) / float64(o.tenures) }
func drainRatio(o outcome) float64   { return float64(o.drain) / float64(o.ideal) }

// jain is 1 when all waiters had equally many tenures, and 1/n when one had all.
func jain(o outcome) float64 {
	var sum, squares float64
	for _, n := range o.counts {
		sum, squares = sum+n, squares+n*n
	}
	return sum * sum / (float64(len(o.counts)) * squares)
}

// over is the spread of a figure over the rounds.
func over(list []outcome, figure func(outcome) float64) rounds.Spread {
	var v []float64
	for _, o := range list {
		v = append(v, figure(o))
	}
	return rounds.SpreadOf(v)
}

func writeContest(p *rounds.Program, size string, found map[string][]outcome) error {
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	p.Printf("\none name, %s processes x waiters, %v of work: medians of %d rounds\n\n", size, hold, len(found["fenced"]))
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(t, "hand-off p50 µs\tp99 µs\tround trip µs\tper second\tcommands\tJain\tlongest wait ms\tdrain ms\t÷ ideal\t \n")
	for _, c := range contenders {
		list := found[c.name]
		if len(list) == 0 {
			continue
		}
		mid := func(f func(outcome) float64) float64 { return over(list, f).Mid }
		_, _ = fmt.Fprintf(t, "%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.3f\t%.0f\t%.0f\t%.2f\t %s\n",
			mid(func(o outcome) float64 { return us(o.percentile(0.5)) }), mid(func(o outcome) float64 { return us(o.percentile(0.99)) }),
			mid(func(o outcome) float64 { return us(o.rtt) }), mid(func(o outcome) float64 { return float64(o.tenures) / o.length.Seconds() }),
			mid(commands), mid(jain), mid(func(o outcome) float64 { return us(o.longest) / 1e3 }),
			mid(func(o outcome) float64 { return us(o.drain) / 1e3 }), mid(drainRatio), c.name)
	}
	return t.Flush()
}
