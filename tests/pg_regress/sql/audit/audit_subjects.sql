-- The audit log: each name has its subject and source, before and after.
SELECT t.clean();
SET claims.audit = 'all';
-- t.log() returns the names of the log, one a line
CREATE FUNCTION t.log() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%s: %s %s: %s (%s) -> %s (%s)', a.what, n.op, n.bucket_value, n.old_subject, n.old_source, n.subject, n.source)
      FROM claims.audit_log a, unnest(a.ops, a.bucket_values, a.subjects, a.sources, a.old_subjects, a.old_sources) WITH ORDINALITY
           AS n (op, bucket_value, subject, source, old_subject, old_source, nth) ORDER BY a.at, a.id, n.nth $$;
-- t.one() is a create with a subject and a source of its own
CREATE FUNCTION t.one(value text, subject text, source text) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', value),
        'subject', jsonb_build_object('type', split_part(subject, ' ', 1), 'id', split_part(subject, ' ', 2)),
        'source', jsonb_build_object('type', 'RAILS_TABLE_' || split_part(source, ' ', 1), 'id', split_part(source, ' ', 2))) $$;

-- creates
SELECT claims.begin_update(1, jsonb_build_array(t.one('a', 'USER 1', 'USERS 11'), t.one('b', 'GROUP 2', 'ROUTES 12')),
                           lease_uuid => t.u(1)) IS NOT NULL, claims.commit_update(1, t.u(1));
-- in one batch: replaced, destroyed, and created
SELECT claims.begin_update(1, jsonb_build_array(t.one('a', 'USER 3', 'USERS 13'), t.one('c', 'USER 4', 'EMAILS 14')),
                           t.destroys('a', 'b'), t.u(2)) IS NOT NULL, claims.commit_update(1, t.u(2));
-- a lease that is rolled back has the subjects that it wanted
SELECT claims.begin_update(1, jsonb_build_array(t.one('a', 'USER 5', 'USERS 15'), t.one('d', 'USER 6', 'USERS 16')),
                           t.destroys('a', 'c'), t.u(3)) IS NOT NULL, claims.rollback_update(1, t.u(3));
SELECT t.log();
-- columns without any value are NULL, and each row has the keys of its names and subjects
SELECT subjects IS NULL, old_subjects IS NULL, cardinality(search_keys) FROM claims.audit_log ORDER BY at, id;
TRUNCATE claims.audit_log;

-- without a lease: imported, corrected, moved, released
SELECT count(*) FROM claims.import_records(1, jsonb_build_array(t.one('i', 'USER 7', 'USERS 17'))::text);
SELECT array_agg(uuid) AS extra FROM claims.claims WHERE bucket_value = 'i' \gset
SELECT discrepancy, outcome FROM claims.verify_records(1, 'RAILS_TABLE_USERS', NULL, NULL,
    jsonb_build_array(t.one('a', 'USER 8', 'USERS 13'), t.one('j', 'USER 9', 'USERS 19')), '0 s', true,
    :'extra'::uuid[]) ORDER BY 1;
SELECT marked FROM claims.prepare_transfer(t.u(30), 1, 2, '[{"type": "USER", "ids": [8, 9]}]', 'a test');
SELECT claims.switch_transfer(t.u(30), 'a test');
SELECT finished FROM claims.finish_transfer(t.u(30));
SELECT claims.release_records(2, 'a test');
SELECT * FROM t.log() l ORDER BY split_part(l, ' ', 1), l;
SELECT what, old_cell_id, cell_id FROM claims.audit_log WHERE old_cell_id IS NOT NULL;
TRUNCATE claims.audit_log;

-- a renamed type keeps its first name in the log, and ids are any texts
SELECT claims.rename_type('subject', 4, 'PERSON');
SELECT claims.begin_update(1, jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', 'k'),
    'subject', jsonb_build_object('type', 'PERSON', 'id', 'a "b" {c}, \ é'),
    'source', jsonb_build_object('type', 'RAILS_TABLE_USERS', 'id', 'NULL'))),
    lease_uuid => t.u(4)) IS NOT NULL, claims.commit_update(1, t.u(4));
SELECT t.log();
SELECT subjects, sources FROM claims.audit_log;
TRUNCATE claims.audit_log;

-- a batch of many names; an altered table, to which rows are written by statements
SELECT claims.begin_update(1, (SELECT jsonb_agg(t.one('m' || n, 'USER ' || n % 10, 'USERS ' || n)) FROM generate_series(1, 1000) n),
                           lease_uuid => t.u(5)) IS NOT NULL, claims.commit_update(1, t.u(5));
SELECT cardinality(subjects), subjects[1000], cardinality(search_keys) FROM claims.audit_log;
TRUNCATE claims.audit_log;
SET client_min_messages = warning;
ALTER TABLE claims.claims ADD COLUMN note text;
ALTER TABLE claims.audit_log ADD COLUMN note text;
SELECT claims.begin_update(1, jsonb_build_array(t.one('m1', 'USER 0', 'USERS 1')), t.destroys('m1', 'm2'), t.u(6)) IS NOT NULL,
    claims.commit_update(1, t.u(6));
SELECT t.log();
TRUNCATE claims.audit_log;
-- a name that is kept back has no owner there either, but the one that its lease wants
SELECT claims.set_quarantine('ROUTES', '1 day', 'a test', 'cell');
SELECT claims.begin_update(1, '[]', t.destroys('m1'), t.u(7)) IS NOT NULL, claims.commit_update(1, t.u(7));
SELECT claims.begin_update(1, jsonb_build_array(t.one('m1', 'USER 77', 'USERS 77')), lease_uuid => t.u(8)) IS NOT NULL,
    claims.commit_update(1, t.u(8));
SELECT t.log();
SELECT claims.set_quarantine('ROUTES', '0', 'over');
