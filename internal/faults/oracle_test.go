package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/faults"
)

// story makes a history by hand: one operation after the other, a second each.
type story struct {
	h   faults.History
	now time.Time
	ids int
}

// tell adds an operation that takes from its beginning on as many seconds.
func (s *story) tell(o faults.Op, seconds int) {
	if s.now.IsZero() {
		s.now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	}
	s.ids++
	o.ID, o.Resource, o.Began = s.ids, "r", s.now
	if o.Holder == "" && o.Fence != 0 {
		o.Holder = fmt.Sprintf("h%d", o.Fence)
	}
	o.Who = "w" + o.Holder
	if o.Result == "" {
		o.Result = faults.Done
	}
	if o.Result == "never" {
		o.Result = faults.Never
	} else {
		o.Ended = s.now.Add(time.Duration(seconds)*time.Second - time.Millisecond)
	}
	s.h.Record(o)
	s.now = s.now.Add(time.Second)
}

func (s *story) acquire(fence int64) {
	s.tell(faults.Op{Kind: faults.Acquire, Fence: fence}, 1)
}

func (s *story) read(fence int64, value string) {
	s.tell(faults.Op{Kind: faults.Read, Fence: fence, Value: value}, 1)
}

func (s *story) write(fence int64, saw, value string, result faults.Result) {
	s.tell(faults.Op{Kind: faults.Write, Fence: fence, Saw: saw, Value: value, Result: result}, 1)
}

func kept(fence int64, saw, value string) faults.Accepted {
	return faults.Accepted{Value: value, Saw: saw, Fence: fence, Holder: fmt.Sprintf("h%d", fence)}
}

// good is two tenures, one after the other, with every result that there is.
func good(s *story) []faults.Accepted {
	s.acquire(1)
	s.read(1, "")
	s.write(1, "", "a", faults.Done)
	s.write(1, "a", "b", faults.Unknown)
	s.acquire(2)
	s.read(2, "b")
	s.write(1, "b", "x", faults.Refused)
	s.write(1, "b", "y", faults.Failed)
	s.write(2, "b", "c", "never")
	s.write(2, "b", "d", faults.Unknown)
	return []faults.Accepted{kept(1, "", "a"), kept(1, "a", "b"), kept(2, "b", "c")}
}

var badHistories = []struct {
	name, rule string
	proof      int // operations that prove it
	tell       func(*story) []faults.Accepted
}{
	{"an older holder writes after a newer", "fence order", 2, func(s *story) []faults.Accepted {
		s.write(2, "", "a", faults.Done)
		s.write(1, "a", "b", faults.Done)
		return []faults.Accepted{kept(2, "", "a"), kept(1, "a", "b")}
	}},
	{"two holders write under one fence", "one holder", 2, func(s *story) []faults.Accepted {
		s.write(1, "", "a", faults.Done)
		s.tell(faults.Op{Kind: faults.Write, Fence: 1, Holder: "other", Saw: "a", Value: "b"}, 1)
		return []faults.Accepted{kept(1, "", "a"), {Value: "b", Saw: "a", Fence: 1, Holder: "other"}}
	}},
	{"two holders acquire one fence at the same time", "one holder", 2, func(s *story) []faults.Accepted {
		s.tell(faults.Op{Kind: faults.Acquire, Fence: 1}, 3)
		s.tell(faults.Op{Kind: faults.Acquire, Fence: 1, Holder: "other"}, 3)
		return nil
	}},
	{"a lower fence is issued later", "issued order", 2, func(s *story) []faults.Accepted {
		s.acquire(2)
		s.acquire(3)
		s.acquire(1)
		return nil
	}},
	{"an older holder writes what a newer has not read", "stale write", 2, func(s *story) []faults.Accepted {
		s.acquire(2)
		s.read(2, "")
		s.write(1, "", "a", faults.Done)
		return []faults.Accepted{kept(1, "", "a")}
	}},
	{"somebody writes between reading and writing", "lost update", 2, func(s *story) []faults.Accepted {
		s.write(1, "", "a", faults.Done)
		s.write(1, "", "b", faults.Done)
		return []faults.Accepted{kept(1, "", "a"), kept(1, "", "b")}
	}},
	{"an acknowledged write is gone", "lost write", 1, func(s *story) []faults.Accepted {
		s.write(1, "", "a", faults.Done)
		return nil
	}},
	{"a write was done twice", "lost write", 1, func(s *story) []faults.Accepted {
		s.write(1, "", "a", faults.Unknown)
		return []faults.Accepted{kept(1, "", "a"), kept(1, "a", "a")}
	}},
	{"a refused write was done", "false refusal", 1, func(s *story) []faults.Accepted {
		s.write(1, "", "a", faults.Refused)
		return []faults.Accepted{kept(1, "", "a")}
	}},
	{"a failed write was done", "false refusal", 1, func(s *story) []faults.Accepted {
		s.write(1, "", "a", faults.Failed)
		return []faults.Accepted{kept(1, "", "a")}
	}},
	{"a reader misses an acknowledged write", "old read", 2, func(s *story) []faults.Accepted {
		s.write(1, "", "a", faults.Done)
		s.write(1, "a", "b", faults.Done)
		s.read(1, "a")
		return []faults.Accepted{kept(1, "", "a"), kept(1, "a", "b")}
	}},
	{"a value comes from nowhere", "strange value", 0, func(*story) []faults.Accepted {
		return []faults.Accepted{kept(1, "", "a")}
	}},
	{"a value that was read is gone", "strange value", 2, func(s *story) []faults.Accepted {
		s.write(1, "", "a", faults.Unknown)
		s.read(1, "a")
		return nil
	}},
}

