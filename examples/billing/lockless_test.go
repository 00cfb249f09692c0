package main

import (
	"regexp"
	"testing"

	"github.com/fenced-go/fenced/internal/testenv"
)

// lockless is what a reader sees when the database alone keeps workers apart.
var lockless = map[string]*regexp.Regexp{
	modeOnce: regexp.MustCompile(`(?s)No lock: .*` +
		`worker 1 +began the transaction that bills it +-\n.*` +
		`worker 1 +read account 5, and stalls before it writes +-\n.*` +
		`worker [23] +began the transaction that bills it +-\n.*` +
		`worker [23] +finished: billed 12 accounts, nothing is left +-\n.*` +
		`worker 1 +wakes up, and writes the invoice +-\n.*` +
		`worker 1 +account 5 refused by the store: the server ended its transaction +-\n.*` +
		`worker 1 +finished: billed 0 accounts, nothing is left +-\n.*` +
		`\nbalances: 12 agree with the invoices, 0 do not\n` +
		`audit: 12 accounts, 12 invoices, 0 duplicates, 1 stale writes refused\n$`),
	modeQueue: regexp.MustCompile(`(?s)No lock: .*` +
		`worker 1 +takes jobs +-\n.*` +
		`worker 1 +read account 5, and stalls before it writes +-\n.*` +
		`worker [23] +finished: billed \d+ accounts, nothing is left +-\n.*` +
		`worker 1 +wakes up, and writes the invoice +-\n.*` +
		`worker 1 +account 5 refused by the store: 2 was claimed +1\n.*` +
		`\nbalances: 12 agree with the invoices, 0 do not\n` +
		`audit: 12 accounts, 12 invoices, 0 duplicates, 1 stale writes refused\n$`),
}

func TestStoppedProcessDoesNoHarmWithoutALock(t *testing.T) {
	t.Parallel()
	for mode, story := range lockless {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := testenv.Database(t)
			for range 2 { // the second run finds what the first one left
				out, stderr := run(t, 0, "-mode", mode, "-postgres", db, "-workers", "3", "-ttl", "400ms")
				if !story.MatchString(out) || stderr != "" {
					t.Errorf("this is not the story:\n%s%s", out, stderr)
				}
			}
		})
	}
}
