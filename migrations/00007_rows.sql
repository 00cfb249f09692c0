-- +goose Up

-- Row mode: the row is the resource and carries its own mark.

CREATE OR REPLACE FUNCTION fencedstore.version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 7';

-- row_guard is true where a fence may write to a row whose mark is p_mark, and
-- raises why not otherwise, as reject does. It goes into the WHERE of the
-- statement that writes. It raises because zero rows would also mean that there
-- is no such row, and would not stop what follows in a batch. Its cost makes
-- the planner look for the row first.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.row_guard(p_mark bigint, p_mark_hash bytea, p_fence bigint, p_hash bytea) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 10000 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_fence > p_mark OR (p_fence = p_mark AND p_hash = p_mark_hash) THEN
    RETURN true;
  ELSIF p_fence < p_mark THEN
    RAISE EXCEPTION 'fence % is stale: the row has %', p_fence, p_mark USING ERRCODE = 'ZF001', DETAIL = p_mark::text;
  ELSIF p_fence = p_mark THEN
    RAISE EXCEPTION 'fence % was used for the row by another holder', p_fence USING ERRCODE = 'ZF002', DETAIL = p_mark::text;
  END IF;
  RAISE EXCEPTION 'the row or the statement has no fence' USING ERRCODE = 'ZF004', DETAIL = '';
END $$;
-- +goose StatementEnd

-- fence_row is the trigger of a table in row mode. The mark of a row never
-- falls, whoever writes it, and does not vanish with the row. It is called for
-- what it refuses only, and runs with the rights of whoever writes.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.fence_row() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND NEW.fence_id < OLD.fence_id THEN
    RAISE EXCEPTION 'fence % is stale: the row of % has %', NEW.fence_id, TG_RELID::regclass, OLD.fence_id
      USING ERRCODE = 'ZF001', DETAIL = OLD.fence_id::text;
  ELSIF TG_OP = 'UPDATE' THEN
    RAISE EXCEPTION 'fence % was used for the row of % by another holder', NEW.fence_id, TG_RELID::regclass
      USING ERRCODE = 'ZF002', DETAIL = OLD.fence_id::text;
  ELSIF current_setting('fencedstore.purge', true) = 'on' THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION '% of %: rows keep their fences, set fence_deleted instead', TG_OP, TG_RELID::regclass
    USING ERRCODE = 'restrict_violation', HINT = 'Where nobody can be at work on them any more: SET LOCAL fencedstore.purge = on.';
END $$;
-- +goose StatementEnd

-- fence_rows makes a table fit for row mode: columns fence_id (the mark, 0 for
-- none), fence_holder (SHA-256 of its holder) and fence_deleted, a constraint,
-- and triggers. It may be called again. It waits as protect does, and reads no
-- row: existing ones have no mark.
-- +goose StatementBegin
CREATE FUNCTION fencedstore.fence_rows(p_table regclass, p_wait_ms bigint DEFAULT 5000) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
  v_wrong text;
  v regclass;
BEGIN
  PERFORM fencedstore.take(p_table, 'ACCESS EXCLUSIVE', p_wait_ms);
  EXECUTE format('ALTER TABLE %s ADD COLUMN IF NOT EXISTS fence_id bigint NOT NULL DEFAULT 0,'
    ' ADD COLUMN IF NOT EXISTS fence_holder bytea, ADD COLUMN IF NOT EXISTS fence_deleted boolean NOT NULL DEFAULT false', p_table);
  SELECT string_agg(name || ' is not ' || kind || CASE WHEN required THEN ' NOT NULL' ELSE '' END, ', ') INTO v_wrong
    FROM (VALUES ('fence_id', 'bigint', true), ('fence_holder', 'bytea', false), ('fence_deleted', 'boolean', true)) c(name, kind, required)
    JOIN pg_attribute ON attrelid = p_table AND attname = name
   WHERE atttypid <> kind::regtype OR attnotnull <> required;
  IF v_wrong IS NOT NULL THEN
    RAISE EXCEPTION 'columns of %: %', p_table, v_wrong USING ERRCODE = 'datatype_mismatch';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = p_table AND conname = 'fence_mark') THEN
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT fence_mark'
      ' CHECK (fence_id >= 0 AND (fence_id = 0) = (fence_holder IS NULL) AND octet_length(fence_holder) = 32) NOT VALID', p_table);
  END IF;
  EXECUTE format('CREATE OR REPLACE TRIGGER a_fence_mark BEFORE UPDATE ON %s FOR EACH ROW'
    ' WHEN (NEW.fence_id < OLD.fence_id OR NEW.fence_id = OLD.fence_id AND NEW.fence_holder IS DISTINCT FROM OLD.fence_holder)'
    ' EXECUTE FUNCTION fencedstore.fence_row()', p_table);
  EXECUTE format('CREATE OR REPLACE TRIGGER a_fence_keep BEFORE DELETE ON %s FOR EACH ROW'
    ' EXECUTE FUNCTION fencedstore.fence_row()', p_table);
  FOR v IN SELECT p_table UNION SELECT relid FROM pg_partition_tree(p_table) LOOP
    EXECUTE format('CREATE OR REPLACE TRIGGER a_fence_truncate_rows BEFORE TRUNCATE ON %s FOR EACH STATEMENT'
      ' EXECUTE FUNCTION fencedstore.fence_row()', v);
  END LOOP;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION fencedstore.row_guard, fencedstore.fence_row, fencedstore.fence_rows FROM PUBLIC;

-- +goose Down

-- The columns stay, and nobody looks at them any more.
DROP FUNCTION fencedstore.fence_rows(regclass, bigint);
DROP FUNCTION fencedstore.fence_row() CASCADE;
DROP FUNCTION fencedstore.row_guard(bigint, bytea, bigint, bytea);

CREATE OR REPLACE FUNCTION fencedstore.version() RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 6';
