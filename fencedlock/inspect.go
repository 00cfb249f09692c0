package fencedlock

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// Status is what Redis knows about one resource at one instant.
type Status struct {
	// Resource is which.
	Resource string
	// Held says that somebody has it. Otherwise FenceID, Label, Since and TTL
	// are zero.
	Held bool
	// FenceID is the holder's fence, which [Locker.ForceRelease] asks for.
	FenceID int64
	// Label is what the holder calls itself: host/pid unless it was told
	// otherwise.
	Label string
	// Since is when the tenure began, by the clock of its holder: see
	// [fencedstore.Fence.Time].
	Since time.Time
	// TTL is when the lock ends unless its holder renews it; negative without
	// an end.
	TTL time.Duration
	// Queued is how many wait in the queue. Those that poll are not in it.
	Queued int
	// Newest is the newest fence ID issued or reserved; 0 when Redis has
	// forgotten it.
	Newest int64
	// Nodes are what the nodes of a quorum say, in the order that they were given
	// to NewQuorum; nil for one Redis. Held and what follows it are then those of a
	// tenure that a majority names.
	Nodes []NodeStatus
}

// String is one line for a person.
func (s Status) String() string {
	if !s.Held {
		return fmt.Sprintf("%q is free, %d queued", s.Resource, s.Queued)
	}
	by := ""
	if s.Label != "" {
		by = " (" + s.Label + ")"
	}
	return fmt.Sprintf("%q is held by fence %d%s since %s, %v left, %d queued",
		s.Resource, s.FenceID, by, s.Since.UTC().Format(time.RFC3339), s.TTL, s.Queued)
}

// Inspect tells who holds resource and how many wait. It changes nothing. Its
// errors are those of [Locker.Acquire] without ErrHeld.
func (l *Locker) Inspect(ctx context.Context, resource string) (Status, error) {
	k, err := l.prepare(ctx, resource, nil)
	if err != nil {
		return Status{}, err
	}
	s := Status{Resource: resource}
	c := call{op: opInspect, keys: k.ask.keys, status: &s}
	err = l.question(ctx, &c, resource)
	if err != nil {
		return Status{}, err
	}
	return s, nil
}

// lister is a backend whose locks can be listed.
type lister interface {
	// scan calls yield with batches of keys that match, some of them twice, until
	// it returns false.
	scan(ctx context.Context, match string, yield func(keys []string) bool) error
}

// List yields the status of every resource that is held and whose name begins
// with start, which may be empty, in no order. It walks through all keys of
// Redis with SCAN, on every primary of a Cluster, and blocks nobody. What
// changes meanwhile may be missed; nothing is yielded twice. An error is the
// last that is yielded.
func (l *Locker) List(ctx context.Context, start string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		if err := l.list(ctx, start, func(s Status) bool { return yield(s, nil) }); err != nil {
			yield(Status{}, err)
		}
	}
}

func (l *Locker) list(ctx context.Context, start string, yield func(Status) bool) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	if l.isClosed() {
		return ErrClosed
	}
	b, ok := l.backend.(lister)
	if !ok {
		return &ConfigError{Op: "list", Need: "locks of this kind cannot be listed"}
	}
	seen := map[string]struct{}{}
	var failed error
	err := b.scan(ctx, lockPattern(l.opts.Prefix, start), func(names []string) bool {
		found, err := l.inspectAll(ctx, names, seen)
		if failed = err; err != nil {
			return false
		}
		for i := range found {
			if found[i].Held && !yield(found[i]) {
				return false
			}
		}
		return true
	})
	if failed == nil {
		failed = l.failure("list", "", err)
	}
	if failed != nil && ctx.Err() != nil {
		return &abandonedError{op: "list", errs: []error{ended(ctx), failed}}
	}
	return failed
}

// inspectAll asks for the locks with the given keys in one round trip.
func (l *Locker) inspectAll(ctx context.Context, names []string, seen map[string]struct{}) ([]Status, error) {
	found := make([]Status, 0, len(names))
	calls := make([]*call, 0, len(names))
	for _, name := range names {
		resource, ok := resourceOf(l.opts.Prefix, name)
		if _, twice := seen[name]; !ok || twice {
			continue
		}
		seen[name] = struct{}{}
		found = append(found, Status{Resource: resource}) // has room
		calls = append(calls, &call{op: opInspect, keys: newKeys(l.opts.Prefix, resource), status: &found[len(found)-1]})
	}
	if len(calls) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	l.backend.batch(ctx, calls)
	for i, c := range calls {
		if c.err != nil {
			return nil, l.failure("inspect", found[i].Resource, c.err)
		}
	}
	return found, nil
}

func (c *call) decodeStatus(word, rest string) bool {
	switch word {
	case "free":
		return c.status.decodeCounts(rest)
	case "broken":
		c.err = c.broken(rest)
		return c.err != nil
	case "held":
		return c.status.decodeHeld(rest)
	}
	return false
}

// decodeCounts reads <queued> <newest>. A counter that holds something else is
// shown as 0: acquiring tells what is wrong with it.
func (s *Status) decodeCounts(text string) bool {
	queued, newest, ok := strings.Cut(text, " ")
	n, err := strconv.Atoi(queued)
	if !ok || err != nil || n < 0 {
		return false
	}
	s.Queued = n
	s.Newest, _ = fencedstore.ParseID(newest)
	return true
}

// decodeHeld reads <fence> <ms left> <queued> <newest> <label>.
func (s *Status) decodeHeld(text string) bool {
	f := strings.SplitN(text, " ", 5)
	if len(f) < 5 || !s.decodeCounts(f[2]+" "+f[3]) {
		return false
	}
	id, err1 := fencedstore.ParseID(f[0])
	ms, err2 := strconv.ParseInt(f[1], 10, 64)
	if err1 != nil || err2 != nil || ms < -1 || ms > int64(maxForeignTTL/time.Millisecond) {
		return false
	}
	s.Held, s.FenceID, s.Label, s.TTL = true, id, f[4], time.Duration(ms)*time.Millisecond
	s.Since = fencedstore.Fence{ID: id}.Time()
	return true
}
