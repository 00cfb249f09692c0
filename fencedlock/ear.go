package fencedlock

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// earIdle is how long a Locker goes on listening that has no waiters.
const earIdle = time.Minute

// ear hears that locks were granted to the waiters of one Locker. It has one
// channel in Redis for all of them, and one goroutine, from the first wait until
// nobody has waited for a while.
type ear struct {
	l     *Locker
	name  string // of the channel
	waker string // the same for those who publish

	mu      sync.Mutex
	waiting map[string]*waiter // by holder
	ready   chan struct{}      // closed when the first try to listen has ended; nil without the goroutine
	heard   channel            // nil while nothing is heard
	left    time.Duration      // when the last waiter went
	ended   bool
}

func (e *ear) init(l *Locker) {
	id := fencedstore.NewHolder()[:16]
	e.l, e.name, e.waker = l, l.opts.Prefix+"wake:"+id, id
	if l.backend.wakes() == sure {
		e.waker = "!" + id
	}
	e.waiting = make(map[string]*waiter)
}

// hears reports that the channel is open.
func (e *ear) hears() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard != nil
}

// enter makes w heard of, before it queues. A wake-up may come before the answer
// to the question that queued it. It waits until the channel is open,
// for as long as one command may take; without one the waiter asks by itself.
func (e *ear) enter(ctx context.Context, w *waiter) {
	k := w.k
	e.mu.Lock()
	e.waiting[k.ask.holder] = w
	start := e.ready == nil && !e.ended && e.l.backend.wakes() != deaf
	if start {
		e.ready = make(chan struct{})
	}
	ready, heard := e.ready, e.heard != nil
	e.mu.Unlock()
	if start {
		e.l.scheduler.spawn(e.listen)
	}
	if ready != nil && !heard {
		e.wait(ctx, ready)
		heard = e.hears()
	}
	k.ask.waits, k.ask.waker = true, ""
	if heard {
		k.ask.waker = e.waker
	}
}

func (e *ear) wait(ctx context.Context, ready <-chan struct{}) {
	t := time.NewTimer(callTimeout)
	defer t.Stop()
	select {
	case <-ready:
	case <-t.C:
	case <-ctx.Done():
	case <-e.l.stop:
	}
}

func (e *ear) leave(w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waiting, w.k.ask.holder)
	e.left = e.l.now().mono
}

// listen is the goroutine. It opens the channel again and again, while there
// are waiters.
func (e *ear) listen() {
	again := false
	for try := 1; e.wanted(); try++ {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		c, err := e.l.backend.listen(ctx, e.name)
		cancel()
		if e.open(c, again) {
			again, try = true, 0
			for err == nil && e.wanted() {
				var text string
				if text, err = c.receive(); text != "" {
					e.deliver(text)
				}
			}
			e.shutOne(c)
		}
		if err != nil {
			pause(e.l.stop, min(backoff(min(try, 10)), maxBackoff))
		}
	}
}

// wanted reports that the goroutine is to go on, and ends it otherwise.
func (e *ear) wanted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.ended && (len(e.waiting) > 0 || e.l.now().mono-e.left < earIdle) {
		return true
	}
	if e.ready != nil {
		e.beReady()
		e.ready = nil
	}
	return false
}

func (e *ear) beReady() {
	select {
	case <-e.ready:
	default:
		close(e.ready)
	}
}

// open is told of a channel, nil when there is none. When there was one before,
// everybody who waits asks: what was published meanwhile is lost.
func (e *ear) open(c channel, again bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.beReady()
	if c == nil {
		return false
	}
	if e.ended {
		c.close()
		return false
	}
	e.heard = c
	if again {
		for _, w := range e.waiting {
			w.wake(answer{})
		}
	}
	return true
}

func (e *ear) shutOne(c channel) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heard == c {
		e.heard = nil
	}
	c.close()
}

// shut ends the goroutine.
func (e *ear) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	if e.heard != nil {
		e.heard.close()
	}
}

// deliver wakes a waiter by holder fence [spare].
func (e *ear) deliver(text string) {
	holder, rest, _ := strings.Cut(text, " ")
	var g answer
	if !g.decodeGrant(rest) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.waiting[holder]; w != nil {
		w.wake(g)
	}
}

// wake leaves g for the waiter, in place of what it has not looked at yet: a
// grant is never replaced by less.
func (w *waiter) wake(g answer) {
	select {
	case w.woken <- g:
		return
	default:
	}
	if g.fence == 0 {
		return
	}
	select {
	case <-w.woken:
	default:
	}
	select {
	case w.woken <- g:
	default:
	}
}
