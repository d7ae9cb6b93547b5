-- The change feed is written without statements, and as statements would write it.
CREATE EXTENSION IF NOT EXISTS amcheck;
SELECT t.clean();
DELETE FROM claims.change_sets;
SET claims.change_feed = on;
-- The plans of this session for an INSERT into the feed: none, if it was only written directly.
CREATE FUNCTION pg_temp.plans() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource' AND ident LIKE 'INSERT INTO claims.change_sets%'
$$;
-- The rows of this transaction, with the numbers counted from the first one.
CREATE FUNCTION pg_temp.rows() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', CASE WHEN s.xid = pg_current_xact_id() THEN 'own' END, s.id - min(s.id) OVER (), s.op,
                     coalesce(s.old_cell_id::text, '-'), coalesce(s.new_cell_id::text, '-'), s.lease_uuid, s.actor,
                     clock_timestamp() - s.at < '1 min', s.bucket_types, s.bucket_values, coalesce(s.era::text, '-'), coalesce(s.two_phase, '-'))
      FROM claims.change_sets s WHERE s.xid = pg_current_xact_id() ORDER BY s.id
$$;
-- A batch with each kind of change, two leases that are settled at once, and one that is settled alone.
CREATE FUNCTION pg_temp.changes() RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM t.have(1, 'gone', 'same');
    PERFORM claims.begin_update(1, t.creates('same', 'new') || t.claim('Ünï', 'USERNAMES'), t.destroys('gone', 'same'), t.u(3500));
    PERFORM claims.begin_update(1, t.creates('other'), '[]', t.u(3501));
    DELETE FROM claims.change_sets;
    PERFORM claims.settle_leases(1, ARRAY[t.u(3500), t.u(3501)], '{}');
    PERFORM claims.begin_update(1, t.creates('last'), '[]', t.u(3503));
    PERFORM claims.commit_update(1, t.u(3503));
    RETURN QUERY SELECT * FROM pg_temp.rows();
END $$;
-- a row for each kind of change and lease, without a statement
CREATE TEMP TABLE direct AS SELECT * FROM t.after_change('SELECT', 'SELECT * FROM pg_temp.changes()') WITH ORDINALITY AS r (line, n);
SELECT line FROM direct ORDER BY n;
SELECT pg_temp.plans();
-- a transaction number that a savepoint does not change, and numbers of changes that grow
BEGIN;
SELECT t.have(1, 'first');
SAVEPOINT s;
SELECT t.have(1, 'second');
RELEASE s;
SELECT id - min(id) OVER (), xid = pg_current_xact_id(), bucket_values FROM claims.change_sets WHERE xid = pg_current_xact_id() ORDER BY id;
ROLLBACK;
-- a cell has no right on the table and its sequence, and needs none; the row has its name
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.have(1, 'mine');
RESET SESSION AUTHORIZATION;
SELECT op, actor, bucket_values FROM claims.change_sets WHERE bucket_values = '{mine}';
-- a name of 63 bytes is not cut
CREATE ROLE "ünï3456789012345678901234567890123456789012345678901234567890";
SELECT claims.register_cell(1, 'ünï3456789012345678901234567890123456789012345678901234567890');
SET SESSION AUTHORIZATION "ünï3456789012345678901234567890123456789012345678901234567890";
SELECT t.have(1, 'long');
RESET SESSION AUTHORIZATION;
SELECT actor, octet_length(actor::text), actor = 'ünï3456789012345678901234567890123456789012345678901234567890'::name
  FROM claims.change_sets WHERE bucket_values = '{long}';
SELECT claims.register_cell(1, 'regress_claims_one');
SELECT claims.revoke_read('ünï3456789012345678901234567890123456789012345678901234567890');
DROP ROLE "ünï3456789012345678901234567890123456789012345678901234567890";
-- a long batch: a row for each thousand names, whose values are out of line
SELECT t.clean();
DELETE FROM claims.change_sets;
SET claims.max_batch_size = 3000;
SELECT claims.commit_update(2, claims.begin_update(2,
    (SELECT jsonb_agg(t.claim(repeat(md5(n::text), 8) || n, id => n)) FROM generate_series(1, 2500) n)));
