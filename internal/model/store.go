package model

// Bounds of what a state has room for.
const maxTenures = 4

// Store is a resource whose store decides, and tenures of it.
//
// Any number of tenures may be under way at once: leases end at any moment, and
// their holders go on or stop wherever they are. A tenure gets a fence, claims
// it, reads if it likes, and writes once.
type Store struct {
	Tenures int
	// Arbitrary: the lock hands out any of 1 to Highest to anybody. Otherwise it
	// is one Redis, which counts.
	Arbitrary bool
	Highest   int
	// Losses is how often Redis loses its data.
	Losses int
	// Floor: who is refused by the store asks for a fence above its mark.
	Floor bool
	// Claims: the mark is raised before the holder does anything. Otherwise the
	// first thing that it does raises it.
	Claims bool
	// Holders: the store tells apart holders of one fence.
	Holders bool
}

// Model is the protocol as steps.
func (m Store) Model() Model[storeState] {
	lacks := m.lacks
	if m.Arbitrary {
		lacks = nil // nothing can be said about when a lock like this serves
	}
	return Model[storeState]{Steps: m.steps, Lacks: lacks}
}

// storeState is comparable, and as small as it can be.
type storeState struct {
	tenures [maxTenures]tenure
	counter uint8 // of Redis
	losses  uint8
	mark    mark
	value   uint8 // how often it was written
	got     set   // tenures that were handed out
	worked  set   // those that have read or written
}

// mark is the newest fence that the store knows. Its holder is 1 + the tenure.
type mark struct{ fence, holder uint8 }

type tenure struct {
	at     stage
	fence  uint8
	floor  uint8
	read   uint8 // 1 + the value that it read
	before set   // tenures that had been handed out when this one was asked for
}

type stage uint8

const (
	unborn stage = iota
	asking
	claiming
	holding
	over
)

type occurs = func(Step[storeState])

func (m Store) steps(s storeState, occurs occurs) {
	for i := range m.Tenures {
		switch s.tenures[i].at {
		case unborn:
			m.ask(s, i, occurs)
		case asking:
			m.grant(s, i, occurs)
		case claiming:
			m.claim(s, i, occurs)
		case holding:
			m.read(s, i, occurs)
			m.write(s, i, occurs)
		case over:
		}
	}
	if int(s.losses) < m.Losses && s.counter > 0 {
		s.losses++
		s.counter = 0
		occurs(Step[storeState]{Text: Text{Format: "Redis loses its data"}, To: s})
	}
}

// ask begins a tenure. They are alike, so they are lettered in the order in
// which they begin.
func (m Store) ask(s storeState, i int, occurs occurs) {
	if i > 0 && s.tenures[i-1].at == unborn {
		return
	}
	s.tenures[i] = tenure{at: asking, before: s.got}
	occurs(Step[storeState]{Text: Text{"%c asks for the lock", [3]uint8{letter(i)}}, To: s})
}

// grant has the lock hand out a fence.
func (m Store) grant(s storeState, i int, occurs occurs) {
	from, to := 1, m.Highest
	if !m.Arbitrary {
		s.counter = max(s.counter, s.tenures[i].floor) + 1
		from, to = int(s.counter), int(s.counter)
	}
	for fence := from; fence <= to; fence++ {
		t := s
		t.tenures[i].fence, t.tenures[i].floor, t.tenures[i].at = uint8(fence), 0, claiming
		var broken Rule
		if !m.Claims {
			broken = t.handOut(i)
		}
		occurs(Step[storeState]{Text: Text{"%c gets fence %d", [3]uint8{letter(i), uint8(fence)}}, To: t, Breaks: broken})
	}
}

// handOut makes a tenure one that its holder knows of.
func (s *storeState) handOut(i int) (broken Rule) {
	a := &s.tenures[i]
	for j, b := range s.tenures {
		if s.got.has(j) {
			broken |= clash(int64(a.fence), int64(b.fence), a.before.has(j))
		}
	}
	a.at = holding
	s.got.add(i)
	return broken
}

// claim raises the mark, in a step of its own.
func (m Store) claim(s storeState, i int, occurs occurs) {
	a := &s.tenures[i]
	text := Text{"%c claims %d", [3]uint8{letter(i), a.fence}}
	var broken Rule
	switch {
	case m.raises(s.mark, i, a.fence):
		s.mark = mark{a.fence, number(i)}
		broken = s.handOut(i)
	case m.Floor:
		text = Text{"%c claims %d, and is refused: the mark is %d", [3]uint8{letter(i), a.fence, s.mark.fence}}
		a.at, a.floor = asking, s.mark.fence
	default:
		text.Format += ", and is refused"
		a.at = over
	}
	occurs(Step[storeState]{Text: text, To: s, Breaks: broken})
}

// raises says whether a store takes a fence that it may not know yet.
func (m Store) raises(at mark, i int, fence uint8) bool {
	return fence > at.fence || m.same(at, i, fence)
}

func (m Store) same(at mark, i int, fence uint8) bool {
	return fence == at.fence && (!m.Holders || at.holder == number(i))
}

// guard is what comes before a read or write: with claims a comparison.
func (m Store) guard(s *storeState, i int) bool {
	fence := s.tenures[i].fence
	if m.Claims {
		return m.same(s.mark, i, fence)
	}
	if !m.raises(s.mark, i, fence) {
		return false
	}
	s.mark = mark{fence, number(i)}
	return true
}

// read is a plain one under a claim, since that has fenced everybody older.
func (m Store) read(s storeState, i int, occurs occurs) {
	a := &s.tenures[i]
	if a.read != 0 || !m.Claims && !m.guard(&s, i) {
		return
	}
	a.read = s.value + 1
	s.worked.add(i)
	occurs(Step[storeState]{Text: Text{"%c reads %d", [3]uint8{letter(i), s.value}}, To: s})
}

func (m Store) write(s storeState, i int, occurs occurs) {
	if !m.guard(&s, i) {
		return
	}
	a := &s.tenures[i]
	var broken Rule
	for j, b := range s.tenures {
		if s.worked.has(j) && b.before.has(i) {
			broken |= NoStaleWrite
		}
	}
	if a.read != 0 && a.read != s.value+1 {
		broken |= NoLostUpdate
	}
	s.value++
	s.worked.add(i)
	a.at, a.read = over, 0
	occurs(Step[storeState]{Text: Text{"%c writes under %d, accepted", [3]uint8{letter(i), a.fence}}, To: s, Breaks: broken})
}

// lacks says whether a holder that is alone from now on would be refused twice,
// once with the fence that Redis hands out now, and once with the next one.
func (m Store) lacks(s storeState) Rule {
	const nobody = maxTenures
	first := s.counter + 1
	if m.raises(s.mark, nobody, first) {
		return 0
	}
	second := first + 1
	if m.Floor {
		second = max(first, s.mark.fence) + 1
	}
	if m.raises(s.mark, nobody, second) {
		return 0
	}
	return Served
}
