package fencedlock

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"

	"github.com/redis/go-redis/v9"
)

// redisBackend asks one Redis: a server, or whatever the client makes of
// several.
type redisBackend struct {
	rdb redis.UniversalClient
	// own says that commands end in a client of ours over the caller's
	// connections: it honours deadlines while a command is in flight and does not
	// retry by itself, so that an error of dialling means that nothing was sent.
	own bool
	// well says that Redis answered the last command. Then connections are at
	// hand, whose sockets keep the deadline; else one may have to be dialled,
	// which only a firing context can end, and that costs more.
	well atomic.Bool

	combiner combiner
	byNode   sync.Map // of *combiner by the address of a node, in a Cluster

	// unsharded says that channels cannot be kept by key.
	unsharded atomic.Bool
}

// newRedisBackend takes the caller's client. A *redis.Client by default ignores
// the deadline of a context once a command is sent, which would let a lock
// depend on a socket; so commands end in a copy with that option on, which
// shares its pool. A copy has no hooks: commands go through those of the
// caller's client, the last of which passes them on.
func newRedisBackend(rdb redis.UniversalClient) *redisBackend {
	c, ok := rdb.(*redis.Client)
	if !ok {
		return &redisBackend{rdb: rdb}
	}
	passOnCommands(c)
	return &redisBackend{rdb: c, own: true}
}

func (b *redisBackend) do(ctx context.Context, c *call) {
	if c.op == opAcquire && c.durable.wanted() {
		b.doDurably(ctx, c)
		return
	}
	well := b.well.Load()
	if !b.own || !well {
		var cancel context.CancelFunc
		ctx, cancel = firing(ctx)
		defer cancel()
	}
	var reply string
	var err error
	if m := b.combinerOf(ctx, c); m != nil && well {
		reply, err = b.runShared(ctx, m, c)
	} else {
		reply, err = b.run(ctx, c, false)
	}
	if noScript(err) {
		reply, err = b.run(ctx, c, true)
	}
	b.settle(c, reply, err)
}

func (b *redisBackend) run(ctx context.Context, c *call, source bool) (string, error) {
	if !b.own {
		return runAside(ctx, b.rdb, c, source)
	}
	cmd := redis.NewStringCmd(ctx, c.command(source)...)
	_ = b.rdb.Process(ctx, cmd)
	return cmd.Result()
}

// runAside runs a command so that the end of ctx can leave it behind, for
// clients that cannot be made to honour a deadline.
func runAside(ctx context.Context, rdb redis.UniversalClient, c *call, source bool) (string, error) {
	aside := *c // c may be asked again while this one is still under way
	cmd := redis.NewStringCmd(ctx, aside.command(source)...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = rdb.Process(ctx, cmd)
	}()
	select {
	case <-done:
		return cmd.Result()
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (b *redisBackend) batch(ctx context.Context, cs []*call) {
	ctx = ours{ctx}
	missing := b.pipeline(ctx, cs, false) //nolint:contextcheck // callContext is derived from ctx
	if len(missing) > 0 {
		b.pipeline(ctx, missing, true) //nolint:contextcheck // callContext is derived from ctx
	}
}

// pipeline runs cs in one round trip and returns those whose script the server
// does not know.
func (b *redisBackend) pipeline(ctx context.Context, cs []*call, source bool) (missing []*call) {
	p := b.rdb.Pipeline()
	cmds := make([]*redis.StringCmd, len(cs))
	for i, c := range cs {
		cmds[i] = redis.NewStringCmd(ctx, c.command(source)...)
		_ = p.Process(ctx, cmds[i])
	}
	_, _ = p.Exec(ctx)
	for i, c := range cs {
		reply, err := cmds[i].Result()
		if noScript(err) && !source {
			missing = append(missing, c)
			continue
		}
		b.settle(c, reply, err)
	}
	return missing
}

// settle turns a reply or an error of go-redis into the answer to c.
func (b *redisBackend) settle(c *call, reply string, err error) {
	c.answer, c.err, c.wrote = answer{}, nil, false
	if err == nil {
		c.decode(reply)
	} else {
		c.err = b.explain(err)
	}
	if well := asFault(c.err) == nil; well != b.well.Load() {
		b.well.Store(well)
	}
}

// faultError is an error after which asking again may help.
type faultError struct {
	err error
	// ran says that the command may have been executed.
	ran bool
}

// asFault returns err as a fault, nil when it is none.
func asFault(err error) *faultError {
	if err == nil {
		return nil
	}
	var fault *faultError
	errors.As(err, &fault)
	return fault
}

func (e *faultError) Error() string { return e.err.Error() }
func (e *faultError) Unwrap() error { return e.err }

// explain sorts the errors of go-redis: *ConfigError and *ReplyError are
// final, a *faultError may pass.
func (b *redisBackend) explain(err error) error {
	var reply redis.Error
	switch {
	case errors.Is(err, redis.Nil):
		return &ReplyError{Reply: "nil"}
	case errors.As(err, &reply):
		return explainServer(err)
	case asFault(err) != nil:
		return err
	case strings.HasPrefix(err.Error(), "redis: can't parse"):
		return &ReplyError{Reply: "not a string"}
	}
	return &faultError{err: err, ran: !b.own || !unsent(err)}
}

// unsent reports that err came up before the command was sent: a connection
// was waited for, or dialled. The end of a context never interrupts a command
// that was sent; that takes a deadline on the socket, which is another error.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrClosed)
}

// passingCodes are the error codes that a server answers for a while; none of them
// executes the script.
var passingCodes = []string{
	"LOADING", "READONLY", "MOVED", "ASK", "CLUSTERDOWN", "MISCONF", "OOM", "BUSY",
	"MASTERDOWN", "TRYAGAIN", "NOREPLICAS", "max number of clients reached",
}

const needRights = "the Redis user needs the commands evalsha, eval, get, set, incr, incrby, del, pttl, pexpire, " +
	"llen, lpop, lpos, lrem, rpush, publish, subscribe and ping on the keys and channels <prefix>*"

var needs = []struct{ code, need string }{
	{"NOPERM", needRights},
	{"user executing the script", needRights},
	{"NOAUTH", "the Redis client needs a password"},
	{"WRONGPASS", "the Redis client needs the right user name and password"},
	{"WRONGTYPE", "a key of the lock must hold a string, it holds another type"},
	{"unknown command", "Redis needs the commands evalsha and eval"},
	{"CROSSSLOT", "the keys of one resource must be in one Cluster slot"},
}

// explainServer looks for codes anywhere in the text: errors from within a
// script carry them at the end in servers before 7, and some services put ERR
// in front.
func explainServer(err error) error {
	words := strings.FieldsFunc(err.Error(), func(r rune) bool { return !unicode.IsLetter(r) })
	for _, n := range needs {
		if has(words, n.code) {
			return &ConfigError{Need: n.need, Err: err}
		}
	}
	for _, code := range passingCodes {
		if has(words, code) {
			return &faultError{err: err}
		}
	}
	return &ConfigError{Need: "Redis must run the scripts, it refuses", Err: err}
}

// has reports that code, one word or several, is among words.
func has(words []string, code string) bool {
	return strings.Contains(" "+strings.Join(words, " ")+" ", " "+code+" ")
}

func noScript(err error) bool {
	return err != nil && strings.Contains(err.Error(), "NOSCRIPT")
}
