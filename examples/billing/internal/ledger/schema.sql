CREATE TABLE accounts (
  id      bigint PRIMARY KEY,
  usage   bigint NOT NULL, -- units used and not billed yet
  opening bigint NOT NULL, -- cents owed before the night
  balance bigint NOT NULL  -- cents owed
);

CREATE TABLE invoices (
  account_id bigint NOT NULL REFERENCES accounts (id),
  night      date   NOT NULL,
  amount     bigint NOT NULL, -- cents
  -- The fence keeps a late worker out; this keeps one worker from billing
  -- twice, which is something else.
  CONSTRAINT invoice_once UNIQUE (account_id, night)
);

-- The queue of -mode queue: one job for each account and the night.
CREATE TABLE jobs (
  id      bigint PRIMARY KEY REFERENCES accounts (id),
  attempt bigint      NOT NULL DEFAULT 0,
  due     timestamptz NOT NULL DEFAULT now(),
  done_at timestamptz
);
CREATE INDEX jobs_due ON jobs (due, id) WHERE done_at IS NULL;
