package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fenced-go/fenced/examples/billing/internal/ledger"
	"github.com/fenced-go/fenced/examples/billing/internal/nightly"
)

// timeline prints what happens: elapsed time, worker, event, fence ID.
type timeline struct {
	w     io.Writer
	began time.Time
}

func newTimeline(w io.Writer) *timeline { return &timeline{w: w, began: time.Now()} }

func (t *timeline) title(cfg config, where string) {
	t.printf("Billing of %s: %d accounts, %d workers, a lease of %v.\n%s\n\n",
		night.Format(time.DateOnly), cfg.accounts, cfg.workers, cfg.ttl, where)
	t.printf("%9s  %-9s  %-62s  %s\n", "elapsed", "worker", "event", "fence")
}

func (t *timeline) line(worker int, what string, fence int64) {
	id := "-"
	if fence > 0 {
		id = fmt.Sprint(fence)
	}
	t.printf("%8.3fs  %-9s  %-62s  %s\n", time.Since(t.began).Seconds(), fmt.Sprint("worker ", worker), what, id)
}

func (t *timeline) event(e event) {
	if what := describe(e.Event); what != "" {
		t.line(e.worker, what, e.Fence)
	}
}

func describe(e nightly.Event) string {
	switch e.Kind {
	case nightly.Waiting:
		return "wants the lock"
	case nightly.Acquired:
		return "acquired the lock"
	case nightly.Asked:
		return "asks whether the night is billed"
	case nightly.Began:
		return "began the transaction that bills it"
	case nightly.Takes:
		return "takes jobs"
	case stalled:
		return fmt.Sprintf("read account %d, and stalls before it writes", e.Account)
	case nightly.Finished:
		return fmt.Sprintf("finished: billed %d accounts, nothing is left", e.Billed)
	case fileRefused:
		return fmt.Sprintf("statement %d refused by the bucket: %s", e.Account, reason(e.Err))
	case nightly.Refused:
		return fmt.Sprintf("account %d refused by the store: %s", e.Account, reason(e.Err))
	case nightly.Failed:
		return "failed: " + e.Err
	}
	if e.Err != "" {
		return "ended: " + e.Err
	}
	return ""
}

// reason is the store's verdict within a longer error.
func reason(err string) string {
	for part := range strings.SplitSeq(err, ": ") {
		if strings.Contains(part, "was claimed") {
			id, _, _ := strings.Cut(part, ";")
			return id
		}
	}
	return err
}

// audit prints the last line; scripts may read it.
func (t *timeline) audit(a ledger.Audit, refused, files int) {
	t.printf("\nbalances: %d agree with the invoices, %d do not\n", a.Accounts-a.WrongBalances, a.WrongBalances)
	if a.Statements > 0 {
		t.printf("statements: %d agree with the invoices, %d do not, %d stale ones refused\n", a.Statements-a.WrongStatements, a.WrongStatements, files)
	}
	t.printf("audit: %d accounts, %d invoices, %d duplicates, %d stale writes refused\n",
		a.Accounts, a.Invoices, a.Duplicates, refused)
}

func (t *timeline) printf(format string, args ...any) { _, _ = fmt.Fprintf(t.w, format, args...) }
