package model

type happens = func(Step[quorumState])

func (q Quorum) steps(s quorumState, happens happens) {
	for i := range q.Attempts {
		q.begin(s, i, happens)
		for k := range q.Nodes {
			q.execute(s, i, k, happens)
		}
		q.decide(s, i, happens)
		q.giveUp(s, i, happens)
	}
	for k := range q.Nodes {
		q.expire(s, k, happens)
		q.lose(s, k, happens)
	}
}

// begin sends a request to all nodes. Attempts are alike, so they are lettered
// in the order in which they begin.
func (q Quorum) begin(s quorumState, i int, happens happens) {
	if s.attempts[i].begun || i > 0 && !s.attempts[i-1].begun {
		return
	}
	var before set
	for j, a := range s.attempts {
		if a.end == acquired {
			before.add(j)
		}
	}
	for p := min(1, q.Highest); p <= q.Highest; p++ {
		s.attempts[i] = attempt{begun: true, p: uint8(p), pending: 1<<q.Nodes - 1, before: before}
		text := Text{"%c asks all nodes for fence %d", [3]uint8{letter(i), uint8(p)}}
		if p == 0 {
			text.Format = "%c asks all nodes"
		}
		happens(Step[quorumState]{Text: text, To: s})
	}
}

// execute has a node execute a request. Nodes are alike, so they are numbered in
// the order in which they first do that. A request that is refused stays, as if
// it came later: nobody learns anything from a refusal that it could not guess.
func (q Quorum) execute(s quorumState, i, k int, happens happens) {
	a, n := &s.attempts[i], &s.nodes[k]
	if !a.pending.has(k) || k > 0 && !s.nodes[k-1].used || q.Locks && !n.serves(i) && !a.writing {
		return
	}
	ask := q.Way.ask
	if a.writing {
		ask = q.Way.write
	}
	counter, told, ok := ask(n.counter, a.p)
	if !ok {
		return
	}
	n.counter, n.used = counter, true
	if q.Locks && !a.writing {
		n.owner = number(i)
	}
	if !q.Repeats {
		a.pending.remove(k)
	}
	text := "node %d: %c comes too late, counter %d"
	if a.end == open {
		a.accepted.add(k)
		a.fence = max(a.fence, told)
		text = "node %d: accepts %c, counter %d"
	}
	happens(Step[quorumState]{Text: Text{text, [3]uint8{number(k), letter(i), counter}}, To: s})
}

func (n node) serves(i int) bool { return n.owner == 0 || n.owner == number(i) }

// decide has an attempt count what was accepted.
func (q Quorum) decide(s quorumState, i int, happens happens) {
	a := &s.attempts[i]
	if a.end != open || a.accepted.size() < q.Majority {
		return
	}
	if q.Way.write != nil && !a.writing {
		a.writing, a.p, a.pending, a.accepted = true, a.fence+1, a.accepted, 0
		happens(Step[quorumState]{Text: Text{"%c has read a majority, and writes %d to it", [3]uint8{letter(i), a.p}}, To: s})
		return
	}
	var broken Rule
	for j, b := range s.attempts {
		if b.end == acquired {
			broken |= clash(int64(a.fence), int64(b.fence), a.before.has(j))
		}
	}
	a.end, a.accepted, a.before = acquired, 0, 0
	happens(Step[quorumState]{Text: Text{"%c has a majority: fence %d", [3]uint8{letter(i), a.fence}}, To: s, Breaks: broken})
}

// giveUp matters only where somebody waits for it: a lock that stays as long as
// its attempt is not over.
func (q Quorum) giveUp(s quorumState, i int, happens happens) {
	a := &s.attempts[i]
	if !a.begun || a.end != open || !q.Locks || q.Expiry {
		return
	}
	a.end, a.accepted, a.before = givenUp, 0, 0
	happens(Step[quorumState]{Text: Text{"%c gives up", [3]uint8{letter(i)}}, To: s})
}

// expire has a lock go: it was released, or its lease has ended.
func (q Quorum) expire(s quorumState, k int, happens happens) {
	n := &s.nodes[k]
	if n.owner == 0 || !q.Expiry && s.attempts[n.owner-1].end == open {
		return
	}
	text := Text{"node %d: the lock of %c goes", [3]uint8{number(k), letter(int(n.owner) - 1)}}
	n.owner = 0
	happens(Step[quorumState]{Text: text, To: s})
}

func (q Quorum) lose(s quorumState, k int, happens happens) {
	if int(s.losses) == q.Losses || s.nodes[k].counter == 0 {
		return
	}
	s.losses++
	s.nodes[k] = node{used: true}
	happens(Step[quorumState]{Text: Text{"node %d: loses its data", [3]uint8{number(k)}}, To: s})
}
