-- Types by several names: all are accepted, one is shown.
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
SELECT t.clean();
SELECT kind, id, name, aliases FROM claims.list_types() WHERE aliases <> '{}';
SELECT kind, count(*) FROM claims.list_types() GROUP BY kind ORDER BY kind;

-- the other names of seeded types
BEGIN;
SELECT t.call(format('SELECT claims.begin_update(1, %L, lease_uuid => t.u(1300))', '[
    {"bucket": {"type": "ROUTES", "value": "a"}, "subject": {"type": "NAMESPACE", "id": 1}, "source": {"type": "RAILS_TABLE_NAMESPACES", "id": 1}}]'));
-- a repeat by the shown ones is the same request
SELECT t.call(format('SELECT claims.begin_update(1, %L, lease_uuid => t.u(1300))', '[
    {"bucket": {"type": "ROUTES", "value": "a"}, "subject": {"type": "GROUP", "id": 1}, "source": {"type": "RAILS_TABLE_GROUPS", "id": 1}}]'));
SELECT subject_type, source_type FROM claims.get_record('ROUTES', 'a');
SELECT payload #>> '{create_records,0,subject,type}' FROM claims.list_leases(1);
SELECT count(*) FROM claims.list_records(1, 'RAILS_TABLE_NAMESPACES');
SELECT t.call($$SELECT claims.add_subject_type(100, 'NAMESPACE')$$);
-- the same pair, by another name of the type
SELECT t.call($$SELECT claims.add_subject_type(2, 'NAMESPACE')$$);
ROLLBACK;

-- a type that gets another name
BEGIN;
SELECT claims.begin_update(1, t.creates('before'), lease_uuid => t.u(1301), cell_xid => '7') IS NOT NULL;
SELECT claims.commit_update(1, claims.begin_update(1, t.creates('committed'), lease_uuid => t.u(1302)));
SELECT digest AS before FROM claims.digest_records(1, 'RAILS_TABLE_ROUTES') \gset
SELECT t.call($$SELECT claims.rename_type('bucket', 1, 'PATHS')$$);
SELECT t.call($$SELECT claims.rename_type('subject', 2, 'NAMESPACE')$$);
SELECT t.call($$SELECT claims.rename_type('source', 3, 'ROUTES_TABLE')$$);
-- again, and back, is nothing
SELECT t.call($$SELECT claims.rename_type('source', 3, 'ROUTES_TABLE')$$);
SELECT t.call($$SELECT claims.rename_type('source', 4, 'PROJECTS_TABLE'), claims.rename_type('source', 4, 'RAILS_TABLE_PROJECTS')$$);
SELECT kind, id, name, aliases FROM claims.list_types() WHERE aliases <> '{}';
SELECT name FROM claims.bucket_types WHERE id = 1;
-- what is asked by an older name is answered with the shown one
SELECT bucket_type, subject_type, source_type FROM claims.get_record('ROUTES', 'before');
SELECT bucket_type, subject_type, source_type FROM claims.get_record('PATHS', 'before');
SELECT DISTINCT bucket_type, subject_type, source_type FROM claims.records;
SELECT count(*) FROM claims.list_records(1, 'RAILS_TABLE_ROUTES');
SELECT count(*) FROM claims.list_records(1, 'ROUTES_TABLE');
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.creates('committed'));
-- repeats of what was begun before, by whatever name: the same request, outstanding or committed
SELECT t.call($$SELECT claims.begin_update(1, t.creates('before'), lease_uuid => t.u(1301), cell_xid => '7')$$);
SELECT t.call($$SELECT claims.begin_update(1, jsonb_build_array(t.claim('before', 'PATHS')), lease_uuid => t.u(1301), cell_xid => '7')$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('committed'), lease_uuid => t.u(1302))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('other'), lease_uuid => t.u(1302))$$);
-- and the other way round: begun under the new name, repeated after the next change
SELECT t.call($$SELECT claims.begin_update(1, t.creates('after'), lease_uuid => t.u(1303))$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 1, 'ROUTES')$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('after'), lease_uuid => t.u(1303))$$);
-- digests do not change
SELECT claims.rollback_update(1, t.u(1303));
SELECT digest = :'before' FROM claims.digest_records(1, 'ROUTES_TABLE');
SELECT count(*) FROM claims.check();
-- leases that were begun under the old name end as ever
SELECT t.call($$SELECT claims.rename_type('bucket', 1, 'PATHS')$$);
SELECT t.call($$SELECT claims.commit_update(1, t.u(1301))$$);
SELECT count(*) FROM claims.check();
-- names that are taken, also as other names
SELECT t.call($$SELECT claims.rename_type('bucket', 4, 'EMAILS')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 4, 'ROUTES')$$);
SELECT t.call($$SELECT claims.add_bucket_type(100, 'ROUTES')$$);
SELECT t.call($$SELECT claims.add_bucket_type(1, 'ROUTES')$$);
ROLLBACK;
-- gone with its transaction, also for this session
SELECT t.call($$SELECT * FROM claims.get_record('PATHS', 'before')$$);

