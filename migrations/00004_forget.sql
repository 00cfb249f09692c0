-- +goose Up

-- Forgetting resources that nobody uses any more, so that the table of fences
-- does not grow for ever.

CREATE OR REPLACE FUNCTION fencedstore.version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 4';

-- The highest fence that was forgotten. Where there is no mark, a fence has to
-- exceed it: the slow older holder of a forgotten resource cannot come back.
CREATE TABLE fencedstore.floor (
  one      boolean PRIMARY KEY DEFAULT true CHECK (one),
  fence_id bigint  NOT NULL CHECK (fence_id >= 0)
);
INSERT INTO fencedstore.floor VALUES (true, 0);

-- reject, as before, and stale is also what does not exceed the floor.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fencedstore.reject(p_resource text, p_fence bigint, p_hash bytea) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v fencedstore.fence%ROWTYPE;
BEGIN
  SELECT * INTO v FROM fencedstore.fence WHERE resource = p_resource;
  IF v.fence_id IS NULL AND p_fence <= (SELECT fence_id FROM fencedstore.floor) THEN
    RAISE EXCEPTION 'fence % on "%" is stale: at or below the floor', p_fence, p_resource
      USING ERRCODE = 'ZF001', DETAIL = (SELECT fence_id::text FROM fencedstore.floor);
  END IF;
  IF v.fence_id > p_fence THEN
    RAISE EXCEPTION 'fence % on "%" is stale: % was claimed', p_fence, p_resource, v.fence_id
      USING ERRCODE = 'ZF001', DETAIL = v.fence_id::text;
  ELSIF v.fence_id = p_fence AND v.holder <> p_hash THEN
    RAISE EXCEPTION 'fence % on "%" was claimed by another holder', p_fence, p_resource
      USING ERRCODE = 'ZF002', DETAIL = v.fence_id::text;
  END IF;
  RAISE EXCEPTION 'fence % on "%" was not claimed here', p_fence, p_resource
    USING ERRCODE = 'ZF003', DETAIL = coalesce(v.fence_id, 0)::text;
END $$;
-- +goose StatementEnd

-- claim, as before, and a resource without a mark has the floor as its mark.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fencedstore.claim(p_resource text, p_fence bigint, p_holder bytea, p_wait_ms bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_hash bytea := sha256(p_holder);
  v_mark bigint;
BEGIN
  -- an older snapshot would not see the claim that this one waited for
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'fencedstore.claim needs READ COMMITTED' USING ERRCODE = 'ZF005';
  END IF;
  -- A stale claim must not queue for the lock and make the holder wait. A
  -- higher mark that was committed is final, so that no lock is needed.
  PERFORM FROM fencedstore.fence WHERE resource = p_resource AND fence_id > p_fence;
  IF FOUND THEN
    PERFORM fencedstore.reject(p_resource, p_fence, v_hash);
  END IF;
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true); -- a claim survives a crash
  END IF;
  PERFORM fencedstore.cap('lock_timeout', p_wait_ms);
  -- A fair queue: waits for the guarded transactions that run, and later ones
  -- wait for this. IF evaluates it without a query of its own.
  IF pg_advisory_xact_lock(1179538243, hashtext(p_resource)) IS NULL THEN END IF;
  -- a statement of its own, so that its snapshot is newer than the lock
  SELECT fence_id INTO v_mark FROM fencedstore.fence WHERE resource = p_resource;
  IF v_mark IS NULL THEN -- not AND: where there is a mark, the floor is not read
    IF p_fence <= (SELECT fence_id FROM fencedstore.floor) THEN
      PERFORM fencedstore.reject(p_resource, p_fence, v_hash);
    END IF;
  END IF;
  -- Always writes, even when nothing changes: the commit of a repeated claim
  -- then waits for the same durability (synchronous replication) as the first.
  INSERT INTO fencedstore.fence AS f (resource, fence_id, holder, claimed_at)
  VALUES (p_resource, p_fence, v_hash, clock_timestamp())
  ON CONFLICT (resource) DO UPDATE
    SET fence_id = EXCLUDED.fence_id, holder = EXCLUDED.holder, claimed_at = EXCLUDED.claimed_at
    WHERE f.fence_id < EXCLUDED.fence_id
       OR (f.fence_id = EXCLUDED.fence_id AND f.holder = EXCLUDED.holder);
  IF NOT FOUND THEN
    PERFORM fencedstore.reject(p_resource, p_fence, v_hash);
  END IF;
  RETURN coalesce(v_mark, 0);
END $$;
-- +goose StatementEnd

