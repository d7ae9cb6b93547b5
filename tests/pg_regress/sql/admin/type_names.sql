-- Types with several names: all are accepted, one is shown.
SELECT t.clean();
SELECT kind, id, name, aliases FROM claims.list_types() WHERE aliases <> '{}';
SELECT kind, count(*) FROM claims.list_types() GROUP BY kind ORDER BY kind;

-- the aliases of the extension's types
BEGIN;
SELECT t.call(format('SELECT claims.begin_update(1, %L, lease_uuid => t.u(1300))', '[
    {"bucket": {"type": "ROUTES", "value": "a"}, "subject": {"type": "NAMESPACE", "id": 1},
        "source": {"type": "RAILS_TABLE_NAMESPACES", "id": 1}}]'));
-- a repeat with the shown names is the same request
SELECT t.call(format('SELECT claims.begin_update(1, %L, lease_uuid => t.u(1300))', '[
    {"bucket": {"type": "ROUTES", "value": "a"}, "subject": {"type": "GROUP", "id": 1}, "source": {"type": "RAILS_TABLE_GROUPS", "id": 1}}]'));
SELECT subject_type, source_type FROM claims.get_record('ROUTES', 'a');
SELECT payload #>> '{create_records,0,subject,type}' FROM claims.list_leases(1);
SELECT count(*) FROM claims.list_records(1, 'RAILS_TABLE_NAMESPACES');
SELECT t.call($$SELECT claims.add_subject_type(100, 'NAMESPACE')$$);
-- adding a type again under its alias changes nothing
SELECT t.call($$SELECT claims.add_subject_type(2, 'NAMESPACE')$$);
ROLLBACK;

-- a type gets another name
BEGIN;
SELECT claims.begin_update(1, t.creates('before'), lease_uuid => t.u(1301), cell_xid => '7') IS NOT NULL;
SELECT claims.commit_update(1, claims.begin_update(1, t.creates('committed'), lease_uuid => t.u(1302)));
SELECT digest AS before FROM claims.digest_records(1, 'RAILS_TABLE_ROUTES') \gset
SELECT t.call($$SELECT claims.rename_type('bucket', 1, 'PATHS')$$);
SELECT t.call($$SELECT claims.rename_type('subject', 2, 'NAMESPACE')$$);
SELECT t.call($$SELECT claims.rename_type('source', 3, 'ROUTES_TABLE')$$);
-- renaming to the same name, and back, changes nothing
SELECT t.call($$SELECT claims.rename_type('source', 3, 'ROUTES_TABLE')$$);
SELECT t.call($$SELECT claims.rename_type('source', 4, 'PROJECTS_TABLE'), claims.rename_type('source', 4, 'RAILS_TABLE_PROJECTS')$$);
SELECT kind, id, name, aliases FROM claims.list_types() WHERE aliases <> '{}';
SELECT name FROM claims.bucket_types WHERE id = 1;
-- a query by an old name returns the shown one
SELECT bucket_type, subject_type, source_type FROM claims.get_record('ROUTES', 'before');
SELECT bucket_type, subject_type, source_type FROM claims.get_record('PATHS', 'before');
SELECT DISTINCT bucket_type, subject_type, source_type FROM claims.records;
SELECT count(*) FROM claims.list_records(1, 'RAILS_TABLE_ROUTES');
SELECT count(*) FROM claims.list_records(1, 'ROUTES_TABLE');
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.creates('committed'));
-- repeats of earlier requests by any name are the same request, outstanding or committed
SELECT t.call($$SELECT claims.begin_update(1, t.creates('before'), lease_uuid => t.u(1301), cell_xid => '7')$$);
SELECT t.call($$SELECT claims.begin_update(1, jsonb_build_array(t.claim('before', 'PATHS')), lease_uuid => t.u(1301), cell_xid => '7')$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('committed'), lease_uuid => t.u(1302))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('other'), lease_uuid => t.u(1302))$$);
-- a lease begun under the new name, repeated after the next rename
SELECT t.call($$SELECT claims.begin_update(1, t.creates('after'), lease_uuid => t.u(1303))$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 1, 'ROUTES')$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('after'), lease_uuid => t.u(1303))$$);
-- digests do not change
SELECT claims.rollback_update(1, t.u(1303));
SELECT digest = :'before' FROM claims.digest_records(1, 'ROUTES_TABLE');
SELECT count(*) FROM claims.check();
-- leases begun under the old name can be settled
SELECT t.call($$SELECT claims.rename_type('bucket', 1, 'PATHS')$$);
SELECT t.call($$SELECT claims.commit_update(1, t.u(1301))$$);
SELECT count(*) FROM claims.check();
-- a name that another type has, also as an alias, is refused
SELECT t.call($$SELECT claims.rename_type('bucket', 4, 'EMAILS')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 4, 'ROUTES')$$);
SELECT t.call($$SELECT claims.add_bucket_type(100, 'ROUTES')$$);
SELECT t.call($$SELECT claims.add_bucket_type(1, 'ROUTES')$$);
ROLLBACK;
-- a rename is rolled back with its transaction, also in the session's cache
SELECT t.call($$SELECT * FROM claims.get_record('PATHS', 'before')$$);

-- claim_attribute keeps the type of a column, whatever its name
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

-- a name that a type got by hand is accepted after the next rename
BEGIN;
SELECT claims.add_bucket_type(150, 'FIRST_150'), claims.rename_type('bucket', 150, 'SECOND_150');
UPDATE claims.bucket_types SET name = 'BY_HAND' WHERE id = 150;
SELECT claims.rename_type('bucket', 150, 'THIRD_150');
SELECT name, aliases FROM claims.list_types() WHERE kind = 'bucket' AND id = 150;
ROLLBACK;

-- invalid arguments are refused
SELECT t.call($$SELECT claims.rename_type(NULL, 1, 'X')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', NULL, 'X')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 1, NULL)$$);
SELECT t.call($$SELECT claims.rename_type('cell', 1, 'X')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 90, 'X')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 0, 'X')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 1, '')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 1, '17')$$);
SELECT t.call($$SELECT claims.rename_type('bucket', 1, repeat('x', 64))$$);
SELECT t.call($$SELECT claims.add_bucket_type(-1, 'NEXT')$$);
SELECT t.call($$SELECT claims.add_source_type(-2147483648, 'NEXT')$$);
SELECT t.call($$SELECT claims.add_subject_type(2147483647, 'LAST')$$);
-- an alias that was deleted by hand is unknown and can be used again
DELETE FROM claims.subject_types WHERE id > 100;
SELECT t.call($$SELECT claims.add_subject_type(101, 'LAST')$$);
DELETE FROM claims.subject_types WHERE id > 100;
SELECT t.call($$SELECT claims.add_subject_type(101, 'OTHER')$$);
SELECT id, name, aliases FROM claims.list_types() WHERE id > 100;
DELETE FROM claims.subject_types WHERE id > 100; DELETE FROM claims.type_names WHERE id > 100;
-- only administrators rename types
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
