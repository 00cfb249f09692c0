package fenced_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/internal/model"
	"github.com/fenced-go/fenced/internal/testenv"
)

// history is what callers of a lock and a store did and were answered, with the
// moments before and after. No two moments are equal.
type history struct {
	moments atomic.Int64
	mu      sync.Mutex
	calls   []call
	tenures []model.Tenure
}

// call is one of them.
type call struct {
	client       int
	in           input
	out          output
	began, ended int64
}

// input is what was asked for. The value is what it wrote, unique in its history.
type input struct {
	op    string // "acquire", "claim", "write" or "read"
	fence fencedstore.Fence
	value int64
}

// output is the answer. The value is what was read.
type output struct {
	answer answer
	value  int64
}

type answer string

const (
	done      answer = "done"
	stale     answer = "stale"
	reused    answer = "reused"
	unclaimed answer = "not claimed"
	unknown   answer = "unknown" // it happens later, or has happened, or never does
	failed    answer = "failed"  // nothing has happened: such calls are left out
)

func answerOf(err error) answer {
	for target, a := range map[error]answer{
		fencedstore.ErrStale: stale, fencedstore.ErrFenceReused: reused,
		fencedstore.ErrNotClaimed: unclaimed, fencedstore.ErrUnknownOutcome: unknown,
	} {
		if errors.Is(err, target) {
			return a
		}
	}
	if err != nil {
		return failed
	}
	return done
}

func (h *history) now() int64 { return h.moments.Add(1) }

// record does something and keeps it.
func (h *history) record(client int, in input, do func() (int64, error)) error {
	began := h.now()
	value, err := do()
	h.keep(client, in, output{answerOf(err), value}, began)
	return err
}

func (h *history) keep(client int, in input, out output, began int64) {
	c := call{client, in, out, began, h.now()}
	if out.answer == failed {
		return
	}
	if out.answer == unknown {
		c.ended = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, c)
	if in.op == "acquire" {
		h.tenures = append(h.tenures, model.Tenure{Asked: c.began, Got: c.ended, Fence: in.fence.ID})
	}
}

// resourceState is a resource as lock and store together are to look like: there
// is a newest tenure, it began in one moment, and since then it alone writes.
type resourceState struct {
	newest fencedstore.Fence
	value  int64
}

// resourceModel lets everything happen in some moment between call and answer.
var resourceModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{resourceState{}} },
	Step: func(state, in, out any) []any {
		s, isState := state.(resourceState)
		i, isInput := in.(input)
		o, isOutput := out.(output)
		if !isState || !isInput || !isOutput {
			panic(fmt.Sprintf("%T, %T, %T", state, in, out))
		}
		return resourceStep(s, i, o)
	},
}

// resourceStep returns the states that an answer is possible in, afterwards.
func resourceStep(s resourceState, in input, out output) []any {
	right, after := s.does(in, out.value)
	switch {
	case out.answer == unknown && right == done:
		return []any{s, after}
	case out.answer == unknown:
		return []any{s}
	case out.answer == right:
		return []any{after}
	}
	return nil
}

// replace makes one answer another, if it was that.
func (o *output) replace(old, by answer) bool {
	if o.answer != old {
		return false
	}
	o.answer = by
	return true
}

// does is the right answer to a call, and the state after it.
func (s resourceState) does(in input, read int64) (answer, resourceState) {
	newest := s.newest
	switch {
	case in.op == "read" && read == s.value:
		return done, s
	case in.op == "read":
		return "wrong value", s
	case in.fence.ID < newest.ID:
		return stale, s
	case in.fence.ID == newest.ID && in.fence != newest:
		return reused, s
	case in.fence.ID > newest.ID && in.op != "claim":
		return unclaimed, s
	}
	s.newest = in.fence
	if in.op == "write" {
		s.value = in.value
	}
	return done, s
}

// linearizable says whether one order of all calls explains all answers.
func (h *history) linearizable() porcupine.CheckResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	ops := make([]porcupine.Operation, len(h.calls))
	for i, c := range h.calls {
		ops[i] = porcupine.Operation{ClientId: c.client, Input: c.in, Output: c.out, Call: c.began, Return: c.ended}
	}
	return porcupine.CheckOperationsTimeout(resourceModel.ToModel(), ops, patience)
}

// checkTenures checks what the lock promises by itself.
func (h *history) checkTenures(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := model.Check(h.tenures); err != nil {
		t.Error(err)
	}
}

// check checks what lock and store promise together.
func (h *history) check(t *testing.T) {
	t.Helper()
	h.checkTenures(t)
	began := time.Now()
	if got := h.linearizable(); got != porcupine.Ok {
		t.Errorf("linearizable: %v, want %v", got, porcupine.Ok)
	}
	t.Logf("%d calls checked in %v: %v", len(h.calls), time.Since(began).Round(time.Millisecond), h.count())
}

// count counts answers by call, for the log and to see that a run had what it is
// about.
func (h *history) count() map[string]int {
	n := map[string]int{}
	for _, c := range h.calls {
		n[c.in.op+" "+string(c.out.answer)]++
	}
	return n
}

// with is a copy with the first call forged that forge accepts.
func (h *history) with(t *testing.T, what string, forge func(c *call) bool) *history {
	t.Helper()
	forged := &history{calls: slices.Clone(h.calls), tenures: h.tenures}
	for i := range forged.calls {
		if forge(&forged.calls[i]) {
			return forged
		}
	}
	t.Fatalf("there is nothing to make %s of in %v", what, h.count())
	return nil
}

// lax is a store that checks nothing.
type lax struct{ value atomic.Int64 }

func (*lax) Claim(context.Context, fencedstore.Fence) error { return nil }

func (s *lax) write(_ context.Context, _ fencedstore.Fence, v int64) error {
	s.value.Store(v)
	return nil
}

func (s *lax) read(context.Context) (int64, error) { return s.value.Load(), nil }

// The same calls, of an older holder that writes after a newer one, on a store
// that checks and on one that does not.
func TestStoreThatDoesNotCheckIsFoundOut(t *testing.T) {
	t.Parallel()
	for want, store := range map[porcupine.CheckResult]variable{
		porcupine.Ok: newMemRegister(t), porcupine.Illegal: &lax{},
	} {
		h := &history{}
		locker := newLocker(t, []string{testenv.NewRedis(t).Addr()}, []fencedstore.Claimer{recorder{store, h, 0}})
		older, newer := &contender{h, 0, locker, store}, &contender{h, 1, locker, store}
		f, err := older.turn(t.Context(), resource)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newer.turn(t.Context(), resource); err != nil {
			t.Fatal(err)
		}
		older.use(t.Context(), f)
		if got := h.linearizable(); got != want {
			t.Errorf("%T: %v, want %v, of %v", store, got, want, h.count())
		}
	}
}
