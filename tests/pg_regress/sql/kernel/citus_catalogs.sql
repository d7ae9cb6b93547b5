-- Every function refuses where Citus manages the extension's tables, or created the extension on a worker. Leases 56xx.
SELECT t.clean();
SELECT t.have(1, 'known');
BEGIN;
SET LOCAL allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass NOT NULL, partmethod "char" NOT NULL, partkey text);
CREATE TABLE pg_catalog.pg_dist_local_group (groupid int NOT NULL);
INSERT INTO pg_catalog.pg_dist_local_group VALUES (0);
-- CREATE EXTENSION citus makes functions: from then on its catalogs are read
CREATE FUNCTION t.of_citus() RETURNS int LANGUAGE sql AS 'SELECT 1';
SELECT cell_id FROM claims.get_record('ROUTES', 'known');
-- distributed tables of others change nothing
CREATE TABLE t.distributed (a int);
INSERT INTO pg_catalog.pg_dist_partition VALUES ('t.distributed', 'h');
ALTER TABLE t.distributed SET (fillfactor = 90);
CREATE FUNCTION t.of_citus_too() RETURNS int LANGUAGE sql AS 'SELECT 1';
SELECT cell_id FROM claims.get_record('ROUTES', 'known');

-- a distributed table of the extension makes every call fail (Citus invalidates the relcache as ALTER TABLE does)
SAVEPOINT whole;
INSERT INTO pg_catalog.pg_dist_partition VALUES ('claims.claims', 'h'), ('claims.cells', 'n');
ALTER TABLE claims.claims SET (fillfactor = 70);
SELECT t.call($$SELECT * FROM claims.get_record('ROUTES', 'known')$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('known'))$$);
-- a refusal is not cached
ROLLBACK TO whole;
SELECT cell_id FROM claims.get_record('ROUTES', 'known');
-- each of the extension's tables is looked at
INSERT INTO pg_catalog.pg_dist_partition VALUES ('claims.requests', 'n');
ALTER TABLE claims.requests SET (fillfactor = 90);
SELECT t.call($$SELECT claims.enqueue_request('q', 'e', 'update')$$);
-- other statements in the database are not affected
CREATE TABLE t.parted (a int) PARTITION BY LIST (a);
CREATE TABLE t.part PARTITION OF t.parted FOR VALUES IN (1);
DROP TABLE t.parted;

-- only functions that read no table, and internal ones, answer
CREATE FUNCTION t.argument(type oid) RETURNS text LANGUAGE sql AS $$
    SELECT CASE type::regtype::text WHEN 'bigint' THEN '1' WHEN 'integer' THEN '1000' WHEN 'text' THEN '''ROUTES'''
        WHEN 'name' THEN '''regress_claims_one'''
        WHEN 'uuid' THEN '''00000000-0000-4000-8000-000000005600''' WHEN 'jsonb' THEN '''[]''' WHEN 'boolean' THEN 'true'
        WHEN 'interval' THEN '''1 h'''
        WHEN 'regclass' THEN '''t.distributed''' WHEN 'oid' THEN '''t.distributed''::regclass' WHEN 'xid8' THEN '''1''' WHEN 'uuid[]' THEN '''{}'''
        WHEN 'text[]' THEN '''{}''' WHEN 'timestamp with time zone' THEN '''2026-01-01''' ELSE 'NULL' END || '::' || type::regtype $$;
CREATE FUNCTION t.who_answers() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE f record; answer text;
BEGIN
    FOR f IN SELECT p.proname, format('SELECT * FROM %s(%s)', p.oid::regproc,
          (SELECT string_agg(t.argument(a), ', ' ORDER BY n) FROM unnest(p.proargtypes) WITH ORDINALITY u (a, n))) AS call
               FROM pg_proc p WHERE p.pronamespace = 'claims'::regnamespace AND p.prokind = 'f'
               AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
              ORDER BY p.proname COLLATE "C", p.pronargs
    LOOP
        SELECT x INTO answer FROM t.call(f.call) x LIMIT 1;
        IF answer LIKE 'ok%' THEN RETURN NEXT f.proname; END IF;
    END LOOP;
END $$;
SELECT t.who_answers();

-- a worker on which Citus has created the extension
ROLLBACK TO whole;
UPDATE pg_catalog.pg_dist_local_group SET groupid = 2;
ALTER TABLE pg_catalog.pg_dist_local_group SET (fillfactor = 90);
SELECT t.call($$SELECT * FROM claims.get_record('ROUTES', 'known')$$);
SELECT t.call($$SELECT count(*) FROM claims.list_types()$$);
SELECT t.call($$SELECT * FROM claims.check()$$);
ROLLBACK;
SELECT cell_id FROM claims.get_record('ROUTES', 'known');
SELECT count(*) FROM claims.list_cells();
