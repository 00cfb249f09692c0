package faults_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenced-go/fenced/internal/faults"
)

func TestOperationsAreCompletedWhenTheyEnd(t *testing.T) {
	t.Parallel()
	var h faults.History
	now := time.Now()
	begun := faults.Op{Who: "w", ID: 1, Kind: faults.Write, Began: now}
	h.Record(begun)
	h.Record(faults.Op{Who: "w", ID: 2, Kind: faults.Write, Began: now.Add(-time.Second)})
	begun.Result, begun.Ended = faults.Done, now.Add(time.Second)
	h.Record(begun)
	ops := h.Ops()
	if len(ops) != 2 || ops[0].ID != 2 || ops[1].Result != faults.Done {
		t.Errorf("the history is %v, want the earlier one first and the other done", ops)
	}
	if done, never := h.Count(faults.Write, faults.Done), h.Count(faults.Write, faults.Never); done != 1 || never != 1 {
		t.Errorf("%d done and %d without an answer, want 1 and 1", done, never)
	}
}

func TestOnlyWritesThatBeganAfterwardsShowLife(t *testing.T) {
	t.Parallel()
	var h faults.History
	since := time.Now()
	for i, o := range []faults.Op{
		{Who: "early", Resource: "r", Kind: faults.Write, Result: faults.Done, Began: since.Add(-time.Second)},
		{Who: "refused", Resource: "s", Kind: faults.Write, Result: faults.Refused, Began: since.Add(time.Second)},
		{Who: "reader", Resource: "s", Kind: faults.Read, Result: faults.Done, Began: since.Add(time.Second)},
		{Who: "alive", Resource: "r", Kind: faults.Write, Result: faults.Done, Began: since.Add(time.Second)},
	} {
		o.ID = i
		h.Record(o)
	}
	got := h.Idle(since, []string{"early", "refused", "reader", "alive"}, []string{"r", "s"})
	if want := []string{"early", "refused", "reader", "s"}; !slices.Equal(got, want) {
		t.Errorf("idle are %v, want %v", got, want)
	}
}

func TestReportShowsWhatHappenedAroundAViolation(t *testing.T) {
	t.Parallel()
	var s story
	s.acquire(1) // long before
	s.tell(faults.Op{Kind: faults.Acquire, Fence: 5, Result: "never"}, 1)
	s.now = s.now.Add(time.Minute)
	s.write(2, "", "a", faults.Done)
	during := s.now
	s.read(3, "between")
	s.write(1, "a", "b", faults.Done)
	s.now = s.now.Add(time.Minute)
	s.acquire(4) // long after
	s.h.Harmed(faults.Harm{Name: "pause redis", Began: during, Ended: during.Add(time.Second)})
	s.h.Harmed(faults.Harm{Name: "kill postgres", Began: during.Add(-time.Hour), Ended: during.Add(-time.Minute)})
	account := []faults.Accepted{kept(2, "", "a"), kept(1, "a", "b")}
	for _, v := range judge(&s, account) {
		if v.Rule != "fence order" {
			continue
		}
		report := s.h.Report(v)
		for _, want := range []string{"pause redis", `"between"`, `> `} {
			if !strings.Contains(report, want) {
				t.Errorf("%q is missing in\n%s", want, report)
			}
		}
		for _, far := range []string{"kill postgres", "acquire"} {
			if strings.Contains(report, far) {
				t.Errorf("%q was at another time, and is in\n%s", far, report)
			}
		}
		return
	}
	t.Error("the violation was not found")
}

func TestReportOfALongTimeIsShort(t *testing.T) {
	t.Parallel()
	var s story
	s.write(2, "", "a", faults.Done)
	for range 500 {
		s.read(2, "a")
	}
	s.write(1, "a", "b", faults.Done)
	violations := judge(&s, []faults.Accepted{kept(2, "", "a"), kept(1, "a", "b")})
	if len(violations) == 0 {
		t.Fatal("the violation was not found")
	}
	report := s.h.Report(violations[0])
	if n := strings.Count(report, "\n"); n > 60 || !strings.Contains(report, "and 461 more") || strings.Count(report, "\n> ") != 2 {
		t.Errorf("%d lines, want few, a count of the rest, and the proof:\n%s", n, report)
	}
}
