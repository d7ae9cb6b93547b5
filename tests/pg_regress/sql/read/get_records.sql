-- get_records.
SELECT t.clean();
SELECT t.have(1, 'a', 'b', 'c'); SELECT t.have(2, 'd');
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(t.claim('a', 'USERNAMES', 5))));
SELECT claims.begin_update(1, '[]', t.destroys('b'), t.u(1400));
SET SESSION AUTHORIZATION regress_claims_router;
-- rows in the order of the argument, without those that do not exist
SELECT bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, cell_id, status, lease_uuid, cell_name, cell_address
  FROM claims.get_records('[{"type": "ROUTES", "value": "d"}, {"type": "ROUTES", "value": "nothing"}, {"type": "USERNAMES", "value": "a"},
    {"type": 1, "value": "b"}, {"type": "ROUTES", "value": "a"}]');
SELECT array_agg(bucket_value)
  FROM claims.get_records('[{"type": 1, "value": "a"}, {"type": 1, "value": "b"}, {"type": 1, "value": "c"}, {"type": 1, "value": "d"}]');
SELECT array_agg(bucket_value)
  FROM claims.get_records('[{"type": 1, "value": "d"}, {"type": 1, "value": "c"}, {"type": 1, "value": "b"}, {"type": 1, "value": "a"}]');
SELECT array_agg(bucket_value)
  FROM claims.get_records('[{"type": 1, "value": "c"}, {"type": 1, "value": "a"}, {"type": 1, "value": "d"}, {"type": 1, "value": "b"}]');
SELECT count(*) FROM claims.get_records('[]');
-- a bucket that is asked for twice
SELECT array_agg(bucket_value) FROM claims.get_records('[{"type": 1, "value": "c"}, {"type": 1, "value": "a"}, {"type": 1, "value": "c"}]');
-- ordinal: which of the buckets a row answers
SELECT bucket_value, ordinal FROM claims.get_records('[{"type": 1, "value": "none"}, {"type": 1, "value": "c"}, {"type": 4, "value": "c"},
    {"type": 1, "value": "a"}, {"type": 1, "value": "c"}]');
-- malformed arguments are refused
SELECT t.call($$SELECT * FROM claims.get_records('{}')$$);
SELECT t.call($$SELECT * FROM claims.get_records('"x"')$$);
SELECT t.call($$SELECT * FROM claims.get_records('null')$$);
SELECT t.call($$SELECT * FROM claims.get_records('[1]')$$);
SELECT t.call($$SELECT * FROM claims.get_records('[{"type": 1, "value": "a"}, {"type": 1}]')$$);
SELECT t.call($$SELECT * FROM claims.get_records('[{"type": 1, "value": "a"}, {"value": "a"}]')$$);
SELECT t.call($$SELECT * FROM claims.get_records('[{"type": "NO_SUCH", "value": "a"}]')$$);
SELECT t.call($$SELECT * FROM claims.get_records('[{"type": "UNSPECIFIED", "value": "a"}]')$$);
SELECT t.call($$SELECT * FROM claims.get_records('[{"type": 1, "value": 7}]')$$);
SELECT t.call($$SELECT * FROM claims.get_records('[{"type": 1, "value": "a", "more": 1}]')$$);
SELECT t.call($$SELECT * FROM claims.get_records('[{"bucket": {"type": 1, "value": "a"}}]')$$);
SELECT t.call($$SELECT * FROM claims.get_records(('[{"type": 1, "value": ' || repeat('[', 10000) || repeat(']', 10000) || '}]')::jsonb)$$);
SELECT t.call($$SELECT * FROM claims.get_records('[{"type": 1e400, "value": "a"}]')$$);
RESET SESSION AUTHORIZATION;
BEGIN READ ONLY;
SELECT count(*) FROM claims.get_records('[{"type": 1, "value": "d"}, {"type": 1, "value": "c"}]');
SELECT pg_current_xact_id_if_assigned() IS NULL;
COMMIT;
-- 1,000 buckets in the order of the argument
SELECT t.have(1, VARIADIC ARRAY(SELECT 'n' || n FROM generate_series(1, 1000) n));
SELECT array_agg(bucket_value ORDER BY o) = (SELECT array_agg('n' || n ORDER BY md5(n::text)) FROM generate_series(1, 1000) n)
  FROM claims.get_records((SELECT jsonb_agg(jsonb_build_object('type', 'ROUTES', 'value', 'n' || n) ORDER BY md5(n::text))
      FROM generate_series(1, 1000) n)) WITH ORDINALITY r(uuid, bucket_type, bucket_value, a, b, c, d, e, f, g, h, i, j, k, o);
-- a set in the list of columns, beside rows, and in a cursor that goes back
SELECT (claims.get_record('ROUTES', v)).bucket_value, v FROM unnest('{n1,none,n2}'::text[]) v;
SELECT r.bucket_value, v FROM unnest('{n1,none,n2}'::text[]) v LEFT JOIN LATERAL claims.get_record('ROUTES', v) r ON true;
BEGIN;
DECLARE named SCROLL CURSOR FOR SELECT bucket_value FROM claims.get_records('[{"type": 1, "value": "n2"}, {"type": 1, "value": "n1"}]');
FETCH ALL FROM named;
FETCH BACKWARD ALL FROM named;
COMMIT;
-- more buckets than max_batch_size are refused
SELECT left(c, 5) FROM t.call($$SELECT count(*)
      FROM claims.get_records((SELECT jsonb_agg(jsonb_build_object('type', 1, 'value', 'n' || n)) FROM generate_series(1, 100000) n))$$) c LIMIT 1;
SELECT 1;
