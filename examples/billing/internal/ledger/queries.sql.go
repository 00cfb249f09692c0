package ledger

import (
	"context"
	"time"
)

const unbilledAccounts = `-- name: UnbilledAccounts :many
SELECT id FROM accounts a
WHERE NOT EXISTS (SELECT FROM invoices i WHERE i.account_id = a.id AND i.night = $1)
ORDER BY id
`

// UnbilledAccounts lists the accounts that have no invoice for night.
func (q *Queries) UnbilledAccounts(ctx context.Context, night time.Time) ([]int64, error) {
	rows, err := q.db.Query(ctx, unbilledAccounts, night)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var items []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		items = append(items, id)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return items, nil
}

const getAccount = `-- name: GetAccount :one
SELECT id, usage, balance FROM accounts WHERE id = $1
`

// GetAccount reads one account.
func (q *Queries) GetAccount(ctx context.Context, id int64) (Account, error) {
	row := q.db.QueryRow(ctx, getAccount, id)
	var i Account
	err := row.Scan(&i.ID, &i.Usage, &i.Balance)
	return i, err
}

const createInvoice = `-- name: CreateInvoice :exec
INSERT INTO invoices (account_id, night, amount) VALUES ($1, $2, $3)
`

// CreateInvoice adds an invoice.
func (q *Queries) CreateInvoice(ctx context.Context, arg Invoice) error {
	_, err := q.db.Exec(ctx, createInvoice, arg.AccountID, arg.Night, arg.Amount)
	return err
}

const setBalance = `-- name: SetBalance :exec
UPDATE accounts SET balance = $2 WHERE id = $1
`

// SetBalance sets what an account owes.
func (q *Queries) SetBalance(ctx context.Context, id, balance int64) error {
	_, err := q.db.Exec(ctx, setBalance, id, balance)
	return err
}

const openAccounts = `-- name: OpenAccounts :exec
INSERT INTO accounts (id, usage, opening, balance)
SELECT n, 10 + n, 500, 500 FROM generate_series(1, $1::bigint) n
`

// OpenAccounts adds the accounts 1 to count.
func (q *Queries) OpenAccounts(ctx context.Context, count int64) error {
	_, err := q.db.Exec(ctx, openAccounts, count)
	return err
}

const audit = `-- name: Audit :one
SELECT (SELECT count(*) FROM accounts) AS accounts,
       (SELECT count(*) FROM invoices) AS invoices,
       (SELECT count(*) FROM invoices) - (SELECT count(*) FROM (SELECT DISTINCT account_id, night FROM invoices) once) AS duplicates,
       (SELECT count(*) FROM accounts a
         WHERE balance <> opening + (SELECT coalesce(sum(amount), 0) FROM invoices i WHERE i.account_id = a.id)) AS wrong_balances
`

// Audit counts everything.
func (q *Queries) Audit(ctx context.Context) (Audit, error) {
	row := q.db.QueryRow(ctx, audit)
	var i Audit
	err := row.Scan(&i.Accounts, &i.Invoices, &i.Duplicates, &i.WrongBalances)
	return i, err
}

const openJobs = `-- name: OpenJobs :exec
INSERT INTO jobs (id) SELECT id FROM accounts
`

// OpenJobs adds a job for each account.
func (q *Queries) OpenJobs(ctx context.Context) error {
	_, err := q.db.Exec(ctx, openJobs)
	return err
}

const jobsLeft = `-- name: JobsLeft :one
SELECT count(*) FROM jobs WHERE done_at IS NULL
`

// JobsLeft counts the jobs that are not done.
func (q *Queries) JobsLeft(ctx context.Context) (int64, error) {
	row := q.db.QueryRow(ctx, jobsLeft)
	var count int64
	err := row.Scan(&count)
	return count, err
}
