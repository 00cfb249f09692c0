package fencedlock

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"
)

// callTimeout is how long one command may take, and how long a caller whose
// context is cancelled may have to wait for it. A lock service that needs
// longer is in trouble.
const callTimeout = time.Second

// begin starts the lease after a grant. A first lease is short and is renewed
// soon, but not before a short piece of work is done. The mutex is held.
func (k *Lock) begin(e lease, now instant) {
	k.lease = e
	k.renewAt = k.nextRenewal(e.start)
	if e.ttl < k.terms.ttl {
		k.renewAt = min(k.renewAt, now.mono+e.left(now)/4)
	}
	if k.l.quorum != nil {
		k.renewAt = min(k.renewAt, now.mono+mendIn(k.terms.ttl))
	}
	k.answerBy, k.failing, k.fails, k.doubt = 0, nil, 0, 0
	k.attempt++
	k.l.scheduler.ready.remove(k)
	k.l.scheduler.watch(k, k.next(now))
}

// tick does what is due: it ends the lock, or has it wait for a sender that renews
// it. It reports whether the lock ended. The mutex is held and k is not watched;
// tick has it watched again.
func (k *Lock) tick(now instant) (lost bool) {
	if lost := k.overdue(now); lost != nil {
		k.end(lost)
		return true
	}
	if k.answerBy > 0 && now.mono >= k.answerBy {
		k.failed(context.DeadlineExceeded, now)
	}
	s := &k.l.scheduler
	if k.answerBy == 0 && !k.paused && now.mono+k.slack() >= k.renewAt {
		s.ready.put(k, k.endsAt(now))
	}
	s.watch(k, k.next(now))
	return false
}

func (k *Lock) renewal(now instant) *renewal {
	k.attempt++
	k.answerBy = now.mono + k.patience()
	return &renewal{call: k.renewCall(), lock: k, of: k.fence, attempt: k.attempt}
}

func (k *Lock) renewCall() call {
	return call{op: opRenew, keys: k.ask.keys, ttl: k.ask.ttl, value: k.inRedis(), ballot: k.ask.ballot}
}

// inRedis is the value of the key. The mutex is held.
func (k *Lock) inRedis() string {
	if k.value == "" {
		k.value = lockValue(k.ask.holder, k.fence.ID, k.ask.label)
	}
	return k.value
}

// lockValue is what acquire.lua puts into the key.
func lockValue(holder string, id int64, label string) string {
	return holder + ":" + strconv.FormatInt(id, 10) + ":" + label
}

// overdue returns why the lock has to end now, or nil. It notices a jump of the
// clock and then asks for a renewal at once. The mutex is held.
func (k *Lock) overdue(now instant) *LostError {
	ended := Expired
	if k.failing != nil {
		ended = RenewFailed
	}
	switch {
	case k.l.opts.MaxHold > 0 && now.mono-k.since.mono >= k.l.opts.MaxHold:
		return k.lost(MaxHold)
	case k.lease.doubtful(now):
		if k.doubt == 0 {
			k.doubt = now.mono + min(k.terms.ttl/3, k.lease.leftMono(now))
			k.renewAt, k.answerBy = now.mono, 0
		}
		if now.mono >= k.doubt {
			return k.lost(ended)
		}
	case k.lease.left(now) <= 0:
		return k.lost(ended)
	default:
		k.doubt = 0
	}
	return nil
}

// endsAt is when the lock ends if no renewal succeeds. The mutex is held.
func (k *Lock) endsAt(now instant) time.Duration {
	if k.doubt > 0 {
		return k.doubt
	}
	return now.mono + k.lease.left(now)
}

// next is when the lock has to be looked at again. The mutex is held.
func (k *Lock) next(now instant) time.Duration {
	due := k.endsAt(now)
	if k.l.opts.MaxHold > 0 {
		due = min(due, k.since.mono+k.l.opts.MaxHold)
	}
	switch {
	case k.paused, k.ready.index >= 0:
		return due
	case k.answerBy > 0:
		return min(due, k.answerBy)
	default:
		return min(due, k.renewAt)
	}
}

