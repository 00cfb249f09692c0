package fenced_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/faults"
	"github.com/fenced-go/fenced/internal/testenv"
)

// harmed is a server that a test may harm.
type harmed interface {
	Pause(tb testing.TB)
	Resume(tb testing.TB)
	Kill(tb testing.TB)
	Start(tb testing.TB)
}

// long is a time that outlasts a lease.
const long = 3 * faultTTL

// processFaults are what can happen to a server. It comes back with what it has
// kept.
func processFaults(t *testing.T, lane string, s harmed) []faults.Fault {
	t.Helper()
	return []faults.Fault{
		{
			Name: "pause " + lane, Lane: lane, Longest: long,
			Begin: func() { s.Pause(t) }, End: func() { s.Resume(t) },
		},
		{
			Name: "kill " + lane, Lane: lane, Longest: long,
			Begin: func() { s.Kill(t) }, End: func() { s.Start(t) },
		},
	}
}

// containerFaults are what can happen to the network of a container.
func containerFaults(t *testing.T, lane string, s contained) []faults.Fault {
	t.Helper()
	return []faults.Fault{{
		Name: "disconnect " + lane, Lane: lane, Longest: long,
		Begin: func() { s.Disconnect(t) }, End: func() { s.Connect(t) },
	}}
}

// contained is a server that may be in a container.
type contained interface {
	Disconnect(tb testing.TB)
	Connect(tb testing.TB)
}

// networkFaults are what can happen on the way to a server.
func networkFaults(way string, p *testenv.Proxy) []faults.Fault {
	begin := func(name string, longest time.Duration, begin func()) faults.Fault {
		return faults.Fault{Name: name + " " + way, Lane: way, Longest: longest, Begin: begin, End: p.Heal}
	}
	loseReplies := begin("lose replies on", long/6, p.CutReplies)
	loseReplies.End = func() {
		p.Reset()
		p.Heal()
	}
	return []faults.Fault{
		begin("cut", long, p.Cut),
		begin("cut requests on", long, p.CutRequests),
		begin("cut replies on", long, p.CutReplies),
		begin("refuse", long, p.Refuse),
		begin("delay", long, func() { p.Delay(faultTTL / 20) }),
		begin("delay beyond leases", long, func() { p.Delay(faultTTL) }),
		begin("reset", 0, p.Reset),
		loseReplies,
	}
}

// memoryFaults are what can happen to what a Redis remembers. Its clock may be
// nil.
func memoryFaults(t *testing.T, lane string, r *testenv.Redis, clock *testenv.Clock, resources []string) []faults.Fault {
	t.Helper()
	set := func(name, value string) { r.Do(t, "CONFIG", "SET", name, value) }
	memory := func(policy string) {
		set("maxmemory-policy", policy)
		set("maxmemory", "1")
		_, _ = r.TryDo("SET", "junk", "1") // what evicts is a write
	}
	list := []faults.Fault{
		{Name: "flush " + lane, Lane: lane, Begin: func() { r.Do(t, "FLUSHALL") }},
		{
			Name: "restart with older data " + lane, Lane: lane, Longest: long,
			Begin: func() { r.Do(t, "SAVE") },
			End:   func() { r.Kill(t); r.Start(t) },
		},
		{
			Name: "evict from " + lane, Lane: lane, Longest: long,
			Begin: func() { memory("allkeys-random") }, End: func() { set("maxmemory", "0") },
		},
		{
			Name: "fill " + lane, Lane: lane, Longest: long,
			Begin: func() { memory("noeviction") }, End: func() { set("maxmemory", "0") },
		},
		{
			Name: "forget an hour of " + lane, Lane: lane, Longest: long,
			Begin: func() { anHourAhead(t, r, resources) }, End: func() { r.Do(t, "FLUSHALL") },
		},
	}
	if clock == nil {
		return list
	}
	step := func(name string, by time.Duration) faults.Fault {
		return faults.Fault{
			Name: "step the clock " + name + " at " + lane, Lane: lane, Longest: long,
			Begin: func() { clock.Set(t, by) }, End: func() { clock.Set(t, 0) },
		}
	}
	return append(list, step("ahead", clockStep), step("back", -clockStep))
}

// clockStep bounds for how much longer than its lease a lock can stay after a
// step back.
const clockStep = 3 * time.Second

// anHourAhead raises the counters as a client would whose clock is an hour ahead.
// When they are forgotten, what clocks propose is below what the stores know.
func anHourAhead(t *testing.T, r *testenv.Redis, resources []string) {
	t.Helper()
	ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	for _, name := range resources {
		r.Do(t, "SET", "fenced:{"+name+"}:fence", ahead)
	}
}

// harmTogether harms the servers of a group, one at a time.
func (r *faultRun) harmTogether(lane string, group []*testenv.Redis) {
	r.Helper()
	for i, s := range group {
		for _, f := range slices.Concat(processFaults(r.T, lane, s), networkFaults(lane, s.Proxy)) {
			f.Name += fmt.Sprint(" ", i)
			f.Lane, f.Longest = lane, min(f.Longest*4, electionTime)
			r.harm(f)
		}
	}
}

// electionTime is long enough for the others to elect a new primary.
const electionTime = 4 * time.Second

// slotMoves are moves of the slot of a resource between the first two nodes of a
// cluster, there and back, while the resource is used.
func slotMoves(t *testing.T, nodes []*testenv.Redis, resource string) []faults.Fault {
	t.Helper()
	slot := fmt.Sprint(nodes[0].Do(t, "CLUSTER", "KEYSLOT", "{"+resource+"}"))
	var home int
	for i, n := range nodes {
		if _, err := n.TryDo("GET", "{"+resource+"}"); err == nil {
			home = i
		}
	}
	away := (home + 1) % len(nodes)
	move := func(from, to int) func() {
		return func() { testenv.MoveSlot(t, nodes, slot, from, to, func(string) {}) }
	}
	return []faults.Fault{{
		Name: "move the slot of " + resource, Lane: "redis", Longest: long,
		Begin: move(home, away), End: move(away, home),
	}}
}
