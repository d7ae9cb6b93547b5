-- Begins and settlements write rows without statements, and respect everything that a statement would respect.
CREATE EXTENSION IF NOT EXISTS amcheck;
SELECT t.clean();
SELECT t.have(1, 'old', 'kept');
-- The rows that a lease wrote, and its outcome.
CREATE FUNCTION pg_temp.written() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(c.bucket_value || ' ' || c.status || ' ' || (c.lease_uuid IS NOT NULL), ', ' ORDER BY c.bucket_value) FROM claims.claims c
$$;
CREATE FUNCTION pg_temp.save(name text, gone text) RETURNS text LANGUAGE sql AS $$
    SELECT claims.commit_update(1, claims.begin_update(1, t.creates(name), t.destroys(gone)))::text
$$;
CREATE FUNCTION pg_temp.save_or_state(name text, gone text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN pg_temp.save(name, gone);
EXCEPTION WHEN OTHERS THEN RETURN sqlstate || ' ' || sqlerrm;
END $$;
-- a cell has no right on the tables, and needs none
SET SESSION AUTHORIZATION regress_claims_one;
SELECT claims.begin_update(1, t.creates('a'), t.destroys('old'), t.u(3000)) = t.u(3000);
SELECT t.call('SELECT count(*) FROM claims.claims');
SELECT claims.commit_update(1, t.u(3000));
SELECT claims.begin_update(1, t.creates('b'), lease_uuid => t.u(3001)) = t.u(3001);
SELECT claims.rollback_update(1, t.u(3001));
-- the caller's rights and search_path are in force again after a call that needs the owner's
SET search_path = pg_catalog, t;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a'))$$);
SELECT claims.rollback_update(1, t.u(3002));
SELECT current_user, current_setting('search_path');
RESET search_path;
RESET SESSION AUTHORIZATION;
SELECT pg_temp.written();
-- the lock of a reader ends with its call
BEGIN;
SELECT bucket_value FROM claims.get_record('ROUTES', 'a');
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN ('claims.claims'::regclass, 'claims.claims_bucket'::regclass);
COMMIT;
-- a begin locks the profiles in the table that has the name now, and not in the one that had it before
BEGIN;
SELECT claims.begin_update(1, t.creates('before'), lease_uuid => t.u(3010)) = t.u(3010);
ALTER TABLE claims.bucket_types RENAME TO types_before;
CREATE TABLE claims.bucket_types (LIKE claims.types_before INCLUDING ALL);
INSERT INTO claims.bucket_types SELECT * FROM claims.types_before;
SELECT claims.begin_update(1, t.creates('after'), lease_uuid => t.u(3011)) = t.u(3011);
SELECT relation::regclass FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'RowShareLock' AND relation::regclass::text ~ 'types' ORDER BY 1;
ROLLBACK;
-- a read-only transaction writes nothing
BEGIN READ ONLY;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('c'))$$);
ROLLBACK;
SELECT claims.begin_update(1, t.creates('c'), t.destroys('kept'), t.u(3003)) = t.u(3003);
BEGIN READ ONLY;
SELECT t.call($$SELECT claims.commit_update(1, t.u(3003))$$);
SELECT t.call($$SELECT claims.rollback_update(1, t.u(3003))$$);
ROLLBACK;
-- nor does a process that takes part in a parallel query, whatever a function says of itself
CREATE FUNCTION t.lying() RETURNS boolean LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN claims.commit_update(1, t.u(3003)); END';
\set VERBOSITY terse
BEGIN;
SELECT set_config(name, 'on', true) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SELECT t.lying();
ROLLBACK;
\set VERBOSITY default
DROP FUNCTION t.lying();
SELECT pg_temp.written();
SELECT claims.commit_update(1, t.u(3003));
-- new versions that have no room on the page of the old one have index entries of their own
ALTER TABLE claims.claims SET (fillfactor = 100);
SELECT pg_stat_force_next_flush();
SELECT n_tup_upd - n_tup_hot_upd AS before FROM pg_stat_user_tables WHERE relid = 'claims.claims'::regclass \gset
SELECT claims.commit_update(1, claims.begin_update(1, (SELECT jsonb_agg(t.claim('h' || n, id => n)) FROM generate_series(1, 300) n)));
SELECT pg_stat_force_next_flush();
SELECT n_tup_upd - n_tup_hot_upd - :before > 100 FROM pg_stat_user_tables WHERE relid = 'claims.claims'::regclass;
ALTER TABLE claims.claims SET (fillfactor = 50);
-- the index entries are complete: no row without entries, no entry without a row
SELECT bt_index_check(i.indexrelid, true) FROM pg_index i WHERE i.indrelid IN ('claims.claims'::regclass, 'claims.claim_leases'::regclass,
    'claims.lease_outcomes'::regclass);
