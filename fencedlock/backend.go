package fencedlock

import (
	"context"
	"time"
)

// backend is the lock service: what a Locker asks and where it is kept. A
// backend is safe for concurrent use and honours the deadline of ctx.
type backend interface {
	// do asks one question.
	do(ctx context.Context, c *call)
	// batch asks several questions in one round trip. Each has its own answer.
	batch(ctx context.Context, cs []*call)
	// listen starts to listen to a channel. It returns when the server has
	// confirmed that, so that nothing is missed from then on.
	listen(ctx context.Context, channel string) (channel, error)
	// wakes is what publishing to a channel tells.
	wakes() hearing
}

// channel is where a Locker is told that it was granted a lock.
type channel interface {
	// receive waits for the next message, and returns an empty one now and then.
	// An error ends the channel.
	receive() (string, error)
	// close ends a receive, and the channel.
	close()
}

// hearing is what it means that nobody listens to a channel.
type hearing uint8

const (
	deaf   hearing = iota // nothing: messages may not arrive at all
	unsure                // nothing: the listener may be at another server
	sure                  // that the listener is gone
)

type op uint8

const (
	opAcquire op = iota + 1
	opRenew
	opRelease
	opForce
	opInspect
	opKeep
	opWhy

	// What a quorum asks one of its nodes.
	opPropose
	opWithdraw
	opMend
)

func (o op) String() string {
	return [...]string{"", "acquire", "renew", "release", "force the release of", "inspect", "release", "renew", "acquire", "release", "renew"}[o]
}

// call is one question and, afterwards, its answer. Asking the same question
// again is harmless: every script survives its own replay.
type call struct {
	op     op
	keys   keys
	holder string
	label  string
	value  string // renew: the whole value of the lock, of which fence is part
	forced string // why, force: the key of the mark of a forced release
	fence  int64
	ttl    int64 // in milliseconds

	proposal int64  // acquire: the fence to issue unless the counter is ahead
	least    int64  // acquire: the smallest fence the stores accept; 0 for any
	waits    bool   // acquire: takes a place in the queue; release: leaves it
	waker    string // of a waiter: see grant.lua
	entry    string // room for command

	ballot *ballot // of a quorum: what its nodes may have of this holder
	seen   int64   // acquire: the newest fence that an answer named
	sent   instant // acquire: when the question was sent that was granted
	newest int64   // propose, withdraw, mend: see the scripts

	durable *Durability // acquire: where the answer has to be kept, too; may be nil
	status  *Status     // inspect: gets the answer

	answer answer
	err    error
	wrote  bool    // although there is an error, the command was executed
	args   [12]any // room for the command, so that asking allocates little
}

type answer struct {
	verdict verdict
	fence   int64
	spare   int           // granted: how many fences after it are reserved
	ttl     time.Duration // held, queued: until the lock ends; negative without end
	label   string        // held, queued: the holder's
	place   int           // queued: how many are ahead
	kept    kept          // granted: by whom, if that was asked for
}

type verdict uint8

const (
	granted verdict = iota + 1
	held
	queued
	renewed
	released
	absent
	taken
	forced
	free
	behind // propose: the counter is not below
)
