package fencedlock

import (
	"context"
	"log/slog"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// Hooks observe a [Locker], for metrics and traces. Every field may be nil.
//
// ctx has the values of the context that the lock was acquired with, such as a
// trace or a tenant, and never ends; it is kept for as long as the lock.
//
// Acquired, Contended, Claimed, Healed, Refused and Released run on the
// goroutine of the caller, or on one that it waits for, and delay it. The others
// run on goroutines of the Locker, several at once and in no order, and delay
// neither renewals nor the end of a lease; a call may still be under way when
// Close returns. A hook must not panic.
type Hooks struct {
	// Acquired is called when a lock was acquired and every store has claimed.
	Acquired func(ctx context.Context, f fencedstore.Fence, a Acquisition)
	// Contended is called once for every acquire that finds somebody in the way.
	Contended func(ctx context.Context, err *HeldError)
	// Claimed is called when a store has claimed; it is the one with that index in
	// Options.Stores, and took so long.
	Claimed func(ctx context.Context, f fencedstore.Fence, store int, took time.Duration)
	// Refused is called when a store knows a newer fence and refuses to claim.
	Refused func(ctx context.Context, f fencedstore.Fence, store int, err error)
	// Healed is called when f has taken the place of a fence that a store refused
	// because of mark: Redis has lost data.
	Healed func(ctx context.Context, f fencedstore.Fence, mark int64)
	// Released is called when Redis confirmed a release; held is for how long
	// the lock was held.
	Released func(ctx context.Context, f fencedstore.Fence, held time.Duration)
	// Lost is called once for every lock that ends before its release.
	Lost func(ctx context.Context, err *LostError)
	// Renewed is called when Redis confirmed a renewal; the lease then lasts for
	// remaining.
	Renewed func(ctx context.Context, f fencedstore.Fence, remaining time.Duration)
	// RenewFailed is called for every renewal that failed; the lock is not
	// lost yet.
	RenewFailed func(ctx context.Context, f fencedstore.Fence, err error)
}

// Acquisition is how a lock was acquired.
type Acquisition struct {
	// Waited is how long it took, claims included.
	Waited time.Duration
	// Attempts is how often Redis was asked.
	Attempts int
}

// values are those of the context that k was acquired with.
func (k *Lock) values() context.Context { return context.WithoutCancel(k.parent) }

// logs reports whether lines of level are wanted. What happens for every lock asks
// before it puts a line together, which would cost allocations.
func (k *Lock) logs(level slog.Level) bool { return k.l.opts.Logger.Enabled(k.parent, level) }

// log writes a line about k. Every line names its fence and label.
func (k *Lock) log(level slog.Level, text string, f fencedstore.Fence, more ...any) {
	if !k.logs(level) {
		return
	}
	attrs := append([]any{"fence", f, "label", k.terms.label}, more...)
	k.l.opts.Logger.Log(k.values(), level, "fencedlock: "+text, attrs...)
}

func (k *Lock) tellAcquired(a Acquisition) {
	if k.logs(slog.LevelDebug) {
		k.log(slog.LevelDebug, "acquired", k.fence, "waited", a.Waited, "attempts", a.Attempts)
	}
	if h := k.l.opts.Hooks.Acquired; h != nil {
		h(k.values(), k.fence, a)
	}
}

// tellContended leaves the fence ID alone: in a line it may come at any moment.
func (k *Lock) tellContended(err *HeldError) {
	f := fencedstore.Fence{Resource: k.fence.Resource, Holder: k.fence.Holder}
	k.log(slog.LevelDebug, "contended", f, "by", err.FenceID, "holder", err.Label, "ttl", err.TTL)
	if h := k.l.opts.Hooks.Contended; h != nil {
		h(k.values(), err)
	}
}

func (k *Lock) tellClaimed(store int, took time.Duration) {
	k.log(slog.LevelDebug, "claimed", k.fence, "store", store, "took", took)
	if h := k.l.opts.Hooks.Claimed; h != nil {
		h(k.values(), k.fence, store, took)
	}
}

func (k *Lock) tellRefused(store int, err error) {
	k.log(slog.LevelWarn, "a store refused to claim", k.fence, "store", store, "err", err)
	if h := k.l.opts.Hooks.Refused; h != nil {
		h(k.values(), k.fence, store, err)
	}
}

func (k *Lock) tellHealed(mark int64) {
	k.log(slog.LevelWarn, "took a fence above that of a store, Redis has lost data", k.fence, "mark", mark)
	if h := k.l.opts.Hooks.Healed; h != nil {
		h(k.values(), k.fence, mark)
	}
}

func (k *Lock) tellReleased(held time.Duration) {
	if k.logs(slog.LevelDebug) {
		k.log(slog.LevelDebug, "released", k.fence, "held", held)
	}
	if h := k.l.opts.Hooks.Released; h != nil {
		h(k.values(), k.fence, held)
	}
}

func (k *Lock) tellLost(err *LostError) {
	k.log(slog.LevelWarn, "lost", err.Fence, "reason", err.Reason.String(), "err", err.Err)
	if h := k.l.opts.Hooks.Lost; h != nil {
		h(k.values(), err)
	}
}

// observe tells of renewals.
func (l *Locker) observe(batch []*renewal) {
	for _, r := range batch {
		switch {
		case r.err != nil:
			r.lock.log(slog.LevelWarn, "renewal failed", r.of, "err", r.err)
			if h := l.opts.Hooks.RenewFailed; h != nil {
				h(r.lock.values(), r.of, r.err)
			}
		case r.answer.verdict == renewed:
			r.tellRenewed()
		}
	}
}

func (r *renewal) tellRenewed() {
	h := r.lock.l.opts.Hooks.Renewed
	if h == nil && !r.lock.l.opts.Logger.Enabled(r.lock.parent, slog.LevelDebug) {
		return
	}
	left := r.lock.Remaining()
	r.lock.log(slog.LevelDebug, "renewed", r.of, "remaining", left)
	if h != nil {
		h(r.lock.values(), r.of, left)
	}
}
