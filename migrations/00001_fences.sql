-- +goose Up

-- One row per resource: the newest fence that was claimed. Rows are never
-- deleted: a mark that is forgotten lets a slow older holder in again.
-- Only the functions below touch the table.
CREATE TABLE fencedstore.fence (
  -- any bytes, as text: see "Names" in the documentation of fencedstore/postgres
  resource   text COLLATE "C" PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 2048),
  fence_id   bigint      NOT NULL CHECK (fence_id > 0),
  -- SHA-256 of the holder, which is a secret
  holder     bytea       NOT NULL CHECK (octet_length(holder) = 32),
  claimed_at timestamptz NOT NULL
) WITH (fillfactor = 50); -- room for the next claim on the same page

-- version is what the Go code compares with the version it needs: the number of
-- the newest migration. Every migration replaces it.
CREATE FUNCTION fencedstore.version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 1';

-- cap lowers a timeout for the rest of the transaction and never raises it.
-- Zero means no timeout, so a cap of less than 1 ms becomes 1 ms.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.cap(p_setting text, p_ms bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_now bigint := extract(epoch FROM current_setting(p_setting)::interval) * 1000;
BEGIN
  IF v_now = 0 OR p_ms < v_now THEN
    PERFORM set_config(p_setting, least(greatest(p_ms, 1), 2147483647)::text, true);
  END IF;
END $$;
-- +goose StatementEnd

-- reject raises why a fence is refused. DETAIL is the mark, 0 for none.
--   ZF001  stale: a newer fence was claimed
--   ZF002  reused: the same ID was claimed by another holder
--   ZF003  not claimed here: the mark is below it
-- +goose StatementBegin
CREATE FUNCTION fencedstore.reject(p_resource text, p_fence bigint, p_hash bytea) RETURNS void
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

-- claim raises the mark of a resource and returns the one before, 0 for none.
-- It is a READ COMMITTED transaction of its own, before the holder's first
-- read. When it has committed, every transaction guarded by an older fence has
-- ended. It waits at most p_wait_ms for them (55P03).
-- +goose StatementBegin
CREATE FUNCTION fencedstore.claim(p_resource text, p_fence bigint, p_holder bytea, p_wait_ms bigint) RETURNS bigint
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

-- guard checks that a fence is the newest claim and keeps it so until the
-- transaction ends. It is the first statement of the transaction, outside any
-- savepoint: rolling back to a savepoint gives its lock up. It never raises the
-- mark. p_left_ms bounds how long a paused holder can leave the transaction
-- idle and so keep a newer claim waiting; NULL for no bound.
-- VOLATILE: lock and check need snapshots of their own.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.guard(p_resource text, p_fence bigint, p_holder bytea, p_left_ms bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_hash bytea := sha256(p_holder);
BEGIN
  -- where there is nothing to compare with, cap would take half as long as all
  -- the rest
  IF p_left_ms IS NULL THEN
  ELSIF current_setting('idle_in_transaction_session_timeout') <> '0' THEN
    PERFORM fencedstore.cap('idle_in_transaction_session_timeout', p_left_ms);
  ELSIF set_config('idle_in_transaction_session_timeout',
                   least(greatest(p_left_ms, 1), 2147483647)::text, true) IS NULL THEN
  END IF;
  IF pg_advisory_xact_lock_shared(1179538243, hashtext(p_resource)) IS NULL THEN END IF;
  IF current_setting('transaction_isolation') = 'read committed' THEN
    PERFORM FROM fencedstore.fence
      WHERE resource = p_resource AND fence_id = p_fence AND holder = v_hash;
  ELSE -- the snapshot may be older than the lock: 40001 when a claim came between
    PERFORM FROM fencedstore.fence
      WHERE resource = p_resource AND fence_id = p_fence AND holder = v_hash FOR SHARE;
  END IF;
  IF NOT FOUND THEN
    PERFORM fencedstore.reject(p_resource, p_fence, v_hash);
  END IF;
END $$;
-- +goose StatementEnd

-- holders lists who makes a claim of the resource wait: the sessions with a
-- guarded transaction open. state, since and application_name are NULL where
-- the owner of this function may not see them.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.holders(p_resource text)
RETURNS TABLE (pid int, state text, since timestamptz, application_name text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT l.pid, a.state, a.xact_start, a.application_name
    FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
   WHERE l.locktype = 'advisory' AND l.granted AND l.pid <> pg_backend_pid()
     AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
     AND l.classid = 1179538243::oid AND l.objsubid = 2
     AND l.objid = (hashtext(p_resource)::bigint & 4294967295)::oid
   ORDER BY a.xact_start
$$;
-- +goose StatementEnd

REVOKE ALL ON TABLE fencedstore.fence FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fencedstore FROM PUBLIC;

-- +goose Down

-- Every mark is lost: see the package documentation.
DROP FUNCTION fencedstore.holders(text);
DROP FUNCTION fencedstore.guard(text, bigint, bytea, bigint);
DROP FUNCTION fencedstore.claim(text, bigint, bytea, bigint);
DROP FUNCTION fencedstore.reject(text, bigint, bytea);
DROP FUNCTION fencedstore.cap(text, bigint);
DROP FUNCTION fencedstore.version();
DROP TABLE fencedstore.fence;
