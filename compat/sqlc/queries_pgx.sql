-- name: WithdrawEach :batchexec
UPDATE account SET balance = balance - sqlc.arg(amount) WHERE id = sqlc.arg(id);

-- name: AddEntries :copyfrom
INSERT INTO entry (account, amount) VALUES ($1, $2);
