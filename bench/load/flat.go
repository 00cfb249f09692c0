package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
)

// gauge is something that must not grow.
type gauge struct {
	name string
	// slack is by how much it may grow beyond a quarter, in units of its own.
	slack float64
	read  func(ctx context.Context) (float64, error)
}

const mega = 1 << 20

// gauges are those of this process and of Redis.
func gauges(rdb *redis.Client) []gauge {
	return []gauge{
		{"goroutines", 8, runtimeMetric("/sched/goroutines:goroutines", 1)},
		{"live heap, MB", 4, runtimeMetric("/gc/heap/live:bytes", mega)},
		{"keys in Redis", 8, func(ctx context.Context) (float64, error) {
			n, err := rdb.DBSize(ctx).Result()
			return float64(n), err
		}},
		{"memory of Redis, MB", 2, func(ctx context.Context) (float64, error) {
			info, err := rdb.Info(ctx, "memory").Result()
			if err != nil {
				return 0, err
			}
			_, rest, _ := strings.Cut(info, "used_memory:")
			text, _, _ := strings.Cut(rest, "\r\n")
			n, err := strconv.ParseFloat(text, 64)
			return n / mega, err
		}},
	}
}

func runtimeMetric(name string, unit float64) func(context.Context) (float64, error) {
	return func(context.Context) (float64, error) {
		s := []metrics.Sample{{Name: name}}
		metrics.Read(s)
		if s[0].Value.Kind() != metrics.KindUint64 {
			return 0, fmt.Errorf("the runtime has no metric %s", name)
		}
		return float64(s[0].Value.Uint64()) / unit, nil
	}
}

// samples are how often every gauge is read.
const samples = 24

// watch reads all gauges, evenly over d, and returns a series for each.
func watch(ctx context.Context, list []gauge, d time.Duration) ([][]float64, error) {
	runtime.GC() // before the first one nothing is known to live
	series := make([][]float64, len(list))
	tick := time.NewTicker(d / samples)
	defer tick.Stop()
	for range samples {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		for i, g := range list {
			value, err := g.read(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", g.name, err)
			}
			series[i] = append(series[i], value)
		}
	}
	return series, nil
}

// growth is the median of the first third of a series, and of the last one.
func growth(series []float64) (early, late float64) {
	third := len(series) / 3
	return median(series[:third]), median(series[len(series)-third:])
}

func median(list []float64) float64 {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2]
}

// flat says whether late is not above early by more than a quarter and the slack.
func (g gauge) flat(early, late float64) bool { return late <= 1.25*early+g.slack }

// writeGrowth writes the table and returns the names of what grew.
func writeGrowth(w io.Writer, list []gauge, series [][]float64) (grown []string, err error) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(t, "early\tlate\tlate ÷ early\t \n")
	for i, g := range list {
		early, late := growth(series[i])
		_, _ = fmt.Fprintf(t, "%.1f\t%.1f\t%.2f\t %s\n", early, late, late/early, g.name)
		if !g.flat(early, late) {
			grown = append(grown, g.name)
		}
	}
	return grown, t.Flush()
}
