package fencedlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Defaults and limits of [Durability].
const (
	DefaultReplicationTimeout = 500 * time.Millisecond
	MaxReplicationTimeout     = 800 * time.Millisecond
)

// Durability says where a new lock has to be kept, besides in the memory of the
// primary, before Acquire returns it. The zero value asks for nothing.
//
// It makes it less likely that a failover or a restart forgets a lock. It does
// not make it impossible: one of several replicas that have the lock need not be
// the one that is promoted, and nothing helps against a server that comes back
// empty. Renewals are not waited for: one that a promoted replica has not seen ends
// the lease there earlier, by no more than Options.RenewEvery, unless the next
// renewal gets through before. What makes a forgotten lock harmless is
// Options.Stores.
type Durability struct {
	// Replicas is how many replicas must have received the lock (WAIT).
	Replicas int
	// AllReplicas asks for every replica that is connected, and at least for
	// Replicas or one. It costs a round trip more.
	AllReplicas bool
	// Local asks that the lock is in the append-only file of the primary, synced
	// to its disk (WAITAOF, from Redis 7.2 on). Replicas then have to have synced
	// it, too. A server that cannot do so is an [ErrConfig].
	Local bool
	// Timeout is how long to wait for that, from 1 ms to MaxReplicationTimeout.
	// The default is DefaultReplicationTimeout.
	Timeout time.Duration
}

// ErrNotReplicated says that a new lock was not kept in enough places in time,
// and was given back. Facts: *NotReplicatedError.
var ErrNotReplicated = errors.New("fencedlock: not replicated")

// NotReplicatedError is an [ErrNotReplicated].
type NotReplicatedError struct {
	// Resource is what was asked for.
	Resource string
	// Want and Got are how many replicas had to have the lock, and had it.
	Want, Got int
	// WantLocal and GotLocal say the same of the primary's disk.
	WantLocal, GotLocal bool
}

func (e *NotReplicatedError) Error() string {
	s := fmt.Sprintf("fencedlock: acquire %q: the lock reached %d of %d replicas", e.Resource, e.Got, e.Want)
	if e.WantLocal && !e.GotLocal {
		s += " and not the disk of the primary"
	}
	return s
}

// Is makes errors.Is(e, ErrNotReplicated) true.
func (e *NotReplicatedError) Is(target error) bool { return target == ErrNotReplicated }

// kept is where a lock is.
type kept struct {
	want, replicas int
	local          bool
}

func (d *Durability) wanted() bool { return d != nil && (d.Replicas > 0 || d.AllReplicas || d.Local) }

func (d *Durability) complete(rdb redis.UniversalClient) error {
	if d.Timeout == 0 {
		d.Timeout = DefaultReplicationTimeout
	}
	switch {
	case d.Replicas < 0:
		return &ArgumentError{Name: "Options.Durability.Replicas", Reason: "must not be negative"}
	case d.Timeout < time.Millisecond || d.Timeout > MaxReplicationTimeout:
		return &ArgumentError{Name: "Options.Durability.Timeout", Reason: fmt.Sprintf("is %v, it must be from 1ms to %v", d.Timeout, MaxReplicationTimeout)}
	case !d.wanted():
		return nil
	}
	switch rdb.(type) {
	case *redis.Client, *redis.ClusterClient:
		return nil
	}
	return &ArgumentError{Name: "Options.Durability", Reason: fmt.Sprintf("needs a *redis.Client or a *redis.ClusterClient, not a %T", rdb)}
}

// shortfall is what the answer to c lacks, nil when it lacks nothing.
func (d *Durability) shortfall(resource string, k kept) error {
	if !d.wanted() || k.replicas >= k.want && (k.local || !d.Local) {
		return nil
	}
	return &NotReplicatedError{Resource: resource, Want: k.want, Got: k.replicas, WantLocal: d.Local, GotLocal: k.local}
}

// command waits for the writes of the connection that it is sent on.
func (d *Durability) command(want int) []any {
	ms := d.Timeout.Milliseconds()
	if d.Local {
		return []any{"waitaof", 1, want, ms}
	}
	return []any{"wait", want, ms}
}

