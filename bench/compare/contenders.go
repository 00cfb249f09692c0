package main

import (
	"context"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

const (
	// ttl is the lease under every lock.
	ttl = 200 * time.Millisecond
	// retry is how long the locks that poll wait between two tries.
	retry = 5 * time.Millisecond
)

// tenure is one stay inside a lock.
type tenure struct {
	// fence is what the lock has issued, if it does. The fence by hand has
	// nothing but the ID.
	fence fencedstore.Fence
	// held asks the lock whether it is still held, in its own way.
	held func(ctx context.Context) bool
	// release gives it back. That it is not there any more is no error.
	release func(ctx context.Context) error
}

// acquirer waits for the lock of a resource until ctx ends.
type acquirer func(ctx context.Context, resource string) (*tenure, error)

// opened is a lock as one worker has it.
type opened struct {
	acquire acquirer
	close   func() error
}

// contender is a lock, and what its users write to the store.
type contender struct {
	name string
	// how is the remark in the table.
	how  string
	open func(w *world) (opened, error)
	// write commits an entry, or fails with errRefused.
	write func(ctx context.Context, w *world, t *tenure, e entry) error
	// naive marks the locks that are expected to lose updates in every run.
	naive bool
	// ours marks the one under which none may be lost.
	ours bool
}

// contenders are the rows of the table.
func contenders() []contender {
	return []contender{
		{name: "GET, then SET", how: "asks with GET", open: openGetSet, write: writePlain, naive: true},
		{name: "SET NX with a token", how: "asks with GET", open: openSetNX, write: writePlain, naive: true},
		{name: "bsm/redislock", how: "asks with `TTL`", open: openRedislock, write: writePlain},
		{name: "bsm/redislock, fence by hand", how: "`FenceKey`¹, `fence <= $1` in each write", open: openFenceKey, write: writeByHand},
		{name: "redsync", how: "asks with `Until`", open: openRedsync, write: writePlain},
		{name: "rueidislock", how: "renews itself, asks its context", open: openRueidislock, write: writePlain},
		{name: "fenced, without the guard", how: "renews itself, asks with `Err`", open: openUnguarded, write: writePlain},
		{name: "fenced", how: "the same, claims, writes in `InTx`", open: openFenced, write: writeGuarded, ours: true},
	}
}

// find returns a contender by name.
func find(name string) (contender, bool) {
	for _, c := range contenders() {
		if c.name == name {
			return c, true
		}
	}
	return contender{}, false
}
