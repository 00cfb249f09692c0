package fencedlock

import (
	"context"
	"errors"
	"log/slog"
	"reflect"

	"github.com/redis/go-redis/v9"
)

// Locker acquires locks in one Redis. It is safe for concurrent use. A process
// needs one per Redis and set of options; locks of several Lockers with the
// same prefix exclude each other.
type Locker struct {
	opts      Options
	backend   backend
	now       clock
	scheduler scheduler
	orphanage orphanage
	ear       ear
	shards    shards
	lines     lines
	quorum    *quorumBackend // the backend, if it is one
	stop      chan struct{}  // closed by Close
}

// New returns a Locker that keeps its locks in the Redis of rdb. It sends
// nothing. opts may be nil.
//
// A *[redis.Client] is used through a copy that shares its connections. The first
// New adds a hook to the client, which passes commands of Lockers on to the copy;
// hooks added before see them, later ones do not. The copy honours deadlines while a command is in flight,
// whatever the client's ContextTimeoutEnabled says, and leaves retries to the
// Locker. The caller keeps the client and closes it after the Locker.
//
// New returns an [ErrInvalidArgument] for a nil client and for options that
// cannot be used.
func New(rdb redis.UniversalClient, opts *Options) (*Locker, error) {
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		return nil, &ArgumentError{Name: "rdb", Reason: "is nil"}
	}
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if err := o.single(rdb); err != nil {
		return nil, err
	}
	return newLocker(newRedisBackend(rdb), o, newClock()), nil
}

func newLocker(b backend, o Options, now clock) *Locker {
	l := &Locker{opts: o, backend: b, now: now, stop: make(chan struct{})}
	l.scheduler.init(now)
	l.quorum, _ = b.(*quorumBackend)
	l.scheduler.send = l.renewBatch
	l.scheduler.told = l.observe
	l.scheduler.gone = l.gone
	l.ear.init(l)
	l.shards.init(l)
	return l
}

// gone tells of locks that were lost. No mutex is held.
func (l *Locker) gone(lost []*Lock) {
	for _, k := range lost {
		k.cancelContexts()
		l.lines.freed(k)
	}
	if len(lost) > 0 && (l.opts.Hooks.Lost != nil || l.opts.Logger.Enabled(lost[0].parent, slog.LevelWarn)) {
		go l.tellLost(lost)
	}
}

func (l *Locker) tellLost(lost []*Lock) {
	for _, k := range lost {
		if e, ok := errors.AsType[*LostError](k.err); ok {
			k.tellLost(e)
		}
	}
}

func (l *Locker) isClosed() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// Close ends every lock that is still held, with reason [Closed], and then
// releases them in Redis. Waiting and later calls of Acquire return
// [ErrClosed]. It stops the Locker's goroutines and leaves the client open. It
// takes some seconds at most; an [ErrUnavailable] says that some locks could
// not be released and expire by themselves. Further calls do nothing and
// return nil.
func (l *Locker) Close() error {
	s := &l.scheduler
	s.Lock()
	if s.closed {
		s.Unlock()
		return nil
	}
	watched := s.close()
	close(l.stop)
	var ended []*Lock
	for _, k := range watched {
		if k.err == nil {
			k.end(k.lost(Closed))
			ended = append(ended, k)
		}
	}
	s.Unlock()
	l.gone(ended)
	l.ear.shut()
	l.shards.shut()
	err := l.releaseAll(ended)
	s.work.Wait()
	if l.quorum != nil {
		l.quorum.close()
	}
	return err
}

// releaseAll gives back the locks of a Locker that closes.
func (l *Locker) releaseAll(locks []*Lock) error {
	calls := make([]*call, len(locks))
	for i, k := range locks {
		calls[i] = &call{keys: k.ask.keys, holder: k.ask.holder, proposal: l.now().proposal(), ballot: k.ask.ballot}
		k.part(calls[i])
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var failed error
	for len(calls) > 0 {
		n := min(len(calls), maxBatch)
		if err := l.releaseBatch(ctx, calls[:n]); err != nil {
			failed = l.failure("close", "", err)
		}
		calls = calls[n:]
	}
	return failed
}

// releaseBatch tries until each of calls is answered, or as often as a single
// release does.
func (l *Locker) releaseBatch(ctx context.Context, calls []*call) error {
	for try := 1; ; try++ {
		l.backend.batch(ctx, calls)
		var again []*call
		var err error
		for _, c := range calls {
			if c.err != nil {
				again, err = append(again, c), c.err
			}
		}
		if err == nil || try == releaseTries || !pause(ctx.Done(), backoff(try)) {
			return err
		}
		calls = again
	}
}
