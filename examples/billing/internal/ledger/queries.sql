-- name: UnbilledAccounts :many
SELECT id FROM accounts a
WHERE NOT EXISTS (SELECT FROM invoices i WHERE i.account_id = a.id AND i.night = $1)
ORDER BY id;

-- name: GetAccount :one
SELECT id, usage, balance FROM accounts WHERE id = $1;

-- name: CreateInvoice :exec
INSERT INTO invoices (account_id, night, amount) VALUES ($1, $2, $3);

-- name: SetBalance :exec
UPDATE accounts SET balance = $2 WHERE id = $1;

-- name: OpenAccounts :exec
INSERT INTO accounts (id, usage, opening, balance)
SELECT n, 10 + n, 500, 500 FROM generate_series(1, $1::bigint) n;

-- name: Audit :one
SELECT (SELECT count(*) FROM accounts) AS accounts,
       (SELECT count(*) FROM invoices) AS invoices,
       (SELECT count(*) FROM invoices) - (SELECT count(*) FROM (SELECT DISTINCT account_id, night FROM invoices) once) AS duplicates,
       (SELECT count(*) FROM accounts a
         WHERE balance <> opening + (SELECT coalesce(sum(amount), 0) FROM invoices i WHERE i.account_id = a.id)) AS wrong_balances;

-- name: OpenJobs :exec
INSERT INTO jobs (id) SELECT id FROM accounts;

-- name: JobsLeft :one
SELECT count(*) FROM jobs WHERE done_at IS NULL;
