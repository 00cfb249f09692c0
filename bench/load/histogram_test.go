package main

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestQuantilesAreWithinABucket(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var h, half histogram
	var all []time.Duration
	for i := range 20000 {
		d := time.Duration(1) << (10 + r.IntN(25))
		d += time.Duration(r.Int64N(int64(d)))
		all = append(all, d)
		if i%2 == 0 {
			h.add(d)
		} else {
			half.add(d)
		}
	}
	h.merge(&half)
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999} {
		want, got := all[int(q*float64(len(all)))], h.quantile(q)
		if got < want || float64(got) > float64(want)*1.04+float64(time.Microsecond) {
			t.Errorf("q %v: got %v, want %v or 4 %% more", q, got, want)
		}
	}
	if got, want := h.quantile(1), all[len(all)-1]; got != want {
		t.Errorf("got %v at most, want %v", got, want)
	}
}

func TestBucketsMeet(t *testing.T) {
	t.Parallel()
	for i := range fine + perStep*steps - 1 {
		if got := bucket(edge(i)); got != i+1 {
			t.Fatalf("%v, where bucket %d ends, is in bucket %d", edge(i), i, got)
		}
		if got := bucket(edge(i) - time.Microsecond); got != i {
			t.Fatalf("%v, the last of bucket %d, is in bucket %d", edge(i)-time.Microsecond, i, got)
		}
	}
	for _, d := range []time.Duration{-time.Second, 0, 100 * time.Hour, 1<<63 - 1} {
		if i := bucket(d); i < 0 || i >= len(histogram{}.counts) {
			t.Errorf("%v has bucket %d", d, i)
		}
	}
}

func TestGrowthIsFound(t *testing.T) {
	t.Parallel()
	series := func(at func(i int) float64) (list []float64) {
		for i := range samples {
			list = append(list, at(i))
		}
		return list
	}
	g := gauge{name: "g", slack: 8}
	for _, c := range []struct {
		name string
		list []float64
		flat bool
	}{
		{"steady", series(func(int) float64 { return 100 }), true},
		{"saw", series(func(i int) float64 { return 100 + float64(i%4)*10 }), true},
		{"one peak at the end", series(func(i int) float64 { return 100 + float64(i/(samples-1))*1000 }), true},
		{"leak", series(func(i int) float64 { return 100 + float64(i)*5 }), false},
		{"doubled", series(func(i int) float64 { return 100 * float64(1+i/(samples/2)) }), false},
	} {
		if got := g.flat(growth(c.list)); got != c.flat {
			t.Errorf("%s: flat is %v, want %v", c.name, got, c.flat)
		}
	}
}

func TestGaugesOfTheRuntimeCanBeRead(t *testing.T) {
	t.Parallel()
	runtime.GC() // before the first one nothing is known to live
	for name, unit := range map[string]float64{"/sched/goroutines:goroutines": 1, "/gc/heap/live:bytes": 1} {
		if n, err := runtimeMetric(name, unit)(context.Background()); err != nil || n <= 0 {
			t.Errorf("%s: got %v, %v", name, n, err)
		}
	}
	if _, err := runtimeMetric("/no/such:metric", 1)(context.Background()); err == nil {
		t.Error("an unknown metric is no error")
	}
}
