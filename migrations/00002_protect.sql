-- +goose Up

-- Triggers that make a table refuse every statement whose transaction shows no
-- valid fence, whoever sends it. What a transaction shows is in the setting
-- fencedstore.shown, for that transaction only; guard puts it there. It is no
-- more than a claim: the triggers compare it with the table of fences, under
-- the lock, so that setting it by hand gains nothing.

CREATE OR REPLACE FUNCTION fencedstore.version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 2';

-- What warn-only protection let through. A counter is not shared by transactions
-- that run at the same time, because they would wait for each other: one that
-- is in use is passed over, and the view adds them up.
CREATE TABLE fencedstore.warned (
  id               bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  role             text        NOT NULL,
  application_name text        NOT NULL,
  table_name       text        NOT NULL,
  operation        text        NOT NULL,
  resource         text        NOT NULL COLLATE "C",
  code             text        NOT NULL,
  transactions     bigint      NOT NULL,
  first_at         timestamptz NOT NULL,
  last_at          timestamptz NOT NULL,
  last_pid         int         NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX ON fencedstore.warned (resource, table_name);

CREATE VIEW fencedstore.warnings AS
  SELECT role, application_name, table_name, operation, resource, code,
         sum(transactions)::bigint AS transactions, min(first_at) AS first_at, max(last_at) AS last_at,
         (array_agg(last_pid ORDER BY last_at DESC))[1] AS last_pid
    FROM fencedstore.warned
   GROUP BY role, application_name, table_name, operation, resource, code;

-- guard also shows the fence to the triggers: an entry of fencedstore.shown is
-- a line "=resource" and a line ":ID:holder in hexadecimal;". A newline in a
-- name is followed by a space, so that no name looks like an entry.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fencedstore.guard(p_resource text, p_fence bigint, p_holder bytea, p_left_ms bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_hash bytea := sha256(p_holder);
  v_shown text := current_setting('fencedstore.shown', true);
  v_entry text := E'\n=' || replace(p_resource, E'\n', E'\n ') || E'\n:' || p_fence || ':' || encode(p_holder, 'hex') || ';';
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
  -- the newest entry first: that is the one that is looked at
  IF strpos(v_shown, v_entry) > 0 THEN
  ELSIF set_config('fencedstore.shown', v_entry || coalesce(v_shown, ''), true) IS NULL THEN
  END IF;
END $$;
-- +goose StatementEnd

-- enter is guard for whoever has a fence as text, ID:holder:resource with every
-- unusual byte as %XX. Names that are not UTF-8 have to go through guard.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.enter(p_fence text, p_left_ms bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_part text[];
BEGIN
  IF p_fence IS NULL OR p_fence !~ '^[1-9][0-9]{0,18}:(%[0-9A-F]{2}|[A-Za-z0-9._~/-])+:(%[0-9A-F]{2}|[A-Za-z0-9._~/-])+$' THEN
    -- the text holds a secret, so that it is not repeated here
    RAISE EXCEPTION 'not a fence: the text is not ID:holder:resource' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT array_agg((SELECT string_agg(CASE WHEN length(m[1]) = 3 THEN substr(m[1], 2) ELSE encode(m[1]::bytea, 'hex') END, '' ORDER BY i)
                      FROM regexp_matches(part, '%..|.', 'g') WITH ORDINALITY r(m, i)) ORDER BY n)
    INTO v_part
    FROM unnest(string_to_array(p_fence, ':')) WITH ORDINALITY p(part, n);
  PERFORM fencedstore.guard(replace(convert_from(decode(v_part[3], 'hex'), 'UTF8'), '\', '\\'),
    split_part(p_fence, ':', 1)::bigint, decode(v_part[2], 'hex'), p_left_ms);
END $$;
-- +goose StatementEnd

-- shown returns what the transaction shows for a resource, ID:holder, and NULL
-- when that is nothing or no fence.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.shown(p_resource text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v text := split_part(split_part(current_setting('fencedstore.shown', true),
    E'\n=' || replace(p_resource, E'\n', E'\n ') || E'\n:', 2), ';', 1);
BEGIN
  RETURN CASE WHEN v ~ '^[0-9]{1,19}:([0-9a-f][0-9a-f])+$' THEN v END;
END $$;
-- +goose StatementEnd

-- admits is the guard of a statement: what is shown for the resource must be
-- its newest fence, and remains so until the transaction ends. It never raises
-- the mark: the statement's snapshot is older than that would be.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.admits(p_resource text, p_shown text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_shown IS NULL THEN
    RETURN false;
  END IF;
  IF pg_advisory_xact_lock_shared(1179538243, hashtext(p_resource)) IS NULL THEN END IF;
  IF current_setting('transaction_isolation') = 'read committed' THEN
    PERFORM FROM fencedstore.fence
      WHERE resource = p_resource AND fence_id::text = split_part(p_shown, ':', 1)
        AND holder = sha256(decode(split_part(p_shown, ':', 2), 'hex'));
  ELSE
    PERFORM FROM fencedstore.fence
      WHERE resource = p_resource AND fence_id::text = split_part(p_shown, ':', 1)
        AND holder = sha256(decode(split_part(p_shown, ':', 2), 'hex')) FOR SHARE;
  END IF;
  RETURN FOUND;
END $$;
-- +goose StatementEnd

-- refuse raises why a statement is refused:
--   ZF004  nothing was shown for the resource; DETAIL is the resource
-- and what reject raises.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.refuse(p_table regclass, p_operation text, p_resource text, p_shown text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF split_part(p_shown, ':', 1)::numeric <= 9223372036854775807 THEN
    PERFORM fencedstore.reject(p_resource, split_part(p_shown, ':', 1)::bigint, sha256(decode(split_part(p_shown, ':', 2), 'hex')));
  END IF;
  RAISE EXCEPTION '% on % is refused: it is fenced by "%", and this transaction shows no fence for that', p_operation, p_table, p_resource
    USING ERRCODE = 'ZF004', DETAIL = p_resource, HINT = 'Call fencedstore.guard first, in the same transaction.';
END $$;
-- +goose StatementEnd

-- warn records what refuse would have raised, once for a transaction, and for
-- the first hundred or so different ones of it.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.warn(p_table regclass, p_operation text, p_resource text, p_shown text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_known text := coalesce(current_setting('fencedstore.warned', true), '');
  v_key text := E'\n=' || p_table::oid || p_operation || replace(p_resource, E'\n', E'\n ') || E'\n:';
  -- in a SECURITY DEFINER function current_user is its owner
  v_role text := coalesce(nullif(current_setting('role'), 'none'), session_user);
  v_app text := coalesce(current_setting('application_name'), '');
  v_code text;
BEGIN
  IF strpos(v_known, v_key) > 0 OR length(v_known) > 10000 THEN
    RETURN;
  END IF;
  BEGIN
    PERFORM fencedstore.refuse(p_table, p_operation, p_resource, p_shown);
  EXCEPTION WHEN SQLSTATE 'ZF001' OR SQLSTATE 'ZF002' OR SQLSTATE 'ZF003' OR SQLSTATE 'ZF004' THEN
    v_code := SQLSTATE;
  END;
  -- only at read committed can a counter be passed over without an error
  UPDATE fencedstore.warned SET transactions = transactions + 1, last_at = clock_timestamp(), last_pid = pg_backend_pid()
   WHERE id = (SELECT id FROM fencedstore.warned
                WHERE current_setting('transaction_isolation') = 'read committed'
                  AND resource = p_resource AND table_name = p_table::text AND operation = p_operation
                  AND code = v_code AND role = v_role AND application_name = v_app
                LIMIT 1 FOR UPDATE SKIP LOCKED);
  IF NOT FOUND THEN
    INSERT INTO fencedstore.warned (role, application_name, table_name, operation, resource, code, transactions, first_at, last_at, last_pid)
    VALUES (v_role, v_app, p_table::text, p_operation, p_resource, v_code, 1, clock_timestamp(), clock_timestamp(), pg_backend_pid());
  END IF;
  PERFORM set_config('fencedstore.warned', v_known || v_key, true);
END $$;
-- +goose StatementEnd

-- enforce is the trigger of a table that is one resource: enforce(resource,
-- mode). As a statement trigger it comes before the statement.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.enforce() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_shown text := fencedstore.shown(TG_ARGV[0]);
BEGIN
  IF fencedstore.admits(TG_ARGV[0], v_shown) THEN
  ELSIF TG_ARGV[1] = 'warn' THEN
    PERFORM fencedstore.warn(TG_RELID, TG_OP, TG_ARGV[0], v_shown);
  ELSE
    PERFORM fencedstore.refuse(TG_RELID, TG_OP, TG_ARGV[0], v_shown);
  END IF;
  IF TG_LEVEL = 'ROW' AND TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  RETURN NEW;
END $$;
-- +goose StatementEnd

-- enforce_values is the guard of a statement on a table whose rows belong to
-- different resources: to the prefix and one of the values. A value that is NULL
-- stands for rows that are not known.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.enforce_values(p_table regclass, p_operation text, p_prefix text, p_mode text, p_values text[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_value text;
  v_resource text;
  v_shown text;
BEGIN
  FOREACH v_value IN ARRAY p_values LOOP
    v_resource := p_prefix || coalesce(replace(v_value, '\', '\\'), '*');
    v_shown := CASE WHEN v_value IS NOT NULL THEN fencedstore.shown(v_resource) END;
    IF fencedstore.admits(v_resource, v_shown) THEN
    ELSIF p_mode = 'warn' THEN
      PERFORM fencedstore.warn(p_table, p_operation, v_resource, v_shown);
    ELSE
      PERFORM fencedstore.refuse(p_table, p_operation, v_resource, v_shown);
    END IF;
  END LOOP;
END $$;
-- +goose StatementEnd

-- by_column makes the trigger function of tables whose rows belong to the
-- resources that a column of this name tells, rows_by_<column>(prefix, mode), unless
-- it is there, and lets a role use it. It comes after the statement, whose rows
-- are known only then, and asks once for each resource. A column cannot be a
-- parameter of a query, and a query put together for every statement costs three
-- times as much as the rest.
--
-- The function runs with the rights of its owner. So it must not compare values
-- of a type that is not PostgreSQL's, whose operators may be functions of
-- anybody's, nor cast them; concat uses the type's output function.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.by_column(p_column name, p_role name) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_function text := format('fencedstore.%I', CASE WHEN octet_length(p_column) <= 50 THEN 'rows_by_' || p_column
    ELSE 'rows_byh_' || left(encode(sha256(convert_to(p_column, 'UTF8')), 'hex'), 40) END);
BEGIN
  LOCK TABLE fencedstore.warned IN SHARE UPDATE EXCLUSIVE MODE; -- one at a time; in nobody else's way
  IF to_regprocedure(v_function || '()') IS NULL THEN
    EXECUTE format('CREATE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS %L',
      v_function, format($f$
DECLARE
  v_values text[];
BEGIN
  IF (SELECT atttypid FROM pg_attribute WHERE attrelid = TG_RELID AND attname = %2$L)
       NOT IN ('text'::regtype, 'varchar'::regtype, 'int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'uuid'::regtype) THEN
    RAISE EXCEPTION 'a resource is named by text, an integer or a uuid' USING ERRCODE = 'datatype_mismatch';
  ELSIF TG_LEVEL = 'ROW' THEN
    v_values := CASE TG_OP WHEN 'INSERT' THEN ARRAY[concat(NEW.%1$I)] WHEN 'DELETE' THEN ARRAY[concat(OLD.%1$I)]
                           ELSE ARRAY[concat(NEW.%1$I), concat(OLD.%1$I)] END;
  ELSIF TG_OP = 'INSERT' THEN
    v_values := ARRAY(SELECT concat(c) FROM (SELECT DISTINCT r.%1$I FROM new_rows r) d(c));
  ELSIF TG_OP = 'DELETE' THEN
    v_values := ARRAY(SELECT concat(c) FROM (SELECT DISTINCT r.%1$I FROM old_rows r) d(c));
  ELSIF TG_OP = 'UPDATE' THEN
    v_values := ARRAY(SELECT concat(c) FROM (SELECT r.%1$I FROM new_rows r UNION SELECT r.%1$I FROM old_rows r) d(c));
  ELSE -- the rows of a TRUNCATE are not known
    v_values := ARRAY[NULL];
  END IF;
  PERFORM fencedstore.enforce_values(TG_RELID, TG_OP, TG_ARGV[0], TG_ARGV[1], v_values);
  RETURN NULL;
END $f$, p_column, p_column::text));
    EXECUTE format('REVOKE ALL ON FUNCTION %s() FROM PUBLIC', v_function);
  END IF;
  IF NOT has_function_privilege(p_role, v_function || '()', 'EXECUTE') THEN
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s() TO %I', v_function, p_role);
  END IF;
  RETURN v_function;
END $$;
-- +goose StatementEnd

-- guards lists the triggers of these functions on a table and on what is below
-- it: its partitions, and the tables that inherit from it.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.guards(p_table regclass)
RETURNS TABLE (table_name regclass, trigger_name name, is_clone boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE below(relid) AS (
    SELECT p_table::oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN below ON i.inhparent = below.relid)
  SELECT t.tgrelid::regclass, t.tgname, t.tgparentid <> 0
    FROM below JOIN pg_trigger t ON t.tgrelid = below.relid
   WHERE t.tgfoid IN (SELECT oid FROM pg_proc WHERE pronamespace = 'fencedstore'::regnamespace
                         AND (proname = 'enforce' OR proname ~ '^rows_byh?_') AND prorettype = 'trigger'::regtype)
$$;
-- +goose StatementEnd

-- take locks a table and what is below it, so that nothing is added to it
-- meanwhile. It waits at most p_wait_ms for the transactions that use it
-- (55P03), and less where lock_timeout is less.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.take(p_table regclass, p_mode text, p_wait_ms bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_wait text := current_setting('lock_timeout');
BEGIN
  IF EXISTS (SELECT FROM fencedstore.guards(p_table) WHERE table_name = p_table AND is_clone) THEN
    RAISE EXCEPTION '% is a partition of a table that is protected as a whole', p_table
      USING ERRCODE = 'object_not_in_prerequisite_state';
  ELSIF NOT EXISTS (SELECT FROM pg_class WHERE oid = p_table AND relkind IN ('r', 'p') AND relnamespace <> 'fencedstore'::regnamespace) THEN
    RAISE EXCEPTION '% is not a table that can be protected', p_table USING ERRCODE = 'wrong_object_type';
  END IF;
  PERFORM fencedstore.cap('lock_timeout', p_wait_ms);
  EXECUTE format('LOCK TABLE %s IN %s MODE', p_table, p_mode);
  PERFORM set_config('lock_timeout', v_wait, true);
END $$;
-- +goose StatementEnd

-- unprotect removes all triggers of these functions from a table and from what
-- is below it. It waits as take does.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.unprotect(p_table regclass, p_wait_ms bigint DEFAULT 5000) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v record;
BEGIN
  PERFORM fencedstore.take(p_table, 'ACCESS EXCLUSIVE', p_wait_ms);
  FOR v IN SELECT * FROM fencedstore.guards(p_table) WHERE NOT is_clone LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', v.trigger_name, v.table_name);
  END LOOP;
END $$;
-- +goose StatementEnd

-- install gives a table and what is below it statement triggers, and a
-- partitioned table a row trigger as well, which PostgreSQL clones to each
-- partition that comes later. Where there are statement triggers the clone is
-- switched off: it would ask again for every row. It warns of roles that may
-- replace the triggers: GRANT ALL contains that right.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.install(p_table regclass, p_statement text[], p_row text, p_call text, p_always boolean, p_wait_ms bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_names text[] := ARRAY(SELECT split_part(spec, ' ', 1) FROM unnest(p_statement) spec);
  v record;
BEGIN
  -- A lock is not made stronger later: two that do so wait for each other.
  IF EXISTS (SELECT FROM fencedstore.guards(p_table)
              WHERE NOT is_clone AND trigger_name <> ALL (v_names) AND (trigger_name, table_name) <> ('a_fence_row', p_table)) THEN
    PERFORM fencedstore.unprotect(p_table, p_wait_ms);
  ELSE
    PERFORM fencedstore.take(p_table, 'SHARE ROW EXCLUSIVE', p_wait_ms);
  END IF;
  FOR v IN WITH RECURSIVE below(relid) AS (
             SELECT p_table::oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN below ON i.inhparent = below.relid)
           SELECT relid::regclass AS table_name, spec
             FROM below CROSS JOIN unnest(p_statement) spec LOOP
    EXECUTE format('CREATE OR REPLACE TRIGGER ' || v.spec, v.table_name) || ' FOR EACH STATEMENT EXECUTE FUNCTION ' || p_call;
    IF p_always THEN
      EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER %s', v.table_name, split_part(v.spec, ' ', 1));
    END IF;
  END LOOP;
  IF EXISTS (SELECT FROM pg_class WHERE oid = p_table AND relkind = 'p') THEN
    EXECUTE format('CREATE OR REPLACE TRIGGER ' || p_row, p_table) || ' FOR EACH ROW EXECUTE FUNCTION ' || p_call;
    FOR v IN SELECT g.table_name, g.trigger_name FROM fencedstore.guards(p_table) g JOIN pg_class ON oid = g.table_name
              WHERE g.is_clone AND relkind <> 'p' LOOP
      EXECUTE format('ALTER TABLE ONLY %s DISABLE TRIGGER %I', v.table_name, v.trigger_name);
    END LOOP;
  END IF;
  FOR v IN SELECT DISTINCT g.table_name, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
             FROM fencedstore.guards(p_table) g JOIN pg_class c ON c.oid = g.table_name, aclexplode(c.relacl) a
            WHERE a.privilege_type = 'TRIGGER' AND a.grantee <> c.relowner LOOP
    RAISE WARNING '% may replace the triggers that protect %', v.role, v.table_name
      USING HINT = format('REVOKE TRIGGER ON %s FROM %s;', v.table_name, v.role);
  END LOOP;
END $$;
-- +goose StatementEnd

-- protect makes a table refuse every INSERT, UPDATE, DELETE and TRUNCATE, of
-- COPY, MERGE and foreign keys too, whose transaction shows no valid fence of
-- the resource. Calling it again changes what was said before, and gives
-- partitions that came later what the others have. p_warn: let everything
-- through and record in fencedstore.warned what would be refused. p_always:
-- also where session_replication_role is replica; not on a table that receives
-- logical replication. It waits as take does.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.protect(p_table regclass, p_resource text, p_warn boolean DEFAULT false, p_always boolean DEFAULT false, p_wait_ms bigint DEFAULT 5000) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (octet_length(p_resource) BETWEEN 1 AND 2048) IS NOT TRUE THEN
    RAISE EXCEPTION 'the name of a resource has 1 to 2048 bytes' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  PERFORM fencedstore.install(p_table,
    ARRAY['a_fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s'],
    'a_fence_row BEFORE INSERT OR UPDATE OR DELETE ON %s',
    format('fencedstore.enforce(%L, %L)', p_resource, CASE WHEN p_warn THEN 'warn' ELSE 'refuse' END),
    p_always, p_wait_ms);
END $$;
-- +goose StatementEnd

-- protect_by is protect for a table whose rows belong to different resources:
-- each to the prefix followed by the row's value of the column, NULL counting as
-- empty. A row that is changed needs its resource before and after. A statement
-- that meets no row passes, TRUNCATE never does. The column is of a type whose
-- text no setting changes.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.protect_by(p_table regclass, p_column name, p_prefix text, p_warn boolean DEFAULT false, p_always boolean DEFAULT false, p_wait_ms bigint DEFAULT 5000) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_type oid := (SELECT atttypid FROM pg_attribute
                  WHERE attrelid = p_table AND attname = p_column AND attnum > 0 AND NOT attisdropped);
BEGIN
  IF v_type IS NULL THEN
    RAISE EXCEPTION 'column "%" of % does not exist', p_column, p_table USING ERRCODE = 'undefined_column';
  ELSIF v_type NOT IN ('text'::regtype, 'varchar'::regtype, 'int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'uuid'::regtype) THEN
    RAISE EXCEPTION 'column "%" of % has the type %: a resource is named by text, an integer or a uuid', p_column, p_table, format_type(v_type, NULL)
      USING ERRCODE = 'datatype_mismatch';
  ELSIF (octet_length(p_prefix) <= 2048) IS NOT TRUE THEN
    RAISE EXCEPTION 'the prefix has at most 2048 bytes' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  PERFORM fencedstore.install(p_table,
    ARRAY['a_fence_insert AFTER INSERT ON %s REFERENCING NEW TABLE AS new_rows',
          'a_fence_update AFTER UPDATE ON %s REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows',
          'a_fence_delete AFTER DELETE ON %s REFERENCING OLD TABLE AS old_rows',
          'a_fence_truncate BEFORE TRUNCATE ON %s'],
    'a_fence_row AFTER INSERT OR UPDATE OR DELETE ON %s',
    format('%s(%L, %L)', fencedstore.by_column(p_column, current_user), p_prefix, CASE WHEN p_warn THEN 'warn' ELSE 'refuse' END),
    p_always, p_wait_ms);
END $$;
-- +goose StatementEnd

REVOKE ALL ON ALL TABLES IN SCHEMA fencedstore FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fencedstore FROM PUBLIC;

-- +goose Down

-- Every table is left unprotected.
DROP FUNCTION fencedstore.protect_by(regclass, name, text, boolean, boolean, bigint);
DROP FUNCTION fencedstore.protect(regclass, text, boolean, boolean, bigint);
DROP FUNCTION fencedstore.install(regclass, text[], text, text, boolean, bigint);
DROP FUNCTION fencedstore.unprotect(regclass, bigint);
DROP FUNCTION fencedstore.take(regclass, text, bigint);
DROP FUNCTION fencedstore.guards(regclass);
-- +goose StatementBegin
DO $$
DECLARE
  v regprocedure;
BEGIN
  FOR v IN SELECT oid FROM pg_proc WHERE pronamespace = 'fencedstore'::regnamespace AND proname ~ '^rows_byh?_' AND prorettype = 'trigger'::regtype LOOP
    EXECUTE format('DROP FUNCTION %s CASCADE', v);
  END LOOP;
END $$;
-- +goose StatementEnd
DROP FUNCTION fencedstore.by_column(name, name);
DROP FUNCTION fencedstore.enforce_values(regclass, text, text, text, text[]);
DROP FUNCTION fencedstore.enforce() CASCADE;
DROP FUNCTION fencedstore.warn(regclass, text, text, text);
DROP FUNCTION fencedstore.refuse(regclass, text, text, text);
DROP FUNCTION fencedstore.admits(text, text);
DROP FUNCTION fencedstore.shown(text);
DROP FUNCTION fencedstore.enter(text, bigint);
DROP VIEW fencedstore.warnings;
DROP TABLE fencedstore.warned;

CREATE OR REPLACE FUNCTION fencedstore.version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 1';

-- guard as it was.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fencedstore.guard(p_resource text, p_fence bigint, p_holder bytea, p_left_ms bigint DEFAULT NULL) RETURNS void
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
