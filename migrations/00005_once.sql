-- +goose Up

-- One row per key whose work is done, committed together with the work.
CREATE TABLE fencedstore.once (
  -- any bytes, as text: see "Names" in the documentation of fencedstore/postgres
  key     text COLLATE "C" PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 2048),
  done_at timestamptz NOT NULL
);
CREATE INDEX once_done_at ON fencedstore.once (done_at); -- for forget_once

-- once says whether the caller's transaction is the first one for a key: true to
-- one transaction that commits, false to all others. It waits for a transaction
-- that is at work on the key, at most p_wait_ms (55P03), and is true when that
-- one rolls back. p_left_ms bounds how long a paused caller can leave the
-- transaction idle and so keep others waiting. NULL for no bound.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.once(p_key text, p_wait_ms bigint DEFAULT NULL, p_left_ms bigint DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_first boolean;
  v_lock_timeout text := current_setting('lock_timeout');
BEGIN
  IF p_left_ms IS NOT NULL THEN
    PERFORM fencedstore.cap('idle_in_transaction_session_timeout', p_left_ms);
  END IF;
  IF p_wait_ms IS NOT NULL THEN
    PERFORM fencedstore.cap('lock_timeout', p_wait_ms);
  END IF;
  INSERT INTO fencedstore.once (key, done_at) VALUES (p_key, clock_timestamp()) ON CONFLICT DO NOTHING;
  v_first := FOUND;
  IF p_wait_ms IS NOT NULL THEN -- the caller's own statements wait as before
    PERFORM set_config('lock_timeout', v_lock_timeout, true);
  END IF;
  RETURN v_first;
END $$;
-- +goose StatementEnd

-- forget_once deletes at most p_max keys that were done before p_before, the
-- oldest first, and returns how many. The work of a forgotten key may run again.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.forget_once(p_before timestamptz, p_max int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_count bigint;
BEGIN
  IF p_before IS NULL OR p_max IS NULL OR p_max <= 0 THEN
    RAISE EXCEPTION 'fencedstore.forget_once needs a time and a positive number' USING ERRCODE = '22023';
  END IF;
  WITH old AS (
    SELECT key FROM fencedstore.once WHERE done_at < p_before ORDER BY done_at LIMIT p_max FOR UPDATE SKIP LOCKED
  )
  DELETE FROM fencedstore.once o USING old WHERE o.key = old.key;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  RETURN v_count;
END $$;
-- +goose StatementEnd

CREATE OR REPLACE FUNCTION fencedstore.version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 5';

REVOKE ALL ON TABLE fencedstore.once FROM PUBLIC;
REVOKE ALL ON FUNCTION fencedstore.once, fencedstore.forget_once FROM PUBLIC;

-- +goose Down

-- What was done once is forgotten, and may be done again.
CREATE OR REPLACE FUNCTION fencedstore.version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 4';
DROP FUNCTION fencedstore.forget_once(timestamptz, int);
DROP FUNCTION fencedstore.once(text, bigint, bigint);
DROP TABLE fencedstore.once;
