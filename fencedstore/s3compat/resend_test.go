package s3compat

import "testing"

// What to do about a write whose reply was lost, and whose ETag is still the
// old one: send it again, or write a poison, which moves the ETag and changes
// nothing else. The test plays every schedule of a bounded adversary against
// both, in a model of a register.

// A fate is what becomes of one request.
type fate int

const (
	answered  fate = iota // executed, and the caller is told
	unheard               // executed, the answer is lost
	swallowed             // never executed
	delayed               // executed later, the answer is lost
	fates
)

// modelled is a register and the requests on their way to it. All of them are
// conditioned on version 0: the ETag that the caller has seen.
type modelled struct {
	version int
	writes  []byte // of version 1, 2, …: 'w' the write, 'p' a poison, 's' a stranger
	late    []byte
}

// execute is a conditional PUT over version 0.
func (m *modelled) execute(kind byte) (ok bool) {
	if m.version != 0 {
		return false
	}
	m.write(kind)
	return true
}

func (m *modelled) write(kind byte) {
	m.version++
	m.writes = append(m.writes, kind)
}

// send says whether the caller knows more afterwards, and what.
func (m *modelled) send(kind byte, f fate) (heard, ok bool) {
	switch f {
	case answered:
		return true, m.execute(kind)
	case unheard:
		m.execute(kind)
	case delayed:
		m.late = append(m.late, kind)
	case swallowed, fates:
	}
	return false, false
}

func (m *modelled) deliver() {
	for _, kind := range m.late {
		m.execute(kind)
	}
	m.late = nil
}

func (m *modelled) applied() int {
	n := 0
	for _, kind := range m.writes {
		if kind == 'w' {
			n++
		}
	}
	return n
}

// A round is what the adversary does before and with one request of the caller.
type round struct {
	deliver, stranger bool
	f                 fate
}

// rounds are all there are.
func rounds() []round {
	var all []round
	for f := range fates {
		for _, deliver := range []bool{false, true} {
			for _, stranger := range []bool{false, true} {
				all = append(all, round{deliver, stranger, f})
			}
		}
	}
	return all
}

// settled is how one schedule ended.
type settled struct {
	final   bool // the caller has a verdict
	verdict bool // its write was applied
	sent    int
}

// play sends the write, and then kind until an answer is final, under one
// schedule.
func play(t *testing.T, kind byte, first fate, schedule []round) settled {
	t.Helper()
	m := new(modelled)
	m.send('w', first)
	got := settled{sent: 1}
	for _, r := range schedule {
		if r.deliver {
			m.deliver()
		}
		if r.stranger {
			m.write('s')
		}
		got.sent++
		heard, ok := m.send(kind, r.f)
		if !heard {
			continue
		}
		got.final = true
		got.verdict = ok && kind == 'w' || m.writes[0] == 'w' // the history of the version after the base
		break
	}
	if !got.final {
		return got
	}
	truth := m.applied()
	if got.verdict != (truth == 1) {
		t.Fatalf("%c, %v %+v: verdict %t, the write was applied %d times", kind, first, schedule, got.verdict, truth)
	}
	m.deliver()
	if after := m.applied(); after != truth {
		t.Fatalf("%c, %v %+v: the write landed after the verdict", kind, first, schedule)
	}
	return got
}

func TestSendingAgainSettlesWhateverAPoisonSettles(t *testing.T) {
	t.Parallel()
	var schedules, final, saved int
	all := rounds()
	for _, first := range []fate{unheard, swallowed, delayed} {
		for _, a := range all {
			for _, b := range all {
				for _, c := range all {
					schedule := []round{a, b, c}
					again, poison := play(t, 'w', first, schedule), play(t, 'p', first, schedule)
					schedules++
					if again.final != poison.final || again.sent != poison.sent {
						t.Fatalf("%v %+v: sent again %+v, poisoned %+v", first, schedule, again, poison)
					}
					if poison.verdict && !again.verdict {
						t.Fatalf("%v %+v: the poison lets a write through that is lost when sent again", first, schedule)
					}
					if again.final {
						final++
					}
					if again.verdict && !poison.verdict {
						saved++
					}
				}
			}
		}
	}
	t.Logf("%d schedules, %d of them come to a verdict; in %d the poison has spoilt the write", schedules, final, saved)
	if final == 0 || final == schedules || saved == 0 {
		t.Error("the model shows nothing")
	}
}

// A verdict that trusts a look at the register, without a write that moves the
// ETag, is what the model refutes: it is able to.
func TestALookAloneIsRefutedByTheModel(t *testing.T) {
	t.Parallel()
	m := new(modelled)
	m.send('w', delayed)
	if looked := m.applied(); looked != 0 {
		t.Fatalf("applied %d times before it was delivered", looked)
	}
	if m.deliver(); m.applied() != 1 {
		t.Error("what was on its way did not land")
	}
}
