-- +goose Up

-- raise lifts every mark below p_fence to it, under a holder that nobody is, and
-- the floor with them, and returns how many marks it lifted. It is for a database that was restored from a
-- backup: its marks are older than the fences at work, so that older holders
-- would be let in again. Afterwards every fence below p_fence is stale. The
-- default is the time in µs, above which package fencedlock takes its next one;
-- lock services of another kind need one above all that they have issued.
-- It waits for every guarded transaction to end, and new ones wait for it.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.raise(p_fence bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_fence bigint := coalesce(p_fence, extract(epoch FROM clock_timestamp()) * 1000000);
  v_count bigint;
BEGIN
  IF v_fence NOT BETWEEN 1 AND 4611686018427387903 THEN -- 2^62 - 1: package fencedlock stops there
    RAISE EXCEPTION 'fencedstore.raise needs a fence between 1 and 2^62 - 1' USING ERRCODE = '22023';
  END IF;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'fencedstore.raise needs READ COMMITTED' USING ERRCODE = 'ZF005';
  END IF;
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  -- A guard has read the table, and so keeps it locked until its transaction ends.
  LOCK TABLE fencedstore.fence IN ACCESS EXCLUSIVE MODE;
  UPDATE fencedstore.fence
     SET fence_id = v_fence, holder = sha256(uuid_send(gen_random_uuid())), claimed_at = clock_timestamp()
   WHERE fence_id < v_fence;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  -- resources that the backup does not know
  UPDATE fencedstore.floor SET fence_id = v_fence WHERE fence_id < v_fence;
  RETURN v_count;
END $$;
-- +goose StatementEnd

CREATE OR REPLACE FUNCTION fencedstore.version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 6';

REVOKE ALL ON FUNCTION fencedstore.raise FROM PUBLIC;

-- +goose Down

CREATE OR REPLACE FUNCTION fencedstore.version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 5';
DROP FUNCTION fencedstore.raise(bigint);