-- forget deletes marks that were claimed before p_before, at most p_max of them,
-- raises the floor to the highest of them, and returns how many it deleted.
-- Marks under which a transaction is open are left. Nobody is let in by it: a
-- holder whose claim is forgotten is refused like one that was replaced, and has
-- to acquire again.
--
-- One floor for all resources is right only where their fences grow together.
-- It takes those that are microseconds since 1970, as package fencedlock makes
-- them, and are not ahead of this server's clock (ZF006 for others): after it
-- every new fence exceeds the floor. p_one_counter says instead that one counter
-- numbers all resources.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.forget(p_before timestamptz, p_max int DEFAULT 1000, p_one_counter boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v record;
  v_fence bigint;
  v_floor bigint := 0;
  v_count bigint := 0;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'fencedstore.forget needs READ COMMITTED' USING ERRCODE = 'ZF005';
  ELSIF (p_before <= clock_timestamp() - interval '1 hour') IS NOT TRUE THEN
    RAISE EXCEPTION 'claims of the last hour are not forgotten' USING ERRCODE = 'invalid_parameter_value';
  ELSIF (p_max BETWEEN 1 AND 1000) IS NOT TRUE THEN -- each takes a lock until the end
    RAISE EXCEPTION 'between 1 and 1000 claims are forgotten at a time' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  FOR v IN SELECT resource, fence_id FROM fencedstore.fence WHERE claimed_at < p_before ORDER BY claimed_at LIMIT p_max LOOP
    IF NOT (p_one_counter OR v.fence_id BETWEEN 1500000000000000 AND extract(epoch FROM clock_timestamp()) * 1000000) THEN
      RAISE EXCEPTION 'fence % on "%" was not numbered by a clock', v.fence_id, v.resource
        USING ERRCODE = 'ZF006', HINT = 'Where one counter numbers all resources, say p_one_counter => true.';
    END IF;
    -- no claim is between its look at the mark and its write
    IF pg_try_advisory_xact_lock(1179538243, hashtext(v.resource)) THEN
      DELETE FROM fencedstore.fence WHERE resource = v.resource AND claimed_at < p_before RETURNING fence_id INTO v_fence;
      IF FOUND THEN
        v_floor := greatest(v_floor, v_fence);
        v_count := v_count + 1;
      END IF;
    END IF;
  END LOOP;
  UPDATE fencedstore.floor SET fence_id = v_floor WHERE fence_id < v_floor;
  RETURN v_count;
END $$;
-- +goose StatementEnd

REVOKE ALL ON TABLE fencedstore.floor FROM PUBLIC;
REVOKE ALL ON FUNCTION fencedstore.forget FROM PUBLIC;

-- +goose Down

-- What was forgotten has no mark any more, and no floor either.
DROP FUNCTION fencedstore.forget(timestamptz, int, boolean);

CREATE OR REPLACE FUNCTION fencedstore.version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 3';

-- reject and claim as they were.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fencedstore.reject(p_resource text, p_fence bigint, p_hash bytea) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v fencedstore.fence%ROWTYPE;
BEGIN
  SELECT * INTO v FROM fencedstore.fence WHERE resource = p_resource;
  IF v.fence_id > p_fence THEN
    RAISE EXCEPTION 'fence % on "%" is stale: % was claimed', p_fence, p_resource, v.fence_id
      USING ERRCODE = 'ZF001', DETAIL = v.fence_id::text;
  ELSIF v.fence_id = p_fence AND v.holder <> p_hash THEN
    RAISE EXCEPTION 'fence % on "%" was claimed by another holder', p_fence, p_resource
      USING ERRCODE = 'ZF002', DETAIL = v.fence_id::text;
  END IF;
  RAISE EXCEPTION 'fence % on "%" was not claimed here', p_fence, p_resource
    USING ERRCODE = 'ZF003', DETAIL = coalesce(v.fence_id, 0)::text;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fencedstore.claim(p_resource text, p_fence bigint, p_holder bytea, p_wait_ms bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_hash bytea := sha256(p_holder);
  v_mark bigint;
BEGIN
  -- an older snapshot would not see the claim that this one waited for
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'fencedstore.claim needs READ COMMITTED' USING ERRCODE = 'ZF005';
  END IF;
  -- A stale claim must not queue for the lock and make the holder wait. A
  -- higher mark that was committed is final, so that no lock is needed.
  PERFORM FROM fencedstore.fence WHERE resource = p_resource AND fence_id > p_fence;
  IF FOUND THEN
    PERFORM fencedstore.reject(p_resource, p_fence, v_hash);
  END IF;
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true); -- a claim survives a crash
  END IF;
  PERFORM fencedstore.cap('lock_timeout', p_wait_ms);
  -- A fair queue: waits for the guarded transactions that run, and later ones
  -- wait for this. IF evaluates it without a query of its own.
  IF pg_advisory_xact_lock(1179538243, hashtext(p_resource)) IS NULL THEN END IF;
  -- a statement of its own, so that its snapshot is newer than the lock
  SELECT fence_id INTO v_mark FROM fencedstore.fence WHERE resource = p_resource;
  -- Always writes, even when nothing changes: the commit of a repeated claim
  -- then waits for the same durability (synchronous replication) as the first.
  INSERT INTO fencedstore.fence AS f (resource, fence_id, holder, claimed_at)
  VALUES (p_resource, p_fence, v_hash, clock_timestamp())
  ON CONFLICT (resource) DO UPDATE
    SET fence_id = EXCLUDED.fence_id, holder = EXCLUDED.holder, claimed_at = EXCLUDED.claimed_at
    WHERE f.fence_id < EXCLUDED.fence_id
       OR (f.fence_id = EXCLUDED.fence_id AND f.holder = EXCLUDED.holder);
  IF NOT FOUND THEN
    PERFORM fencedstore.reject(p_resource, p_fence, v_hash);
  END IF;
  RETURN coalesce(v_mark, 0);
END $$;
-- +goose StatementEnd

DROP TABLE fencedstore.floor;
