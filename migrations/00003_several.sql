-- +goose Up

CREATE OR REPLACE FUNCTION fencedstore.version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 3';

-- guard_many is guard for several resources: the n-th elements of the arrays
-- are one fence. All must be the newest claims. When one is not, CONSTRAINT is
-- its resource and the rest is as reject says.
-- Every caller locks in the same order, whatever the order of the arrays, so
-- that two of them never wait for each other across the claims queued between.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.guard_many(p_resources text[], p_fences bigint[], p_holders bytea[], p_left_ms bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_key   int;
  v_found record;
  v_mark  text;
  v_shown text := coalesce(current_setting('fencedstore.shown', true), '');
  v_entry text;
BEGIN
  -- nothing to check would mean that anything passes
  IF coalesce(cardinality(p_resources), 0) = 0 THEN
    RAISE EXCEPTION 'fencedstore.guard_many needs at least one fence' USING ERRCODE = '22023';
  END IF;
  IF p_left_ms IS NOT NULL THEN
    PERFORM fencedstore.cap('idle_in_transaction_session_timeout', p_left_ms);
  END IF;
  FOR v_key IN SELECT DISTINCT hashtext(r) FROM unnest(p_resources) r ORDER BY 1 LOOP
    IF pg_advisory_xact_lock_shared(1179538243, v_key) IS NULL THEN END IF;
  END LOOP;
  -- from here on statements of their own, whose snapshots are newer than the
  -- locks; at higher levels they are not: 40001 when a claim came between
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM FROM fencedstore.fence WHERE resource = ANY (p_resources) FOR SHARE;
  END IF;
  SELECT a.resource, a.fence_id, sha256(a.holder) AS hash INTO v_found
    FROM unnest(p_resources, p_fences, p_holders) WITH ORDINALITY a(resource, fence_id, holder, n)
   WHERE NOT EXISTS (SELECT FROM fencedstore.fence f
                      WHERE f.resource = a.resource AND f.fence_id = a.fence_id AND f.holder = sha256(a.holder))
   ORDER BY a.n LIMIT 1;
  IF NOT FOUND THEN
    -- show the fences to the triggers of protected tables, as guard does
    SELECT string_agg(E'\n=' || replace(resource, E'\n', E'\n ') || E'\n:' || fence_id || ':' || encode(holder, 'hex') || ';', '') INTO v_entry
      FROM unnest(p_resources, p_fences, p_holders) a(resource, fence_id, holder);
    IF strpos(v_shown, v_entry) = 0 THEN
      PERFORM set_config('fencedstore.shown', v_entry || v_shown, true);
    END IF;
    RETURN;
  END IF;
  BEGIN
    PERFORM fencedstore.reject(v_found.resource, v_found.fence_id, v_found.hash);
  EXCEPTION WHEN SQLSTATE 'ZF001' OR SQLSTATE 'ZF002' OR SQLSTATE 'ZF003' THEN
    GET STACKED DIAGNOSTICS v_mark = PG_EXCEPTION_DETAIL;
    RAISE EXCEPTION '%', SQLERRM
      USING ERRCODE = SQLSTATE, DETAIL = v_mark, CONSTRAINT = coalesce(v_found.resource, '');
  END;
END $$;
-- +goose StatementEnd

-- evict ends the sessions that make a claim of the resource wait, as holders
-- lists them, and returns their process IDs. Their transactions are rolled
-- back. When there is one among them that the owner of this function may not
-- end, none is (42501; DETAIL is the owner if membership in pg_signal_backend
-- would do). A session that ends its transaction at this very moment may be
-- hit in its next one.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.evict(p_resource text) RETURNS int[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_other record;
  v_ended int[];
BEGIN
  SELECT h.pid, r.rolname, r.rolsuper INTO v_other
    FROM fencedstore.holders(p_resource) h JOIN pg_stat_activity a USING (pid) JOIN pg_roles r ON r.oid = a.usesysid
   WHERE NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
     AND (r.rolsuper OR NOT (pg_has_role(r.oid, 'usage') OR pg_has_role('pg_signal_backend', 'usage')))
   ORDER BY r.rolsuper DESC LIMIT 1;
  IF v_other.rolsuper THEN
    RAISE EXCEPTION 'server process % belongs to the superuser "%": only a superuser can end it', v_other.pid, v_other.rolname
      USING ERRCODE = '42501';
  ELSIF FOUND THEN
    RAISE EXCEPTION 'server process % belongs to "%": "%" may not end it', v_other.pid, v_other.rolname, current_user
      USING ERRCODE = '42501', DETAIL = format('%I', current_user),
            HINT = format('GRANT pg_signal_backend TO %I', current_user);
  END IF;
  SELECT coalesce(array_agg(pid), '{}') INTO v_ended
    FROM fencedstore.holders(p_resource) WHERE pg_terminate_backend(pid);
  RETURN v_ended;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION fencedstore.guard_many, fencedstore.evict FROM PUBLIC;

-- +goose Down

DROP FUNCTION fencedstore.evict(text);
DROP FUNCTION fencedstore.guard_many(text[], bigint[], bytea[], bigint);
CREATE OR REPLACE FUNCTION fencedstore.version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 2';