func judge(s *story, account []faults.Accepted) []faults.Violation {
	return faults.Judge(s.h.Ops(), faults.Account{"r": account})
}

func TestGoodHistoryBreaksNoRule(t *testing.T) {
	t.Parallel()
	var s story
	for _, v := range judge(&s, good(&s)) {
		t.Error(s.h.Report(v))
	}
}

func TestBadHistoriesBreakTheirRule(t *testing.T) {
	t.Parallel()
	for _, c := range badHistories {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var s story
			violations := judge(&s, c.tell(&s))
			i := slices.IndexFunc(violations, func(v faults.Violation) bool { return v.Rule == c.rule })
			if i < 0 {
				t.Fatalf("the oracle found %v, want a broken %q", violations, c.rule)
			}
			v := violations[i]
			if len(v.Ops) != c.proof {
				t.Errorf("%d operations prove it, want %d: %v", len(v.Ops), c.proof, v.Ops)
			}
			report := s.h.Report(v)
			if !strings.Contains(report, v.Text) || strings.Count(report, "\n> ") != c.proof {
				t.Errorf("the report is\n%swant %q and %d lines marked as proof", report, v.Text, c.proof)
			}
		})
	}
}

func TestEveryRuleIsBrokenByABadHistory(t *testing.T) {
	t.Parallel()
	for _, r := range faults.Rules() {
		if r.Says == "" {
			t.Errorf("rule %q says nothing", r.Name)
		}
		broken := false
		for _, c := range badHistories {
			broken = broken || c.rule == r.Name
		}
		if !broken {
			t.Errorf("no bad history breaks rule %q", r.Name)
		}
	}
}

func TestResourcesAreJudgedApart(t *testing.T) {
	t.Parallel()
	a, b := kept(2, "", "a"), kept(1, "", "b")
	ops := []*faults.Op{
		{Who: "w", ID: 1, Kind: faults.Write, Resource: "r", Fence: 2, Holder: "h2", Value: "a", Result: faults.Done},
		{Who: "w", ID: 2, Kind: faults.Write, Resource: "s", Fence: 1, Holder: "h1", Value: "b", Result: faults.Done},
	}
	if vs := faults.Judge(ops, faults.Account{"r": {a}, "s": {b}}); len(vs) != 0 {
		t.Errorf("the oracle found %v, want nothing", vs)
	}
	if vs := faults.Judge(ops, faults.Account{"r": {a}}); len(vs) != 1 || vs[0].Resource != "s" {
		t.Errorf("the oracle found %v, want the lost write on s", vs)
	}
}

func TestChainIsTheAccountOfAStoreThatKeepsNone(t *testing.T) {
	t.Parallel()
	var s story
	want := good(&s)
	got, err := faults.Chain(s.h.Ops(), "r", "c")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the chain is %v, %v, want %v", got, err, want)
	}
	if got, err := faults.Chain(s.h.Ops(), "r", ""); err != nil || len(got) != 0 {
		t.Errorf("the chain of nothing is %v, %v", got, err)
	}
	if _, err := faults.Chain(s.h.Ops(), "r", "z"); err == nil {
		t.Error("there is a chain to a value that nobody has written")
	}
}

// A standby that lacks "b" is promoted. The holder of fence 1 is let in until
// fence 3 claims, and nobody afterwards.
func TestStoreThatForgotIsJudgedByThoseWhoCameAfterwards(t *testing.T) {
	t.Parallel()
	var s story
	s.acquire(1)
	s.write(1, "", "a", faults.Done)
	s.acquire(2)
	s.write(2, "a", "b", faults.Done)
	forgot := s.now
	s.now = s.now.Add(time.Second)
	s.write(1, "a", "c", faults.Done)
	s.acquire(3)
	s.read(3, "c")
	s.write(3, "c", "d", faults.Done)
	s.write(3, "d", "e", faults.Done)
	account := []faults.Accepted{kept(1, "", "a"), kept(1, "a", "c"), kept(3, "c", "d"), kept(3, "d", "e")}
	after := func(list []faults.Accepted) []faults.Violation {
		return faults.Judge(faults.After(forgot, s.h.Ops(), faults.Account{"r": list}))
	}
	if vs := after(account); len(vs) != 0 {
		t.Errorf("the oracle found %v, want nothing", vs)
	}
	if vs := after(account[:3]); len(vs) != 1 || vs[0].Rule != "lost write" {
		t.Errorf("without the last write the oracle found %v", vs)
	}
	if vs := after(append(account, kept(1, "e", "f"))); len(vs) == 0 || vs[0].Rule != "fence order" {
		t.Errorf("with a stale write at the end the oracle found %v", vs)
	}
}
