package ledger

import "time"

// Account is a customer.
type Account struct {
	ID int64
	// Usage is what was used and not billed yet, in units.
	Usage int64
	// Balance is what is owed, in cents.
	Balance int64
}

// Invoice is what an account is billed for one night.
type Invoice struct {
	AccountID int64
	Night     time.Time
	// Amount is in cents.
	Amount int64
}

// Audit is the ledger counted through.
type Audit struct {
	Accounts, Invoices int
	// Duplicates is the number of invoices beyond one for an account and night.
	Duplicates int
	// WrongBalances is the number of accounts that do not owe what their
	// invoices add up to: of two writes, the later overwrote the earlier.
	WrongBalances int
	// Statements is the number of accounts that should have a statement file,
	// WrongStatements how many of them have one that says otherwise.
	Statements, WrongStatements int
}
