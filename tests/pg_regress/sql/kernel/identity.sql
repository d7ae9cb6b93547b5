-- The caller's identity where PostgreSQL, replication or a restore runs code for another role.
SELECT t.clean();
SELECT t.have(2, 'victim');
-- code of a table's owner that a superuser runs (index expression, materialized view) cannot act for a cell
GRANT CREATE ON SCHEMA t TO regress_claims_one;
SET SESSION AUTHORIZATION regress_claims_one;
CREATE FUNCTION t.attack() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM claims.commit_update(2, claims.begin_update(2, '[]', t.destroys('victim')));
    RETURN 'it worked';
EXCEPTION WHEN insufficient_privilege THEN RETURN 'refused: ' || SQLERRM;
END $$;
CREATE FUNCTION t.trap(x text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE NOTICE '%', t.attack(); RETURN 1; END $$;
CREATE TABLE t.bait (x text);
CREATE INDEX bait_index ON t.bait (t.trap(x));
INSERT INTO t.bait VALUES ('x');
CREATE MATERIALIZED VIEW t.bait_view AS SELECT t.attack() AS a WITH NO DATA;
RESET SESSION AUTHORIZATION;
ANALYZE t.bait;
REINDEX TABLE t.bait;
REFRESH MATERIALIZED VIEW t.bait_view;
SELECT a FROM t.bait_view;
SELECT claim, cell, status FROM t.state();
-- such code can act neither for its own cell nor as an administrator
CREATE OR REPLACE FUNCTION t.attack() RETURNS text LANGUAGE sql AS $$ SELECT string_agg(c, E'\n') FROM t.call('SELECT claims.list_leases(1)') c $$;
REFRESH MATERIALIZED VIEW t.bait_view;
SELECT a FROM t.bait_view;
CREATE OR REPLACE FUNCTION t.attack() RETURNS text LANGUAGE sql AS $$ SELECT string_agg(c, E'\n') FROM t.call('SELECT * FROM claims.check()') c $$;
REFRESH MATERIALIZED VIEW t.bait_view;
SELECT a FROM t.bait_view;
-- such code cannot capture a superuser's table
CREATE TABLE t.secret (id text PRIMARY KEY);
CREATE OR REPLACE FUNCTION t.attack() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(c, E'\n') FROM t.call($q$SELECT claims.capture_requests('t.secret', 'spy', 'id')$q$) c
$$;
GRANT EXECUTE ON FUNCTION claims.capture_requests(regclass, text, name, text) TO regress_claims_one;
REFRESH MATERIALIZED VIEW t.bait_view;
SELECT a FROM t.bait_view;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 't.secret'::regclass;
REVOKE EXECUTE ON FUNCTION claims.capture_requests(regclass, text, name, text) FROM regress_claims_one;
DROP TABLE t.secret;
DROP TABLE t.bait;
DROP MATERIALIZED VIEW t.bait_view;
DROP FUNCTION t.trap(text), t.attack();
REVOKE CREATE ON SCHEMA t FROM regress_claims_one;
-- a cell that is given to another role with triggers disabled, as replication and restores write
CREATE ROLE regress_claims_three;
SELECT claims.register_cell(3, 'regress_claims_three');
SET SESSION AUTHORIZATION regress_claims_three;
SELECT count(*) FROM claims.list_leases(3);
RESET SESSION AUTHORIZATION;
SET session_replication_role = replica;
UPDATE claims.cells SET role = 'regress_claims_two' WHERE cell_id = 3;
RESET session_replication_role;
SET SESSION AUTHORIZATION regress_claims_three;
SELECT t.call('SELECT * FROM claims.list_leases(3)');
RESET SESSION AUTHORIZATION;
-- a router that was a cell for some time stays a router; a cell that was no router keeps no privilege
UPDATE claims.cells SET role = 'regress_claims_three' WHERE cell_id = 3;
SELECT claims.register_cell(3, 'regress_claims_router');
SET SESSION AUTHORIZATION regress_claims_three;
SELECT t.call($$SELECT * FROM claims.get_record('ROUTES', 'victim')$$);
RESET SESSION AUTHORIZATION;
SELECT claims.register_cell(3, 'regress_claims_two');
SET SESSION AUTHORIZATION regress_claims_router;
SELECT cell_id FROM claims.get_record('ROUTES', 'victim');
SELECT count(*) FROM claims.records;
SELECT left(c, 5) FROM t.call('SELECT * FROM claims.list_leases(3)') c LIMIT 1;
RESET SESSION AUTHORIZATION;
-- a worker that was a cell for some time stays a worker
SELECT claims.grant_worker('regress_claims_three');
SELECT claims.register_cell(3, 'regress_claims_three');
SELECT claims.register_cell(3, 'regress_claims_two');
SET SESSION AUTHORIZATION regress_claims_three;
SELECT count(*) FROM claims.held_expiring('a', 'one');
SELECT left(c, 5) FROM t.call('SELECT * FROM claims.list_leases(3)') c LIMIT 1;
RESET SESSION AUTHORIZATION;
-- a cell reads the views about itself only; a role that is no cell any more reads none
SELECT claims.register_cell(3, 'regress_claims_three');
CREATE FUNCTION t.readable(reader name) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(relname, ' ' ORDER BY relname COLLATE "C") FROM pg_class
     WHERE relnamespace = 'claims'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S') AND has_table_privilege(reader, oid, 'SELECT') $$;
SELECT t.readable('regress_claims_three'), t.readable('regress_claims_one'), t.readable('regress_claims_router');
SET SESSION AUTHORIZATION regress_claims_one;
SELECT count(*) FROM claims.claimed_columns;
SELECT count(*) FROM claims.verification_progress;
SELECT t.call('DELETE FROM claims.claimed_attributes RETURNING 1');
RESET SESSION AUTHORIZATION;
SELECT claims.register_cell(3, 'regress_claims_two');
SELECT t.readable('regress_claims_three'), t.readable('regress_claims_two');
DROP FUNCTION t.readable(name);
-- a role that was dropped while its cell is registered
SELECT claims.register_cell(3, 'regress_claims_three');
BEGIN;
REVOKE ALL ON ALL ROUTINES IN SCHEMA claims FROM regress_claims_three;
REVOKE ALL ON ALL TABLES IN SCHEMA claims FROM regress_claims_three;
REVOKE ALL ON SCHEMA claims FROM regress_claims_three;
DROP ROLE regress_claims_three;
SELECT problem, regexp_replace(detail, '\d+\.$', 'N.') FROM claims.check();
ROLLBACK;
DELETE FROM claims.cells WHERE cell_id = 3;
REVOKE ALL ON ALL ROUTINES IN SCHEMA claims FROM regress_claims_three;
REVOKE ALL ON ALL TABLES IN SCHEMA claims FROM regress_claims_three;
REVOKE ALL ON SCHEMA claims FROM regress_claims_three;
DROP ROLE regress_claims_three;
-- a source id as lower bound is excluded also for claims with the largest type number
SELECT claims.add_bucket_type(2147483647, 'LAST');
SELECT claims.commit_update(1,
      claims.begin_update(1, jsonb_build_array(t.claim('v', 'LAST', 7), t.claim(repeat(chr(1114111), 650), 'LAST', 7), t.claim('w', 'ROUTES', 8))));
SELECT bucket_value FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', source_id_gt => '7');
SELECT t.clean();
DELETE FROM claims.bucket_types WHERE id = 2147483647;
