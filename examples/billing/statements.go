package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/examples/billing/internal/ledger"
	"github.com/fenced-go/fenced/examples/billing/internal/nightly"
	"github.com/fenced-go/fenced/fencedstore"
)

// fileRefused is told by a worker whose statement was refused.
const fileRefused nightly.Kind = "file refused"

// withStatements is a ledger that writes a statement file beside each invoice.
type withStatements struct {
	nightly.Ledger
	files   files
	observe func(nightly.Event)
}

// Bill writes the statement, then the invoice. Either store refuses a stale
// worker by itself. They are not one step: should the invoice fail, the account
// is still to be billed, and the next run writes the same statement again.
//
// A service would stop at the first refusal. This one goes on, for the story: the
// database refuses the invoice as well.
func (w withStatements) Bill(ctx context.Context, inv ledger.Invoice, balance int64) error {
	err := w.files.write(ctx, inv.AccountID, statement(inv))
	if errors.Is(err, fencedstore.ErrStale) {
		f, _ := fencedstore.FromContext(ctx) // who was refused had one
		w.observe(nightly.Event{Kind: fileRefused, Fence: f.ID, Account: inv.AccountID, Err: err.Error()})
	} else if err != nil {
		return fmt.Errorf("statement: %w", err)
	}
	return w.Ledger.Bill(ctx, inv, balance)
}

func statementKey(account int64) string { return fmt.Sprintf("statements/%05d.csv", account) }

func statement(inv ledger.Invoice) string {
	return fmt.Sprintf("account,night,cents\n%d,%s,%d\n", inv.AccountID, inv.Night.Format(time.DateOnly), inv.Amount)
}

// auditStatements compares what each account was billed with its statement:
// how many there should be, and how many are missing or say something else.
func auditStatements(ctx context.Context, conn *pgx.Conn, from files) (all, wrong int, err error) {
	rows, _ := conn.Query(ctx, "SELECT account_id, night, sum(amount)::bigint FROM invoices GROUP BY account_id, night")
	billed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ledger.Invoice])
	if err != nil {
		return 0, 0, err
	}
	for _, inv := range billed {
		text, err := from.read(ctx, inv.AccountID)
		if err != nil {
			return 0, 0, err
		}
		if text != statement(inv) {
			wrong++
		}
	}
	return len(billed), wrong, nil
}
