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
}

type op uint8

const (
	opAcquire op = iota + 1
	opRenew
	opRelease
)

func (o op) String() string { return [...]string{"", "acquire", "renew", "release"}[o] }

// call is one question and, afterwards, its answer. Asking the same question
// again is harmless: every script survives its own replay.
type call struct {
	op     op
	keys   keys
	holder string
	label  string
	value  string // renew: the whole value of the lock, of which fence is part
	fence  int64
	ttl    int64 // in milliseconds

	proposal int64 // acquire: the fence to issue unless the counter is ahead
	least    int64 // acquire: the smallest fence the stores accept; 0 for any

	answer answer
	err    error
	args   [10]any // room for the command, so that asking allocates little
}

type answer struct {
	verdict verdict
	fence   int64
	ttl     time.Duration // held: until the lock ends; negative without end
	label   string        // held: the holder's
}

type verdict uint8

const (
	granted verdict = iota + 1
	held
	renewed
	released
	absent
	taken
)