SELECT count(*) FROM unnest('{claims.claims,claims.claim_leases,claims.lease_outcomes}'::regclass[]) r, verify_heapam(r);
DELETE FROM claims.claims WHERE bucket_value LIKE 'h%';
-- rows are written in portions, for which slots are used again: each row has its own values, and none is written twice
SELECT claims.add_bucket_type(110, 'HANDLES', 'casefold');
CREATE FUNCTION pg_temp.portions(size int, OUT names bigint, OUT wrong bigint, OUT written bigint) LANGUAGE plpgsql AS $$
DECLARE
    before bigint := pg_stat_get_xact_tuples_inserted('claims.claims'::regclass);
BEGIN
    PERFORM claims.begin_update(1, (SELECT jsonb_agg(jsonb_build_object(
        'bucket', jsonb_build_object('type', 'HANDLES', 'value', CASE n % 3 WHEN 0 THEN 'H' ELSE 'h' END || n),
        'subject', jsonb_build_object('type', 'GROUP', 'id', 's' || n),
        'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'rails_primary_key_id', 10000 + n))) FROM generate_series(1, size) n),
        lease_uuid => t.u(3100 + size));
    -- Rows of an attempt that was rolled back count, too.
    written := pg_stat_get_xact_tuples_inserted('claims.claims'::regclass) - before;
    SELECT count(DISTINCT c.uuid), count(*) FILTER (WHERE n IS NULL
           OR (subject_id, source_id, display_value) IS DISTINCT FROM ('s' || n, (10000 + n)::text, CASE n % 3 WHEN 0 THEN 'H' || n END)
           OR (creator_id, status, lease_uuid) IS DISTINCT FROM (1::bigint, 2::smallint, t.u(3100 + size)))
      INTO names, wrong FROM (SELECT * FROM claims.claims WHERE bucket_type = 110) c
      FULL JOIN generate_series(1, size) n ON c.bucket_value = 'h' || n;
    PERFORM claims.rollback_update(1, t.u(3100 + size));
END $$;
SELECT size, p.* FROM unnest('{1,2,249,250,251,499,500,501,1000}'::int[]) size, pg_temp.portions(size) p;
-- triggers fire, but not under session_replication_role
CREATE FUNCTION pg_temp.tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE '% % %', tg_op, tg_table_name, to_jsonb(coalesce(new, old)) ->> 'bucket_value';
    RETURN coalesce(new, old);
END $$;
SELECT t.calls_after_change('CREATE TRIGGER tell BEFORE INSERT OR UPDATE OR DELETE ON claims.claims FOR EACH ROW EXECUTE FUNCTION pg_temp.tell();
    CREATE TRIGGER tell AFTER INSERT OR DELETE ON claims.claim_leases FOR EACH ROW EXECUTE FUNCTION pg_temp.tell();
    CREATE TRIGGER tell AFTER INSERT ON claims.lease_outcomes FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.tell()',
    $$SELECT pg_temp.save('d', 'a')$$);
SELECT t.calls_after_change('CREATE TRIGGER tell BEFORE INSERT ON claims.claims FOR EACH ROW EXECUTE FUNCTION pg_temp.tell();
    SET LOCAL session_replication_role = replica', $$SELECT pg_temp.save('d', 'a')$$);
-- the NOTICE comes once a session; check() lists the table as long as it is altered
SELECT t.calls_after_change('ALTER TABLE claims.claims ADD note text DEFAULT ''added''', $$SELECT pg_temp.save('d', 'a')$$,
    'SELECT bucket_value, note FROM claims.claims', 'SELECT problem, detail FROM claims.check()');
-- rules, constraints, generated columns, row security, partial, unique and expression indexes
SELECT t.calls_after_change('CREATE RULE nothing AS ON INSERT TO claims.lease_outcomes DO ALSO NOTHING',
    $$SELECT pg_temp.save('d', 'a')$$, 'SELECT problem, detail FROM claims.check()');
SELECT t.calls_after_change('ALTER TABLE claims.claims ADD CHECK (bucket_value <> ''d'')',
    $$SELECT pg_temp.save_or_state('d', 'a')$$, 'SELECT problem, detail FROM claims.check()');
SELECT t.calls_after_change('ALTER TABLE claims.claims ADD double text GENERATED ALWAYS AS (bucket_value || bucket_value) STORED',
    $$SELECT pg_temp.save('d', 'a')$$, 'SELECT bucket_value, double FROM claims.claims', 'SELECT problem, detail FROM claims.check()');
SELECT t.calls_after_change('ALTER TABLE claims.claim_leases ENABLE ROW LEVEL SECURITY',
    $$SELECT pg_temp.save('d', 'a')$$, 'SELECT problem, detail FROM claims.check()');
SELECT t.calls_after_change('CREATE UNIQUE INDEX one_a_day ON claims.claims (created_at)',
    $$SELECT pg_temp.save('d', 'a')$$, 'SELECT problem, detail FROM claims.check()');
SELECT t.calls_after_change('CREATE INDEX backwards ON claims.claims (reverse(bucket_value))', $$SELECT pg_temp.save('d', 'a')$$,
    $$SELECT bt_index_check('claims.backwards', true) IS NOT NULL$$, 'SELECT problem, detail FROM claims.check()');
SELECT t.calls_after_change('ALTER TABLE claims.claims ALTER created_at DROP NOT NULL',
    $$SELECT pg_temp.save('d', 'a')$$, 'SELECT problem, detail FROM claims.check()');
SELECT t.calls_after_change('CREATE TABLE t.child () INHERITS (claims.claims)',
    $$SELECT pg_temp.save('d', 'a')$$, 'SELECT problem, detail FROM claims.check()');
SET client_min_messages = error;
-- a publication of UPDATE and DELETE needs a replica identity
SELECT t.calls_after_change('ALTER TABLE claims.claims REPLICA IDENTITY NOTHING; CREATE PUBLICATION everything FOR TABLE claims.claims',
    $$SELECT claims.begin_update(1, t.creates('d')) IS NOT NULL$$, $$SELECT claims.begin_update(1, '[]', t.destroys('a'))$$,
    $$SELECT pg_temp.save('e', 'a')$$);
SELECT t.calls_after_change('ALTER TABLE claims.claim_leases REPLICA IDENTITY NOTHING; CREATE PUBLICATION everything FOR TABLE claims.claim_leases',
    $$SELECT pg_temp.save('d', 'a')$$);
SELECT t.calls_after_change('CREATE PUBLICATION everything FOR ALL TABLES', $$SELECT pg_temp.save('d', 'a')$$);
RESET client_min_messages;
-- nothing of all this is left, and the tables are as the extension has created them
SELECT pg_temp.written();
SELECT problem, detail FROM claims.check();
-- rows are counted in the statistics
SELECT pg_stat_force_next_flush();
SELECT n_tup_ins AS before FROM pg_stat_user_tables WHERE relid = 'claims.claims'::regclass \gset
SELECT pg_temp.save('f', 'a');
SELECT pg_stat_force_next_flush();
SELECT n_tup_ins - :before FROM pg_stat_user_tables WHERE relid = 'claims.claims'::regclass;
SELECT t.clean();
