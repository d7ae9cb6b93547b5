-- Malformed batches: the SQLSTATE and a message that names the place; the session continues.
SELECT t.clean();
SET SESSION AUTHORIZATION regress_claims_one;
CREATE FUNCTION pg_temp.creates(c text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT t.call(format('SELECT claims.begin_update(1, %L)', c)) $$;
CREATE FUNCTION pg_temp.destroys(c text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(format('SELECT claims.begin_update(1, %L, %L)', '[]', c))
$$;
-- pg_temp.but() and without() send one good claim with one field replaced or removed
CREATE FUNCTION pg_temp.but(path text[], v jsonb) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(format('SELECT claims.begin_update(1, %L)', jsonb_build_array(t.claim('first'), jsonb_set(t.claim('second'), path, v)))) $$;
CREATE FUNCTION pg_temp.without(path text[]) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(format('SELECT claims.begin_update(1, %L)', jsonb_build_array(t.claim('first'), t.claim('second') #- path))) $$;
-- a batch that is not a list
SELECT pg_temp.creates('{}');
SELECT pg_temp.creates('"x"');
SELECT pg_temp.creates('7');
SELECT pg_temp.creates('null');
SELECT pg_temp.creates('true');
SELECT pg_temp.destroys('{}');
SELECT pg_temp.destroys('null');
-- an empty batch
SELECT pg_temp.creates('[]');
SELECT t.call('SELECT claims.begin_update(1)');
-- elements that are not objects
SELECT pg_temp.creates('[7]');
SELECT pg_temp.creates('[null]');
SELECT pg_temp.creates('[[]]');
SELECT pg_temp.creates('["x"]');
SELECT pg_temp.destroys('[null]');
SELECT pg_temp.creates('[{}]');
SELECT pg_temp.destroys('[{}]');
-- missing fields
SELECT pg_temp.without('{bucket}');
SELECT pg_temp.without('{subject}');
SELECT pg_temp.without('{source}');
SELECT pg_temp.without('{bucket,type}');
SELECT pg_temp.without('{bucket,value}');
SELECT pg_temp.without('{subject,type}');
SELECT pg_temp.without('{subject,id}');
SELECT pg_temp.without('{source,type}');
SELECT pg_temp.without('{source,rails_primary_key_id}');
SELECT pg_temp.destroys('[{"bucket": {"type": "ROUTES", "value": "a"}}, {"bucket": {"type": "ROUTES"}}]');
SELECT pg_temp.destroys('[{"bucket": {"value": "a"}}]');
SELECT pg_temp.destroys('[{"subject": {"type": "GROUP", "id": 1}}]');
-- unknown keys at every level
SELECT pg_temp.but('{extra}', '1');
SELECT pg_temp.but('{Bucket}', '1');
SELECT pg_temp.but('{bucket,extra}', 'null');
SELECT pg_temp.but('{subject,extra}', '[]');
SELECT pg_temp.but('{subject,rails_primary_key_id}', '1');
SELECT pg_temp.but('{source,extra}', '{}');
SELECT pg_temp.but('{""}', '1');
SELECT pg_temp.destroys('[{"bucket": {"type": 1, "value": "a"}, "extra": 1}]');
SELECT pg_temp.destroys('[{"bucket": {"type": 1, "value": "a", "id": 1}}]');
-- wrong JSON types
SELECT pg_temp.but('{bucket}', '7');
SELECT pg_temp.but('{bucket}', 'null');
SELECT pg_temp.but('{bucket}', '[]');
SELECT pg_temp.but('{subject}', '"x"');
SELECT pg_temp.but('{source}', 'true');
SELECT pg_temp.but('{bucket,type}', 'null');
SELECT pg_temp.but('{bucket,type}', 'true');
SELECT pg_temp.but('{bucket,type}', '[1]');
SELECT pg_temp.but('{bucket,type}', '{}');
SELECT pg_temp.but('{bucket,value}', 'null');
SELECT pg_temp.but('{bucket,value}', '7');
SELECT pg_temp.but('{bucket,value}', 'true');
SELECT pg_temp.but('{bucket,value}', '["a"]');
SELECT pg_temp.but('{bucket,value}', '{"a": 1}');
SELECT pg_temp.but('{subject,id}', 'null');
SELECT pg_temp.but('{subject,id}', 'true');
SELECT pg_temp.but('{subject,id}', '[1]');
SELECT pg_temp.but('{subject,id}', '{}');
SELECT pg_temp.but('{source,rails_primary_key_id}', 'null');
SELECT pg_temp.but('{source,rails_primary_key_id}', 'false');
SELECT pg_temp.but('{source,rails_primary_key_id}', '{}');
-- unknown types, UNSPECIFIED, and numbers that are no type
SELECT pg_temp.but('{bucket,type}', '"NO_SUCH"');
SELECT pg_temp.but('{bucket,type}', '"routes"');
SELECT pg_temp.but('{bucket,type}', '" ROUTES"');
SELECT pg_temp.but('{bucket,type}', '""');
SELECT pg_temp.but('{bucket,type}', '"UNSPECIFIED"');
SELECT pg_temp.but('{bucket,type}', '0');
SELECT pg_temp.but('{bucket,type}', '99');
SELECT pg_temp.but('{bucket,type}', '-1');
SELECT pg_temp.but('{bucket,type}', '1.5');
SELECT pg_temp.but('{bucket,type}', '2147483648');
SELECT pg_temp.but('{bucket,type}', '4294967297');
SELECT pg_temp.but('{bucket,type}', '18446744073709551617');
SELECT pg_temp.but('{bucket,type}', '1e400');
SELECT pg_temp.but('{subject,type}', '"UNSPECIFIED"');
SELECT pg_temp.but('{subject,type}', '0');
SELECT pg_temp.but('{subject,type}', '"ROUTES"');
SELECT pg_temp.but('{subject,type}', '99');
SELECT pg_temp.but('{source,type}', '"UNSPECIFIED"');
SELECT pg_temp.but('{source,type}', '0');
SELECT pg_temp.but('{source,type}', '"GROUP"');
SELECT pg_temp.but('{source,type}', '99');
SELECT pg_temp.destroys('[{"bucket": {"type": "UNSPECIFIED", "value": "a"}}]');
SELECT pg_temp.destroys('[{"bucket": {"type": 0, "value": "a"}}]');
SELECT pg_temp.destroys('[{"bucket": {"type": 99, "value": "a"}}]');
SELECT pg_temp.destroys('[{"bucket": {"type": "NO_SUCH", "value": "a"}}]');
-- ids that are no 64-bit integers
SELECT pg_temp.but('{subject,id}', '9223372036854775808');
SELECT pg_temp.but('{subject,id}', '-9223372036854775809');
SELECT pg_temp.but('{subject,id}', '18446744073709551616');
SELECT pg_temp.but('{subject,id}', '1.5');
SELECT pg_temp.but('{subject,id}', '0.1');
SELECT pg_temp.but('{subject,id}', '1e400');
SELECT pg_temp.but('{subject,id}', '-1e400');
SELECT pg_temp.but('{subject,id}', '1e-400');
SELECT pg_temp.but('{subject,id}', repeat('9', 100000)::jsonb);
SELECT pg_temp.but('{source,rails_primary_key_id}', '9223372036854775808');
SELECT pg_temp.but('{source,rails_primary_key_id}', '2.5');
SELECT pg_temp.but('{source,rails_primary_key_id}', '1e400');
-- empty values and ids
SELECT pg_temp.but('{bucket,value}', '""');
SELECT pg_temp.but('{subject,id}', '""');
SELECT pg_temp.but('{source,rails_primary_key_id}', '""');
SELECT pg_temp.destroys('[{"bucket": {"type": 1, "value": ""}}]');
-- two spellings of one id's key in a record, also with equal values
SELECT pg_temp.but('{source,railsPrimaryKeyId}', '1');
SELECT pg_temp.but('{source,id}', '1');
SELECT pg_temp.but('{source}', '{"type": 3, "id": 1, "railsPrimaryKeyId": 1}');
SELECT pg_temp.but('{source}', '{"type": 3, "id": 1, "railsPrimaryKeyId": 2, "rails_primary_key_id": 3}');
SELECT pg_temp.but('{source}', '{"type": 3, "id": 1, "rails_primary_key_id": null}');
-- the same bucket twice in one list, by type name and by type number
SELECT pg_temp.creates(t.creates('a', 'b', 'a')::text);
SELECT pg_temp.creates(jsonb_build_array(t.claim('a'), jsonb_set(t.claim('a', id => 2), '{bucket,type}', '1'))::text);
SELECT pg_temp.destroys(t.destroys('a', 'b', 'c', 'b')::text);
-- a bucket in both lists is replaced: it must exist
SELECT t.call($$SELECT claims.begin_update(1, t.creates('x', 'a'), t.destroys('y', 'z', 'a'))$$);
-- equal values of two bucket types are two buckets
SELECT t.call($$SELECT claims.begin_update(1, jsonb_build_array(t.claim('a', 'ROUTES'), t.claim('a', 'USERNAMES')), lease_uuid => t.u(1900))$$);
SELECT claims.rollback_update(1, t.u(1900));
-- the place in a message is counted in its own list, from 0
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b', 'c') || '[{"bucket": {"type": 1, "value": ""}}]')$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a'), t.destroys('b', 'c') || '[{"bucket": {"type": 1, "value": ""}}]')$$);
-- a destroy's subject and source need the form that they have in a create
SELECT t.call(format('SELECT claims.begin_update(1, %L, lease_uuid => t.u(1901))', t.creates('a'))), claims.commit_update(1, t.u(1901));
SELECT t.call(format('SELECT claims.begin_update(1, %L, %L, t.u(%s))', '[]',
        jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 1, 'value', 'a'), 'subject', s, 'source', s)), 1901 + n))
  FROM (VALUES (1, 'null'::jsonb), (2, '{}'), (3, '[]'), (4, '1e400'), (5, '{"type": "UNSPECIFIED", "id": 1.5, "extra": {"bucket": [1, 2]}}'),
               (6, (repeat('[', 5000) || repeat(']', 5000))::jsonb), (7, (repeat('{"bucket":', 5000) || '1' || repeat('}', 5000))::jsonb),
                 (8, to_jsonb(repeat('x', 100000)))) v(n, s) ORDER BY n;
