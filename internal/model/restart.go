package model

// Restart is a quorum by the right way whose nodes may come back empty, with
// proposals from clocks. Such a node does not vote for a while. This model has
// time, in ticks, and no locks.
type Restart struct {
	Nodes, Majority, Attempts int
	// Off is how far a clock may be from the time, either way.
	Off int
	// Deadline is for how long after it has begun an attempt may count votes.
	Deadline int
	// Wait is for how long after it lost its data a node does not vote.
	Wait int
	// Losses is how often a node may lose its data, over all nodes.
	Losses int
	// End is when time ends.
	End int
}

// Model is the protocol as steps.
func (r Restart) Model() Model[restartState] { return Model[restartState]{Steps: r.steps} }

// restartState is comparable, and as small as it can be: what is over looks the
// same whenever it was.
type restartState struct {
	now      uint8 // while there is somebody to look at a clock
	nodes    [maxNodes]votingNode
	attempts [maxAttempts]timedAttempt
	losses   uint8
}

type votingNode struct {
	counter uint8
	wait    uint8 // until it votes
	used    bool
}

type timedAttempt struct {
	begun    bool
	got      bool
	left     uint8 // 1 + the ticks in which it may still count; 0: it is over
	p        uint8
	accepted set
	before   set
}

type ticks = func(Step[restartState])

func (r Restart) steps(s restartState, ticks ticks) {
	for i := range r.Attempts {
		r.begin(s, i, ticks)
		for k := range r.Nodes {
			r.execute(s, i, k, ticks)
		}
		r.decide(s, i, ticks)
	}
	for k := range r.Nodes {
		r.lose(s, k, ticks)
	}
	r.tick(s, ticks)
}

func (r Restart) tick(s restartState, ticks ticks) {
	if int(s.now) == r.End {
		return
	}
	before := s
	if !s.attempts[r.Attempts-1].begun {
		s.now++
	}
	for k := range s.nodes {
		s.nodes[k].wait -= min(s.nodes[k].wait, 1)
	}
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.left == 1 {
			a.accepted, a.before = 0, 0
		}
		a.left -= min(a.left, 1)
	}
	if s != before {
		ticks(Step[restartState]{Text: Text{Format: "a tick of the clocks"}, To: s})
	}
}

// begin proposes what a clock shows, which is never below 1 here.
func (r Restart) begin(s restartState, i int, ticks ticks) {
	if s.attempts[i].begun || i > 0 && !s.attempts[i-1].begun {
		return
	}
	var before set
	for j, a := range s.attempts {
		if a.got {
			before.add(j)
		}
	}
	for off := -r.Off; off <= r.Off; off++ {
		p := uint8(1 + r.Off + int(s.now) + off)
		s.attempts[i] = timedAttempt{begun: true, left: uint8(r.Deadline) + 1, p: p, before: before}
		ticks(Step[restartState]{Text: Text{"%c asks all nodes for fence %d", [3]uint8{letter(i), p}}, To: s})
	}
}

// execute has a node execute a request. Those that come after their attempt is
// over are left out: they raise counters, and nothing is accepted for that.
func (r Restart) execute(s restartState, i, k int, ticks ticks) {
	a, n := &s.attempts[i], &s.nodes[k]
	if a.left == 0 || n.wait > 0 || k > 0 && !s.nodes[k-1].used {
		return
	}
	counter, _, ok := Propose.ask(n.counter, a.p)
	if !ok {
		return
	}
	n.counter, n.used = counter, true
	a.accepted.add(k)
	ticks(Step[restartState]{Text: Text{"node %d: accepts %c, counter %d", [3]uint8{number(k), letter(i), counter}}, To: s})
}

func (r Restart) decide(s restartState, i int, ticks ticks) {
	a := &s.attempts[i]
	if a.left == 0 || a.accepted.size() < r.Majority {
		return
	}
	var broken Rule
	for j, b := range s.attempts {
		if b.got {
			broken |= clash(int64(a.p), int64(b.p), a.before.has(j))
		}
	}
	*a = timedAttempt{begun: true, got: true, p: a.p}
	ticks(Step[restartState]{Text: Text{"%c has a majority: fence %d", [3]uint8{letter(i), a.p}}, To: s, Breaks: broken})
}

func (r Restart) lose(s restartState, k int, ticks ticks) {
	n := &s.nodes[k]
	if int(s.losses) == r.Losses || n.counter == 0 {
		return
	}
	s.losses++
	*n = votingNode{wait: uint8(r.Wait), used: true}
	ticks(Step[restartState]{Text: Text{"node %d: loses its data, votes in %d ticks", [3]uint8{number(k), n.wait}}, To: s})
}
