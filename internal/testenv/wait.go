package testenv

import (
	"fmt"
	"testing"
	"time"
)

// pollEvery is short against everything that is waited for.
const pollEvery = 2 * time.Millisecond

// readyWithin bounds the start of a server on a loaded machine.
const readyWithin = 60 * time.Second

// Eventually polls ok until it says true, and fails the test when within has
// passed before. what completes the sentence "not within 5s: …".
func Eventually(tb testing.TB, within time.Duration, what string, ok func() bool) {
	tb.Helper()
	if !poll(within, ok) {
		tb.Fatalf("not within %v: %s", within, what)
	}
}

func poll(within time.Duration, ok func() bool) bool {
	deadline := time.Now().Add(within)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
	}
	return true
}

// waitReady polls probe until it succeeds, the server ends, or the time is up.
func waitReady(s Server, probe func() error) error {
	var err error
	ended := false
	ok := poll(readyWithin, func() bool {
		select {
		case <-s.Exited():
			ended = true
			return true
		default:
		}
		err = probe()
		return err == nil
	})
	switch {
	case ended:
		return fmt.Errorf("the server ended while starting: %s", s.Log())
	case !ok:
		return fmt.Errorf("the server was not ready within %v: %w: %s", readyWithin, err, s.Log())
	}
	return nil
}