// settle applies the answer to a renewal that was asked for at sent, and
// reports whether the lock ended. The mutex is held.
func (k *Lock) settle(c *call, attempt uint32, sent, now instant) bool {
	if k.err != nil || c.value != k.value {
		return false // a renewal never outlives its tenure
	}
	if lost := k.overdue(now); lost != nil {
		k.end(lost)
		return true
	}
	switch {
	case c.err != nil:
		if attempt == k.attempt {
			k.failed(c.err, now)
		}
	case c.answer.verdict == renewed:
		k.confirmed(sent, now)
	case c.answer.verdict == taken:
		k.end(k.lost(Taken))
		return true
	case c.answer.verdict == forced:
		k.end(k.lost(Forced))
		return true
	default:
		k.end(k.lost(Expired))
		return true
	}
	k.l.scheduler.watch(k, k.next(now))
	return false
}

func (k *Lock) confirmed(sent, now instant) {
	if sent.mono < k.lease.start.mono {
		return // overtaken by another
	}
	k.lease = lease{start: sent, ttl: k.terms.ttl}
	if k.lease.doubtful(now) {
		return // it was sent before the clock jumped
	}
	k.doubt, k.answerBy, k.failing, k.fails = 0, 0, nil, 0
	k.renewAt = k.nextRenewal(sent)
	k.l.scheduler.ready.remove(k)
}

// failed plans the next renewal after one that failed: soon at first, then
// less often, and with jitter, for the sake of a Redis that is coming back.
func (k *Lock) failed(err error, now instant) {
	k.failing, k.answerBy = err, 0
	wait := min(k.lease.ttl/60<<min(k.fails, 5), k.lease.ttl/6)
	k.fails++
	k.renewAt = now.mono + wait/2 + jitter(wait/2)
}

// nextRenewal spreads the renewals of locks acquired together.
func (k *Lock) nextRenewal(sent instant) time.Duration {
	return sent.mono + k.terms.renewEvery - jitter(k.terms.renewEvery/10)
}

// patience is how long the answer to one renewal is waited for before another
// is sent.
func (k *Lock) patience() time.Duration { return min(k.lease.ttl/6, callTimeout) }

// slack is how much early a renewal may be, to go in one batch with others.
func (k *Lock) slack() time.Duration { return k.terms.renewEvery / 64 }

func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// renewBatch is what the scheduler sends.
func (l *Locker) renewBatch(batch []*renewal) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	calls := make([]*call, len(batch))
	for i, r := range batch {
		calls[i] = &r.call
	}
	sent := l.now()
	l.backend.batch(ctx, calls)
	l.askWhy(ctx, calls)
	l.scheduler.Lock()
	now := l.now()
	var lost []*Lock
	for _, r := range batch {
		if r.lock.settle(&r.call, r.attempt, sent, now) {
			lost = append(lost, r.lock)
		}
	}
	l.scheduler.Unlock()
	l.gone(lost)
}

// Renew asks Redis for the full TTL again, now. Locks are renewed by
// themselves; Renew is for a holder that wants to know before it does
// something long or dear. It returns nil when Redis confirmed the lock, a
// *[LostError] when the lock has ended, an [ErrUnavailable] when Redis did not
// answer, and ErrReleased after Release; when ctx ended the error matches that
// as well. It tries once, for no longer than ctx, what remains of the lease, or
// a second.
func (k *Lock) Renew(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	left, err := k.look() //nolint:contextcheck // it is the lock's, and derived from ctx
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &abandonedError{op: "renew", resource: k.fence.Resource, errs: []error{ended(ctx)}}
	}
	if left == 0 {
		left = k.terms.ttl / 3 // in doubt: as long as the scheduler waits
	}
	l := k.l
	s := &l.scheduler
	s.Lock()
	c := k.renewCall()
	s.Unlock()
	sent := s.now()
	l.backend.do(bounded(ctx, min(left, callTimeout)), &c) //nolint:contextcheck // it is derived from ctx
	l.askWhy(bounded(ctx, callTimeout), []*call{&c})       //nolint:contextcheck // it is derived from ctx
	s.Lock()
	lost := k.settle(&c, 0, sent, s.now())
	err = k.err
	s.Unlock()
	if lost {
		k.l.gone([]*Lock{k}) //nolint:contextcheck // it is the lock's, and derived from ctx
	}
	if err != nil {
		return err
	}
	err = k.l.failure("renew", k.fence.Resource, c.err)
	if err != nil && ctx.Err() != nil {
		return &abandonedError{op: "renew", resource: k.fence.Resource, errs: []error{ended(ctx), err}}
	}
	return err
}
