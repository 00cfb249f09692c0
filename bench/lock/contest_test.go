package main

import (
	"errors"
	"net"
	"testing"
	"time"
)

// sink is a connection that takes everything.
type sink struct{ net.Conn }

func (sink) Write(b []byte) (int, error) { return len(b), nil }

func TestWireCountsCommandsHoweverTheyAreWritten(t *testing.T) {
	const text = "*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$7\r\n*9\r\n$1\r\n$0\r\n\r\n"
	for size := 1; size <= len(text); size++ {
		w := &wire{}
		c := &wireConn{Conn: sink{}, wire: w}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := c.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if got := w.sent.Load(); got != 2 {
			t.Errorf("in writes of %d bytes: got %d commands, want 2", size, got)
		}
	}
}

func TestOutcomeIsThatOfTheTenures(t *testing.T) {
	var o outcome
	err := o.judge([]report{
		{Commands: 5, Tenures: []tenure{{Waiter: 0, Fence: 1, Asked: 0, From: 0, To: 10}, {Waiter: 1, Fence: 3, Asked: 2, From: 25, To: 35}}},
		{Commands: 1, Tenures: []tenure{{Waiter: 0, Fence: 2, Asked: 1, From: 13, To: 20}, {Waiter: 0, Fence: 4, Asked: 40, From: 41, To: 50}}},
	})
	if err != nil || o.percentile(0) != 3 || o.percentile(1) != 5 || len(o.handOff) != 2 {
		t.Errorf("hand-offs %v, %v, want 3 and 5: for the last nobody waited", o.handOff, err)
	}
	if commands(o) != 1.5 || o.longest != 23*time.Nanosecond || jain(o) < 0.88 || jain(o) > 0.9 {
		t.Errorf("%v commands, longest wait %v, Jain %v of %v", commands(o), o.longest, jain(o), o.counts)
	}
}

func TestTwoInsideAndAFenceThatFallsAreErrors(t *testing.T) {
	for name, second := range map[string]tenure{
		"two inside":     {Fence: 2, From: 9, To: 20},
		"the same fence": {Fence: 1, From: 11, To: 20},
	} {
		err := new(outcome).judge([]report{{Tenures: []tenure{{Fence: 1, From: 0, To: 10}, second}}})
		if !errors.Is(err, errTwoInside) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
