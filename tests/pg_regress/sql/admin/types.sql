-- The tables of types: their first contents, and adding types.
SELECT t.clean();
-- the types of the extension
SELECT id, name FROM claims.bucket_types ORDER BY id;
SELECT id, name FROM claims.subject_types ORDER BY id;
SELECT id, name FROM claims.source_types ORDER BY id;

-- new types are added
BEGIN;
SELECT t.call($$SELECT claims.add_bucket_type(100, 'DOMAINS')$$);
SELECT t.call($$SELECT claims.add_subject_type(100, 'FLEET')$$);
SELECT t.call($$SELECT claims.add_source_type(100, 'RAILS_TABLE_DOMAINS')$$);
-- adding the same id and name again changes nothing
SELECT t.call($$SELECT claims.add_bucket_type(100, 'DOMAINS')$$);
SELECT t.call($$SELECT claims.add_subject_type(100, 'FLEET')$$);
SELECT t.call($$SELECT claims.add_source_type(100, 'RAILS_TABLE_DOMAINS')$$);
SELECT t.call($$SELECT claims.add_bucket_type(1, 'ROUTES')$$);
SELECT count(*) FROM claims.bucket_types;
-- an id or a name that another type has is refused
SELECT t.call($$SELECT claims.add_bucket_type(100, 'OTHER')$$);
SELECT t.call($$SELECT claims.add_bucket_type(101, 'DOMAINS')$$);
SELECT t.call($$SELECT claims.add_bucket_type(1, 'EMAILS')$$);
SELECT t.call($$SELECT claims.add_subject_type(100, 'OTHER')$$);
SELECT t.call($$SELECT claims.add_subject_type(101, 'FLEET')$$);
SELECT t.call($$SELECT claims.add_source_type(100, 'OTHER')$$);
SELECT t.call($$SELECT claims.add_source_type(101, 'RAILS_TABLE_DOMAINS')$$);
SELECT t.call($$SELECT claims.add_bucket_type(0, 'SOMETHING')$$);
SELECT t.call($$SELECT claims.add_bucket_type(1, '7')$$);
SELECT t.call($$SELECT claims.add_bucket_type(0, 'ROUTES')$$);
-- all types of the extension may be added again
SELECT count(claims.add_bucket_type(id, name)) FROM claims.bucket_types;
SELECT count(claims.add_subject_type(id, name)) FROM claims.subject_types;
SELECT count(claims.add_source_type(id, name)) FROM claims.source_types;
-- ids that no type has can be added, below 100 too
SAVEPOINT low;
SELECT t.call($$SELECT claims.add_bucket_type(19, 'NEXT', 'casefold')$$);
SELECT t.call($$SELECT claims.add_subject_type(5, 'NEXT'), claims.add_source_type(99, 'NEXT')$$);
SELECT t.call($$SELECT claims.add_bucket_type(19, 'NEXT', 'casefold')$$);
SELECT t.call($$SELECT claims.add_bucket_type(19, 'NEXT')$$);
SELECT t.call($$SELECT claims.add_bucket_type(19, 'OTHER')$$);
SELECT t.call($$SELECT claims.commit_update(1, claims.begin_update(1, '[{"bucket": {"type": "NEXT", "value": "Low"},
    "subject": {"type": "NEXT", "id": 1}, "source": {"type": 99, "id": 1}}]'))$$);
SELECT bucket_type, bucket_value, display_value, subject_type, source_type FROM claims.get_record('NEXT', 'LOW');
SELECT count(*) FROM claims.check();
ROLLBACK TO low;
SELECT t.call($$SELECT claims.add_bucket_type(-1, 'X')$$);
SELECT t.call($$SELECT claims.add_bucket_type(103, '7')$$);
-- invalid names and NULLs are refused
SELECT t.call($$SELECT claims.add_bucket_type(102, '')$$);
SELECT t.call($$SELECT claims.add_bucket_type(NULL, 'X')$$);
SELECT t.call($$SELECT claims.add_bucket_type(102, NULL)$$);
SELECT t.call($$SELECT claims.add_subject_type(NULL, 'X')$$);
SELECT t.call($$SELECT claims.add_subject_type(102, NULL)$$);
SELECT t.call($$SELECT claims.add_source_type(NULL, 'X')$$);
SELECT t.call($$SELECT claims.add_source_type(102, NULL)$$);
-- a new type can be used at once by name and number, also in a session that has cached the old ones
SELECT t.call(format('SELECT claims.begin_update(1, %L, lease_uuid => t.u(100))', '[
    {"bucket": {"type": "DOMAINS", "value": "a.example"}, "subject": {"type": "FLEET", "id": 1},
     "source": {"type": "RAILS_TABLE_DOMAINS", "id": 1}},
    {"bucket": {"type": 100, "value": "b.example"}, "subject": {"type": 100, "id": 2},
     "source": {"type": 100, "id": 2}}]'));
SELECT bucket_type, bucket_value, subject_type, source_type FROM claims.get_record('DOMAINS', 'b.example');
SELECT bucket_type, bucket_value, source_type FROM claims.list_records(1, 'RAILS_TABLE_DOMAINS');
SELECT bucket_type, bucket_value, subject_type, source_type FROM claims.records ORDER BY bucket_value;
-- a conflict names the new type
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, jsonb_build_array(t.claim('a.example', 'DOMAINS')));
SELECT count(*) FROM claims.check();
ROLLBACK;
-- a type is rolled back with its transaction, also in the session's cache
SELECT t.call($$SELECT claims.begin_update(1, jsonb_build_array(t.claim('a.example', 'DOMAINS')))$$);
SELECT t.call($$SELECT * FROM claims.get_record('DOMAINS', 'a.example')$$);

-- a type renamed by hand is known by its new and its first name
BEGIN;
UPDATE claims.bucket_types SET name = 'PATHS' WHERE id = 1;
SELECT t.call($$SELECT claims.begin_update(1, jsonb_build_array(t.claim('renamed', 'ROUTES')), lease_uuid => t.u(102))$$);
SELECT t.call($$SELECT claims.begin_update(1, jsonb_build_array(t.claim('renamed too', 'PATHS')), lease_uuid => t.u(101))$$);
ROLLBACK;

-- only administrators add types
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.add_bucket_type(100, 'DOMAINS')$$);
SELECT t.call($$SELECT claims.add_subject_type(100, 'FLEET')$$);
SELECT t.call($$SELECT claims.add_source_type(100, 'RAILS_TABLE_DOMAINS')$$);
SELECT t.call($$INSERT INTO claims.bucket_types VALUES (100, 'DOMAINS')$$);
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_claims_admin;
BEGIN;
SELECT t.call($$SELECT claims.add_bucket_type(100, 'DOMAINS')$$);
SELECT t.call($$SELECT claims.add_subject_type(100, 'FLEET')$$);
SELECT t.call($$SELECT claims.add_source_type(100, 'RAILS_TABLE_DOMAINS')$$);
ROLLBACK;
RESET SESSION AUTHORIZATION;