-- 10,000 levels of nesting in fields that are read
SELECT pg_temp.creates(repeat('[', 10000) || repeat(']', 10000));
SELECT pg_temp.creates(repeat('[{"bucket":', 5000) || '1' || repeat('}]', 5000));
SELECT pg_temp.but('{bucket,value}', (repeat('[', 10000) || repeat(']', 10000))::jsonb);
SELECT pg_temp.but('{subject,id}', (repeat('{"id":', 10000) || '1' || repeat('}', 10000))::jsonb);
SELECT pg_temp.but('{extra}', (repeat('[', 10000) || repeat(']', 10000))::jsonb);
-- 10,000 levels of nesting in the subject and the source of a destroy
SELECT t.call(format('SELECT claims.begin_update(1, %L, %L, t.u(1910))', '[]', '[{"bucket": {"type": 1, "value": "a"}, "subject": '
        || repeat('[', 10000) || repeat(']', 10000) || ', "source": ' || repeat('{"a":', 10000) || '1' || repeat('}', 10000) || '}]'));
SELECT claims.rollback_update(1, t.u(1910));
-- an error of the type jsonb keeps its SQLSTATE and message
SELECT pg_temp.creates('[{"bucket": {"type": 1, "value": "\u0000"}}]');
SELECT pg_temp.creates('[');
SELECT pg_temp.creates('[{"bucket": {"type": 1, "value": "\ud800"}}]');
SELECT split_part(c, ':', 1) FROM pg_temp.creates(repeat('[', 1000000) || repeat(']', 1000000)) c LIMIT 1;
-- jsonb keeps the last of two equal keys
SELECT t.call($$SELECT claims.begin_update(1, '[{"bucket": {"type": 99, "type": 1, "value": "x", "value": "key twice"},
        "subject": {"type": 2, "id": 1}, "source": {"type": 3, "id": 1}}]', lease_uuid => t.u(1920))$$);