// doDurably asks c and waits for the replicas on the same connection: on
// another one WAIT would have nothing to wait for, and say so of success.
func (b *redisBackend) doDurably(ctx context.Context, c *call) {
	ctx, cancel := firing(ctx)
	defer cancel()
	aside := *c // c may be asked again while this one is still under way
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.doOnNode(ctx, &aside)
	}()
	select {
	case <-done:
		c.answer, c.err, c.wrote = aside.answer, aside.err, aside.wrote
	case <-ctx.Done():
		c.answer, c.err, c.wrote = answer{}, &faultError{err: ctx.Err(), ran: true}, false
	}
}

func (b *redisBackend) doOnNode(ctx context.Context, c *call) {
	node, err := b.nodeOf(ctx, c.keys.lock)
	if err != nil {
		b.settle(c, "", err)
		return
	}
	want, err := c.durable.want(ctx, node)
	if err != nil {
		b.settle(c, "", err)
		return
	}
	reply, wait := b.runOnNode(ctx, node, c, want, false)
	if noScript(reply.Err()) {
		reply, wait = b.runOnNode(ctx, node, c, want, true)
	}
	b.settle(c, reply.Val(), reply.Err())
	b.followMove(ctx, reply.Err())
	if c.err != nil || c.answer.verdict != granted {
		return
	}
	c.answer.kept, err = c.durable.read(wait, want)
	if err != nil {
		c.wrote, c.err = true, b.explainWait(err)
	}
}

// nodeOf is the server that has the key, the primary of it.
func (b *redisBackend) nodeOf(ctx context.Context, key string) (redis.UniversalClient, error) {
	switch c := b.rdb.(type) {
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	case *redis.Ring:
		return c.GetShardClientForKey(key)
	}
	return b.rdb, nil
}

func (b *redisBackend) runOnNode(ctx context.Context, node redis.UniversalClient, c *call, want int, source bool) (*redis.StringCmd, *redis.Cmd) {
	p := node.Pipeline() // goes out on one connection
	reply := redis.NewStringCmd(ctx, c.command(source)...)
	_ = p.Process(ctx, reply)
	wait := redis.NewCmd(ctx, c.durable.command(want)...)
	_ = p.Process(ctx, wait)
	_, _ = p.Exec(ctx)
	return reply, wait
}

// followMove has a Cluster's client look anew which node has which key: the
// client of one node does not tell it.
func (b *redisBackend) followMove(ctx context.Context, err error) {
	if c, ok := b.rdb.(*redis.ClusterClient); ok && err != nil && strings.HasPrefix(err.Error(), "MOVED ") {
		c.ReloadState(ctx)
	}
}

// want is how many replicas are to have a lock.
func (d *Durability) want(ctx context.Context, node redis.UniversalClient) (int, error) {
	if !d.AllReplicas {
		return d.Replicas, nil
	}
	info, err := node.Info(ctx, "replication").Result()
	if err != nil {
		return 0, err
	}
	n, _ := strconv.Atoi(infoField(info, "connected_slaves"))
	return max(n, d.Replicas, 1), nil
}

// read decodes the reply to WAIT or WAITAOF.
func (d *Durability) read(cmd *redis.Cmd, want int) (kept, error) {
	reply, err := cmd.Result()
	if err != nil {
		return kept{}, err
	}
	if n, ok := reply.(int64); ok && !d.Local {
		return kept{want: want, replicas: int(n)}, nil
	}
	if list, ok := reply.([]any); ok && d.Local && len(list) == 2 {
		local, ok1 := list[0].(int64)
		n, ok2 := list[1].(int64)
		if ok1 && ok2 {
			return kept{want: want, replicas: int(n), local: local > 0}, nil
		}
	}
	return kept{}, &ReplyError{Reply: describe(fmt.Sprint(reply))}
}

const needWait = "Options.Durability needs the command wait, for Local waitaof (Redis 7.2) with appendonly on, and for AllReplicas info"

func (b *redisBackend) explainWait(err error) error {
	if reply, ok := errors.AsType[*ReplyError](err); ok {
		return reply
	}
	err = b.explain(err)
	if config, ok := errors.AsType[*ConfigError](err); ok {
		config.Need = needWait
	}
	if fault := asFault(err); fault != nil {
		fault.ran = true
	}
	return err
}

// infoField is one value of the reply to INFO, empty when it is not there.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