-- a cell's columns keep their type, whatever it is called
BEGIN;
CREATE TABLE public.named (id bigint PRIMARY KEY, path text);
SELECT t.call($$SELECT claims.claim_attribute('public.named', 'path', 'ROUTES', 'NAMESPACE', 'id', 'RAILS_TABLE_NAMESPACES')$$);
INSERT INTO public.named VALUES (1, 'a'), (2, 'b');
SELECT claims.commit_update(1, claims.begin_update(1, create_records)) FROM claims.pending_batch();
SELECT t.call($$SELECT claims.rename_type('bucket', 1, 'PATHS'), claims.rename_type('source', 5, 'GROUPS_TABLE')$$);
SELECT (SELECT digest FROM claims.digest_records(1, 'GROUPS_TABLE')) = (SELECT digest FROM claims.digest_expected('GROUPS_TABLE')),
       (SELECT records FROM claims.digest_expected('RAILS_TABLE_GROUPS'));
SELECT count(*) FROM claims.verify_records(1, 'GROUPS_TABLE', NULL, NULL, claims.expected_records('GROUPS_TABLE'), '0');
INSERT INTO public.named VALUES (3, 'c');
SELECT t.call($$SELECT claims.begin_update(1, jsonb_build_array(create_records -> 2)) IS NOT NULL FROM claims.pending_batch()$$);
ROLLBACK;

-- a name that somebody gave a type by hand is accepted as before, too, once it is renamed
BEGIN;
SELECT claims.add_bucket_type(150, 'FIRST_150'), claims.rename_type('bucket', 150, 'SECOND_150');
UPDATE claims.bucket_types SET name = 'BY_HAND' WHERE id = 150;
SELECT claims.rename_type('bucket', 150, 'THIRD_150');
SELECT name, aliases FROM claims.list_types() WHERE kind = 'bucket' AND id = 150;
ROLLBACK;

-- what is refused
SELECT t.call($$SELECT claims.rename_type(NULL, 1, 'X')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', NULL, 'X')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 1, NULL)$$);
SELECT t.call($$SELECT claims.rename_type('cell', 1, 'X')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 14, 'X')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 0, 'X')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 1, '')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 1, '17')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 1, repeat('x', 64))$$);
SELECT t.call($$SELECT claims.add_bucket_type(19, 'NEXT')$$);
SELECT t.call($$SELECT claims.add_source_type(99, 'NEXT')$$);
SELECT t.call($$SELECT claims.add_subject_type(2147483647, 'LAST')$$);
-- what somebody deleted by hand is unknown, and free
DELETE FROM claims.subject_types WHERE id > 100;
SELECT t.call($$SELECT claims.add_subject_type(101, 'LAST')$$);
DELETE FROM claims.subject_types WHERE id > 100;
SELECT t.call($$SELECT claims.add_subject_type(101, 'OTHER')$$);
SELECT id, name, aliases FROM claims.list_types() WHERE id > 100;
DELETE FROM claims.subject_types WHERE id > 100; DELETE FROM claims.type_names WHERE id > 100;
-- who
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.rename_type('bucket', 1, 'X')$$);
SELECT count(*) > 30 FROM claims.list_types();
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_claims_router;
SELECT count(*) > 30 FROM claims.list_types();
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_claims_nobody;
SELECT t.call($$SELECT * FROM claims.list_types()$$);
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_claims_admin;
BEGIN;
SELECT t.call($$SELECT claims.rename_type('bucket', 1, 'X')$$);
ROLLBACK;
RESET SESSION AUTHORIZATION;
