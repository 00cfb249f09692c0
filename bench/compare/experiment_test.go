package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

func TestNothingIsLostUnderFenced(t *testing.T) {
	t.Parallel()
	for _, c := range contenders() {
		if !c.ours {
			continue
		}
		r := tryOut(t, c, rand.Uint64())
		if r.harm() {
			t.Errorf("%d lost, %d stale, %d duplicates; want none", r.Lost, r.Stale, r.Duplicates)
		}
		if want := short(0).Pauses; r.Pauses != want {
			t.Errorf("got %d pauses, want %d", r.Pauses, want)
		}
		if r.Refused == 0 {
			t.Errorf("the store refused nothing in %d pauses after the check", r.Late)
		}
	}
}

// TestUpdatesAreLostUnderNaiveLocks shows that the experiment would see a loss.
func TestUpdatesAreLostUnderNaiveLocks(t *testing.T) {
	t.Parallel()
	for _, c := range contenders() {
		if !c.naive {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const tries = 5 // chance may spare one run of twelve pauses
			for range tries {
				if r := tryOut(t, c, rand.Uint64()); r.Lost > 0 && r.Stale > 0 {
					return
				}
			}
			t.Errorf("nothing was lost in %d runs", tries)
		})
	}
}

func TestGuardIsWhatProtects(t *testing.T) {
	t.Parallel()
	unguarded, ok := find("fenced, without the guard")
	if !ok {
		t.Fatal("the row without the guard is missing")
	}
	for range 5 {
		if r := tryOut(t, unguarded, rand.Uint64()); r.harm() {
			return
		}
	}
	t.Error("without the guard nothing went wrong either")
}

func TestWorkerThatFailsEndsTheExperiment(t *testing.T) {
	t.Parallel()
	x := &experiment{world: world{Contender: "nobody's"}, said: map[string]int{}, pauses: pauses{
		rand: rand.New(rand.NewPCG(1, 0)), wanted: 1, deadline: time.Now().Add(time.Minute),
	}}
	err := x.run(t.Context(), time.Minute)
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want what the worker complained about", err)
	}
}

func TestPausesAreRepeatableAndEnough(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) (lengths []time.Duration, late int) {
		p := pauses{rand: rand.New(rand.NewPCG(seed, 0)), wanted: 200, deadline: time.Now().Add(time.Hour)}
		for i := 0; !p.over(); i++ {
			if d := p.next([]string{sayWorking, sayWriting}[i%2]); d > 0 {
				lengths = append(lengths, d)
			}
		}
		if p.next(sayWriting) != 0 {
			t.Error("it goes on when there were enough")
		}
		return lengths, p.late
	}
	first, late := draw(7)
	again, _ := draw(7)
	if len(first) != 200 || late < 80 || late > 160 {
		t.Errorf("got %d pauses, %d after the check; want 200, and more than half of them", len(first), late)
	}
	for i, d := range first {
		if d != again[i] {
			t.Fatalf("pause %d lasts %v and %v with the same seed", i, d, again[i])
		}
		if d <= ttl {
			t.Errorf("pause %d lasts %v, within the TTL of %v", i, d, ttl)
		}
	}
}