SELECT bucket_value FROM claims.get_record('ROUTES', 'key twice');
SELECT claims.rollback_update(1, t.u(1920));
-- no refused batch left a claim or a lease
RESET SESSION AUTHORIZATION;
SELECT * FROM t.state();
SELECT t.leases();
SET SESSION AUTHORIZATION regress_claims_one;
-- the error as the client sees it, and the next statement works
SELECT claims.begin_update(1, '[{"bucket": {"type": "ROUTES", "value": ""}}]');
SELECT 1;
SELECT claims.begin_update(1,
      '[{"bucket": {"type": "NO_SUCH", "value": "a"}, "subject": {"type": "GROUP", "id": 1}, "source": {"type": "RAILS_TABLE_ROUTES", "id": 1}}]');
SELECT claims.begin_update(1, '[{"bucket": {"type": 1, "value": "after"}, "subject": {"type": 2, "id": 1}, "source": {"type": 3, "id": 1}}]',
      lease_uuid => t.u(1921));
SELECT claims.rollback_update(1, t.u(1921));
BEGIN;
SELECT claims.begin_update(1, '[{"bucket": []}]');
SELECT 1;
ROLLBACK;
SELECT 1;
RESET SESSION AUTHORIZATION;
SELECT count(*) FROM claims.check();