SELECT id - min(id) OVER (), cardinality(bucket_values), cardinality(bucket_types) FROM claims.change_sets ORDER BY id;
SELECT count(*), count(DISTINCT c.bucket_value), count(r.bucket_value)
  FROM claims.changes c LEFT JOIN claims.records r ON r.bucket_value = c.bucket_value;
RESET claims.max_batch_size;
SELECT pg_temp.plans();
-- the index entries are complete: no row without one, no entry without a row
SELECT bt_index_check('claims.change_sets_pkey', true);
SELECT count(*) FROM verify_heapam('claims.change_sets');
SELECT t.clean();
-- rows are counted in the statistics
SELECT pg_stat_force_next_flush();
SELECT n_tup_ins AS before FROM pg_stat_user_tables WHERE relid = 'claims.change_sets'::regclass \gset
SELECT t.have(1, 'counted');
SELECT pg_stat_force_next_flush();
SELECT n_tup_ins - :before FROM pg_stat_user_tables WHERE relid = 'claims.change_sets'::regclass;
-- a read-only transaction writes nothing
SELECT claims.begin_update(1, t.creates('c'), lease_uuid => t.u(3502)) = t.u(3502);
BEGIN READ ONLY;
SELECT t.call('SELECT claims.commit_update(1, t.u(3502))');
ROLLBACK;
SELECT claims.rollback_update(1, t.u(3502));
-- the sequence is used as it is: another step, another start, its end
SELECT t.after_change('ALTER TABLE claims.change_sets ALTER id SET INCREMENT BY 2048',
    'SELECT split_part(c, '' '', 2) FROM pg_temp.changes() c');
SELECT t.after_change('ALTER TABLE claims.change_sets ALTER id RESTART WITH 1048576000', $$SELECT t.have(1, 'a')::text$$,
    'SELECT id FROM claims.change_sets ORDER BY id DESC LIMIT 1');
SELECT t.after_change('ALTER TABLE claims.change_sets ALTER id SET MAXVALUE 1048576000 RESTART WITH 1048576000', $$SELECT t.have(1, 'a')::text$$,
    $$SELECT t.call('SELECT t.have(1, ''b'')')$$);
-- so is one that has replaced it
SELECT t.after_change('ALTER EXTENSION claims DROP SEQUENCE claims.change_sets_id_seq;
    ALTER TABLE claims.change_sets ALTER id DROP IDENTITY, ALTER id ADD GENERATED BY DEFAULT AS IDENTITY (INCREMENT 1024 START 7168)',
    $$SELECT t.have(1, 'a')::text$$, 'SELECT id FROM claims.change_sets WHERE xid = pg_current_xact_id()');
-- another row with the number is a unique violation
SELECT t.after_change('ALTER TABLE claims.change_sets ALTER id RESTART WITH 1048576000',
    $$INSERT INTO claims.change_sets (id, op, actor, bucket_types, bucket_values) VALUES (1048576000, 'create', '', '{}', '{}') RETURNING op$$,
    $$SELECT t.state_of('SELECT t.have(1, ''a'')')$$);
SELECT pg_temp.plans();
-- the rows that statements write are the same
CREATE FUNCTION pg_temp.compare(change text, VARIADIC statements text[] DEFAULT '{}') RETURNS SETOF text LANGUAGE sql AS $$
    SELECT * FROM t.after_change(change, VARIADIC ARRAY[$u$
        SELECT CASE WHEN array_agg(c.line ORDER BY c.n) = (SELECT array_agg(d.line ORDER BY d.n) FROM direct d) THEN 'same rows' ELSE 'other rows' END
          FROM pg_temp.changes() WITH ORDINALITY AS c (line, n)$u$] || statements || 'SELECT problem || '': '' || detail FROM claims.check()'::text)
$$;
-- an index that administrators are told to make is no problem, but needs statements
SELECT pg_temp.compare('CREATE INDEX by_bucket ON claims.change_sets USING gin (bucket_values)',
    $$SELECT set_config('enable_seqscan', 'off', true)$$,
    $$SELECT bucket_values::text FROM claims.change_sets WHERE bucket_values @> '{last}'$$);
SELECT pg_temp.plans() > 0;
-- triggers fire, but not under session_replication_role; the NOTICE comes once
CREATE FUNCTION pg_temp.tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE '% % %', tg_op, tg_table_name, new.bucket_values;
    RETURN new;
