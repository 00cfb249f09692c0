package fencedlock

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxClockOff is how far this host's clock may be off the server's.
	maxClockOff = time.Second
	// oldest is the oldest Redis that the scripts are made for.
	oldest = "6.2"
)

// probe is what is known about one server.
type probe struct {
	node   string
	info   map[string]string // nil when INFO is denied
	config map[string]string // what CONFIG GET told
	slots  string            // the reply to CLUSTER INFO, of a Cluster
	off    time.Duration     // the server's clock less ours
	clock  error
}

var settings = []string{"maxmemory", "maxmemory-policy", "save", "appendonly", "appendfsync", "min-replicas-to-write"}

// probe reads what the user may read.
func (l *Locker) probe(ctx context.Context, node redis.UniversalClient) *probe {
	ctx, cancel := context.WithTimeout(ours{ctx}, closeTimeout)
	defer cancel()
	p := &probe{config: map[string]string{}}
	if c, ok := node.(*redis.Client); ok {
		p.node = c.Options().Addr
	}
	if text, err := node.Info(ctx).Result(); err == nil { //nolint:contextcheck // it is derived from ctx
		p.info = map[string]string{}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			p.info[name] = value
		}
	}
	for _, name := range settings {
		if c, err := node.ConfigGet(ctx, name).Result(); err == nil { //nolint:contextcheck // it is derived from ctx
			maps.Copy(p.config, c)
		}
	}
	if p.info["redis_mode"] == "cluster" || p.info["cluster_enabled"] == "1" {
		p.slots, _ = node.ClusterInfo(ctx).Result() //nolint:contextcheck // callContext is derived from ctx
	}
	sent := l.now()
	server, err := node.Time(ctx).Result() //nolint:contextcheck // callContext is derived from ctx
	came := l.now()
	middle := sent.wall + (came.wall-sent.wall)/2
	p.off, p.clock = time.Duration(server.UnixNano())-middle, err
	return p
}

// into judges.
func (p *probe) into(r *Report) {
	p.server(r)
	p.eviction(r)
	p.persistence(r)
	p.replicas(r)
	p.cluster(r)
	p.time(r)
}

func (p *probe) server(r *Report) {
	if p.info == nil {
		r.add(Unknown, "version", p.node, "INFO is denied", "grant info, or check version and role by hand")
		return
	}
	version := p.info["redis_version"]
	switch {
	case version == "":
		r.add(Unknown, "version", p.node, "the server does not tell its version", "")
	case older(version, oldest):
		r.add(Critical, "version", p.node, "Redis "+version+" is too old", "use "+oldest+" or newer")
	}
	for name, field := range map[string]string{"Dragonfly": "dragonfly_version", "KeyDB": "keydb_version", "Kvrocks": "kvrocks_version"} {
		if v := p.info[field]; v != "" {
			r.add(Notice, "version", p.node, "this is "+name+" "+v+", which the project is not tested with", "")
		}
	}
	if p.info["role"] == "slave" {
		r.add(Critical, "role", p.node, "this is a replica, which refuses locks", "connect to the primary, or to sentinels")
	}
}

// setting is a value that CONFIG or, for some, INFO knows.
func (p *probe) setting(config, info string) (string, bool) {
	if v, ok := p.config[config]; ok {
		return v, true
	}
	v, ok := p.info[info]
	return v, ok
}

func (p *probe) eviction(r *Report) {
	policy, ok1 := p.setting("maxmemory-policy", "maxmemory_policy")
	limit, ok2 := p.setting("maxmemory", "maxmemory")
	switch {
	case !ok1 || !ok2:
		r.add(Unknown, "eviction", p.node, "CONFIG and INFO are denied", "make sure that maxmemory-policy is noeviction")
	case policy == "noeviction":
	case limit == "0":
		r.add(Notice, "eviction", p.node, "maxmemory-policy is "+policy+", without effect as there is no maxmemory", "set it to noeviction")
	default:
		r.add(Critical, "eviction", p.node, "maxmemory-policy is "+policy+", which evicts locks and counters", "set it to noeviction, or give locks a server of their own")
	}
}

func (p *probe) persistence(r *Report) {
	aof, ok := p.setting("appendonly", "aof_enabled")
	save, known := p.config["save"]
	const advice = "set appendonly yes, or be sure that every store claims"
	switch {
	case !ok:
		r.add(Unknown, "persistence", p.node, "CONFIG and INFO are denied", advice)
	case aof == "yes" || aof == "1":
		if p.config["appendfsync"] == "no" {
			r.add(Notice, "persistence", p.node, "appendfsync is no: a power failure forgets the last half minute", "set it to everysec")
		}
	case !known:
		r.add(Unknown, "persistence", p.node, "appendonly is off, and CONFIG is denied", advice)
	case save == "":
		r.add(Warning, "persistence", p.node, "persistence is off: a restart forgets all locks", advice)
	default:
		r.add(Warning, "persistence", p.node, "there are snapshots only: a restart forgets the locks since the last", advice)
	}
}

func (p *probe) replicas(r *Report) {
	n, err := strconv.Atoi(p.info["connected_slaves"])
	least, ok := p.config["min-replicas-to-write"]
	switch {
	case err != nil && !ok:
		r.add(Unknown, "replicas", p.node, "CONFIG and INFO are denied", "with replicas, set min-replicas-to-write")
	case n == 0:
	case !ok:
		r.add(Unknown, "replicas", p.node, fmt.Sprintf("there are %d replicas, and CONFIG is denied", n), "set min-replicas-to-write to 1 or more")
	case least == "0":
		r.add(Warning, "replicas", p.node, fmt.Sprintf("there are %d replicas and min-replicas-to-write is 0: a primary that was cut off goes on granting locks", n),
			"set it to 1 or more, with min-replicas-max-lag below the TTL")
	}
}

func (p *probe) cluster(r *Report) {
	if p.info["cluster_enabled"] != "1" {
		return
	}
	state, assigned := infoField(p.slots, "cluster_state"), infoField(p.slots, "cluster_slots_ok")
	switch {
	case p.slots == "":
		r.add(Unknown, "cluster", p.node, "CLUSTER INFO is denied", "make sure that every slot is served")
	case state != "ok" || assigned != "16384":
		r.add(Critical, "cluster", p.node, fmt.Sprintf("the state is %s, %s of 16384 slots are served", state, assigned), "bring back the nodes that have the others")
	}
}

func (p *probe) time(r *Report) {
	switch {
	case p.clock != nil:
		r.add(Unknown, "clock", p.node, "TIME is denied", "keep all clocks right, by NTP")
	case p.off.Abs() > maxClockOff:
		r.add(Warning, "clock", p.node, fmt.Sprintf("the clock of this host is off the server's by %v", p.off.Round(time.Millisecond)),
			"set it right: a fence is proposed from it when Redis has lost its counter")
	}
}

// older compares dotted versions by their first two numbers.
func older(version, than string) bool {
	a, b := strings.Split(version, "."), strings.Split(than, ".")
	for i := range b {
		if i >= len(a) {
			return true
		}
		x, err := strconv.Atoi(a[i])
		y, _ := strconv.Atoi(b[i])
		if err != nil || x != y {
			return err == nil && x < y
		}
	}
	return false
}
