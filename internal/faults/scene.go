package faults

import (
	"fmt"
	"slices"
)

// scene is one resource.
type scene struct {
	resource string
	ops      []*Op // in the order in which they began
	account  []Accepted
	place    map[string]int // of a value in the account, from 1; 0 for none
	writes   map[string]*Op // by value
}

func newScene(resource string, ops []*Op, account []Accepted) *scene {
	s := &scene{resource: resource, account: account, place: map[string]int{}, writes: map[string]*Op{}}
	for _, o := range ops {
		if o.Resource != resource {
			continue
		}
		s.ops = append(s.ops, o)
		if o.Kind == Write {
			s.writes[o.Value] = o
		}
	}
	slices.SortStableFunc(s.ops, func(a, b *Op) int { return a.Began.Compare(b.Began) })
	for i, a := range account {
		if s.place[a.Value] == 0 {
			s.place[a.Value] = i + 1
		}
	}
	return s
}

// found makes a violation of the operations that are known.
func found(ops []*Op, format string, args ...any) Violation {
	known := slices.DeleteFunc(ops, func(o *Op) bool { return o == nil })
	return Violation{Text: fmt.Sprintf(format, args...), Ops: known}
}

func (s *scene) fenceOrder() (vs []Violation) {
	for i := range s.account[:max(len(s.account)-1, 0)] {
		a, b := s.account[i], s.account[i+1]
		if b.Fence < a.Fence {
			vs = append(vs, found([]*Op{s.writes[a.Value], s.writes[b.Value]},
				"write %d, %q, has fence %d; the one before, %q, has %d", i+2, b.Value, b.Fence, a.Value, a.Fence))
		}
	}
	return vs
}

func (s *scene) oneHolder() (vs []Violation) {
	type tenure struct {
		holder string
		op     *Op
	}
	of := make(map[int64]tenure)
	see := func(fence int64, holder string, o *Op) {
		first, known := of[fence]
		if !known {
			of[fence] = tenure{holder, o}
			return
		}
		if first.holder != holder {
			vs = append(vs, found([]*Op{first.op, o}, "fence %d has two holders, %s and %s", fence, first.holder, holder))
		}
	}
	for _, o := range s.ops {
		if o.Kind == Acquire && o.Result == Done {
			see(o.Fence, o.Holder, o)
		}
	}
	for _, a := range s.account {
		see(a.Fence, a.Holder, s.writes[a.Value])
	}
	return vs
}

// issuedOrder compares each acquisition with the newest that had ended before.
func (s *scene) issuedOrder() (vs []Violation) {
	var acquired []*Op
	for _, o := range s.ops {
		if o.Kind == Acquire && o.Result == Done {
			acquired = append(acquired, o)
		}
	}
	byEnd := slices.Clone(acquired)
	slices.SortStableFunc(byEnd, func(a, b *Op) int { return a.Ended.Compare(b.Ended) })
	var newest *Op
	for _, o := range acquired { // by their beginning
		for len(byEnd) > 0 && byEnd[0].before(o) {
			if newest == nil || byEnd[0].Fence > newest.Fence {
				newest = byEnd[0]
			}
			byEnd = byEnd[1:]
		}
		if newest != nil && o.Fence <= newest.Fence {
			vs = append(vs, found([]*Op{newest, o}, "fence %d was issued after %d", o.Fence, newest.Fence))
		}
	}
	return vs
}

// staleWrite looks at what follows in the account after each value that was
// read.
func (s *scene) staleWrite() (vs []Violation) {
	least := make([]Accepted, len(s.account)+1) // the oldest fence from a place on
	for i := len(s.account) - 1; i >= 0; i-- {
		least[i] = s.account[i]
		if next := least[i+1]; next.Fence != 0 && next.Fence < least[i].Fence {
			least[i] = next
		}
	}
	for _, o := range s.ops {
		if o.Kind != Read || o.Result != Done || o.Value != "" && s.place[o.Value] == 0 {
			continue
		}
		if late := least[s.place[o.Value]]; late.Fence != 0 && late.Fence < o.Fence {
			vs = append(vs, found([]*Op{o, s.writes[late.Value]},
				"%q by fence %d was accepted after fence %d had read", late.Value, late.Fence, o.Fence))
		}
	}
	return vs
}

func (s *scene) lostUpdate() (vs []Violation) {
	before := ""
	for i, a := range s.account {
		if a.Saw != before {
			vs = append(vs, found([]*Op{s.writes[before], s.writes[a.Value]},
				"write %d, %q, replaced %q, and its writer had seen %q", i+1, a.Value, before, a.Saw))
		}
		before = a.Value
	}
	return vs
}

func (s *scene) lostWrite() (vs []Violation) {
	times := make(map[string]int)
	for _, a := range s.account {
		times[a.Value]++
	}
	for _, o := range s.ops {
		if o.Kind != Write {
			continue
		}
		n := times[o.Value]
		if n > 1 || n == 0 && o.Result == Done {
			vs = append(vs, found([]*Op{o}, "%q was %s, and is there %d times", o.Value, told(o.Result), n))
		}
	}
	return vs
}

func told(r Result) string {
	if r == Never {
		return "not answered"
	}
	return string(r)
}

func (s *scene) falseRefusal() (vs []Violation) {
	for _, o := range s.ops {
		if o.Kind == Write && (o.Result == Refused || o.Result == Failed) && s.place[o.Value] > 0 {
			vs = append(vs, found([]*Op{o}, "%q is there, and its writer was told that it %s", o.Value, o.Result))
		}
	}
	return vs
}

// oldRead compares each read with the last write that was acknowledged before it
// began.
func (s *scene) oldRead() (vs []Violation) {
	var acknowledged []*Op
	for _, o := range s.ops {
		if o.Kind == Write && o.Result == Done && s.place[o.Value] > 0 {
			acknowledged = append(acknowledged, o)
		}
	}
	slices.SortStableFunc(acknowledged, func(a, b *Op) int { return a.Ended.Compare(b.Ended) })
	var newest *Op
	for _, o := range s.ops {
		if o.Kind != Read || o.Result != Done {
			continue
		}
		for len(acknowledged) > 0 && acknowledged[0].before(o) {
			if newest == nil || s.place[acknowledged[0].Value] > s.place[newest.Value] {
				newest = acknowledged[0]
			}
			acknowledged = acknowledged[1:]
		}
		if newest != nil && s.place[o.Value] < s.place[newest.Value] {
			vs = append(vs, found([]*Op{newest, o}, "%q was read after %q had been acknowledged", o.Value, newest.Value))
		}
	}
	return vs
}

func (s *scene) strangeValue() (vs []Violation) {
	for _, a := range s.account {
		if s.writes[a.Value] == nil {
			vs = append(vs, found(nil, "%q was accepted, and nobody has written it", a.Value))
		}
	}
	for _, o := range s.ops {
		if o.Kind == Read && o.Result == Done && o.Value != "" && s.place[o.Value] == 0 {
			vs = append(vs, found([]*Op{o, s.writes[o.Value]}, "%q was read, and is not among what was accepted", o.Value))
		}
	}
	return vs
}