END $$;
SELECT pg_temp.compare('CREATE TRIGGER tell BEFORE INSERT ON claims.change_sets FOR EACH ROW EXECUTE FUNCTION pg_temp.tell()');
SELECT pg_temp.compare('CREATE TRIGGER tell AFTER INSERT ON claims.change_sets FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.tell()');
SELECT pg_temp.compare('CREATE TRIGGER tell BEFORE INSERT ON claims.change_sets FOR EACH ROW EXECUTE FUNCTION pg_temp.tell();
    SET LOCAL session_replication_role = replica');
-- rules, constraints, added and generated columns, row security, indexes on expressions, child tables
SELECT pg_temp.compare('CREATE RULE nothing AS ON INSERT TO claims.change_sets DO ALSO NOTHING');
SELECT pg_temp.compare('ALTER TABLE claims.change_sets ADD CHECK (old_cell_id IS DISTINCT FROM 7)');
SELECT t.after_change('ALTER TABLE claims.change_sets ADD CHECK (bucket_values <> ''{a}'') NOT VALID',
    $$SELECT t.state_of('SELECT t.have(1, ''a'')')$$);
SELECT pg_temp.compare('ALTER TABLE claims.change_sets ADD note text DEFAULT ''added''', 'SELECT DISTINCT note FROM claims.change_sets');
SELECT pg_temp.compare('ALTER TABLE claims.change_sets ADD size int GENERATED ALWAYS AS (cardinality(bucket_values)) STORED',
    'SELECT sum(size)::text FROM claims.change_sets');
SELECT pg_temp.compare('ALTER TABLE claims.change_sets ENABLE ROW LEVEL SECURITY');
SELECT pg_temp.compare('CREATE UNIQUE INDEX backwards ON claims.change_sets (reverse(op), id)',
    $$SELECT (bt_index_check('claims.backwards', true) IS NOT NULL)::text$$);
SELECT pg_temp.compare('CREATE TABLE t.child () INHERITS (claims.change_sets)');
-- columns that differ: NOT NULL, a type, numbers that are always generated or by a default, a default
SELECT pg_temp.compare('ALTER TABLE claims.change_sets ALTER at DROP NOT NULL');
SELECT pg_temp.compare('ALTER TABLE claims.change_sets ALTER era TYPE bigint');
SELECT pg_temp.compare('ALTER TABLE claims.change_sets ALTER id SET GENERATED ALWAYS');
SELECT pg_temp.compare('ALTER EXTENSION claims DROP SEQUENCE claims.change_sets_id_seq;
    ALTER TABLE claims.change_sets ALTER id DROP IDENTITY; CREATE SEQUENCE t.ids INCREMENT 1024;
    ALTER TABLE claims.change_sets ALTER id SET DEFAULT nextval(''t.ids'')');
SELECT t.after_change('ALTER TABLE claims.change_sets ALTER two_phase SET DEFAULT ''mine''', $$SELECT t.have(1, 'a')::text$$,
    'SELECT two_phase FROM claims.change_sets WHERE xid = pg_current_xact_id()');
-- without its key, with another one as well as without
SELECT pg_temp.compare('ALTER TABLE claims.change_sets DROP CONSTRAINT change_sets_pkey');
SELECT pg_temp.compare('ALTER TABLE claims.change_sets DROP CONSTRAINT change_sets_pkey; CREATE UNIQUE INDEX other ON claims.change_sets (id, xid)');
-- a publication of INSERT needs no replica identity
SET client_min_messages = error;
SELECT pg_temp.compare('ALTER TABLE claims.change_sets REPLICA IDENTITY NOTHING; DELETE FROM claims.change_sets;
    CREATE PUBLICATION everything FOR TABLE claims.change_sets WITH (publish = ''insert'')');
RESET client_min_messages;
-- nothing of all this is left
SELECT problem, detail FROM claims.check();
-- and a new session writes directly again
\c -
SET claims.change_feed = on;
SELECT t.have(1, 'again');
SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource' AND ident LIKE 'INSERT INTO claims.change_sets%';
SELECT op, bucket_values FROM claims.change_sets WHERE bucket_values = '{again}';
SELECT t.clean();
DELETE FROM claims.change_sets;
