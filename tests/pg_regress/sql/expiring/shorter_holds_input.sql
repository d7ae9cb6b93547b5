-- Expiring claims and requests: NULL, invalid and too long arguments are refused and change nothing.
DELETE FROM claims.expiring_claims;
DELETE FROM claims.requests;
CREATE TABLE t.plain (token bigint);
CREATE FUNCTION pg_temp.all(VARIADIC statements text[]) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT q.s || ' -> ' || c FROM unnest(statements) WITH ORDINALITY q(s, n), t.call('SELECT ' || q.s) c ORDER BY n $$;
-- NULL arguments
SELECT pg_temp.all('claims.add_expiring(NULL, ''{a}'')', 'claims.add_expiring(''k'', NULL)', 'claims.add_expiring(''k'', ''{a,NULL}'')',
    'claims.remove_expiring(NULL, ''{a}'')', 'claims.remove_expiring(''k'', NULL)', 'claims.remove_expiring(''k'', ''{NULL}'')',
    'claims.acquire_expiring(NULL, ''c'', ''1 s'')', 'claims.acquire_expiring(''k'', NULL, ''1 s'')', 'claims.acquire_expiring(''k'', ''c'', NULL)',
    'claims.renew_expiring(NULL, ''c'', ''1 s'')', 'claims.renew_expiring(''k'', NULL, ''1 s'')', 'claims.renew_expiring(''k'', ''c'', NULL)',
    'claims.held_expiring(NULL, ''c'')', 'claims.held_expiring(''k'', NULL)',
    'claims.release_expiring(NULL, ''c'')', 'claims.release_expiring(''k'', NULL)', 'claims.release_expiring(''k'', ''c'', ''{a,NULL}'')',
    'claims.assert_held(NULL, ''a'', 1)', 'claims.assert_held(''k'', NULL, 1)', 'claims.assert_held(''k'', ''a'', NULL)',
    'claims.grant_worker(NULL)');
SELECT pg_temp.all('claims.enqueue_request(NULL, ''e'', ''update'')', 'claims.enqueue_request(''q'', NULL, ''update'')',
      'claims.enqueue_request(''q'', ''e'', NULL)',
    'claims.take_requests(NULL, t.u(1))', 'claims.take_requests(''q'', NULL)', 'claims.take_requests(''q'', t.u(1), NULL)',
    'claims.settle_requests(NULL)', 'claims.extend_requests(NULL, ''1 s'')', 'claims.extend_requests(t.u(1), NULL)',
    'claims.retry_requests(NULL, ''e'')', 'claims.retry_requests(''q'', NULL)',
    'claims.purge_requests(NULL, ''1 s'')', 'claims.purge_requests(''q'', NULL)',
    'claims.capture_requests(NULL, ''q'', ''c'')', 'claims.capture_requests(''t.plain'', NULL, ''token'')',
    'claims.capture_requests(''t.plain'', ''q'', NULL)',
    'claims.uncapture_requests(NULL, ''q'')', 'claims.uncapture_requests(''t.plain'', NULL)');
-- arguments that may be NULL
SELECT pg_temp.all('count(*) FROM claims.acquire_expiring(''k'', ''c'', ''1 s'', NULL)', 'claims.release_expiring(''k'', ''c'', NULL)',
    'count(*) FROM claims.take_requests(''q'', t.u(1), 0, NULL)', 'claims.enqueue_request(''q'', ''e'', ''update'', NULL) > 0');
DELETE FROM claims.requests;
-- empty and too long texts (characters count, not bytes)
SELECT pg_temp.all('claims.add_expiring('''', ''{a}'')', 'claims.add_expiring(''k'', ''{a,""}'')',
      'claims.acquire_expiring(''k'', '''', ''1 s'')', 'claims.assert_held(''k'', '''', 1)',
    'claims.enqueue_request('''', ''e'', ''update'')', 'claims.enqueue_request(''q'', '''', ''update'')',
    'claims.take_requests('''', t.u(1))', 'claims.retry_requests(''q'', '''')',
    'claims.add_expiring(repeat(''k'', 64), ''{a}'')', 'claims.add_expiring(''k'', ARRAY[repeat(''a'', 513)])',
    'claims.acquire_expiring(''k'', repeat(''c'', 129), ''1 s'')',
    'claims.enqueue_request(repeat(''q'', 64), ''e'', ''update'')', 'claims.enqueue_request(''q'', repeat(''e'', 513), ''update'')',
    'claims.add_expiring(''k'', array_fill(''a''::text, ARRAY[100001]))',
    'claims.add_expiring(repeat(''😀'', 63), ARRAY[repeat(''😀'', 512)])',
    'count(*) FROM claims.acquire_expiring(repeat(''😀'', 63), repeat(''😀'', 128), ''1 min'')',
    'claims.enqueue_request(repeat(''😀'', 63), repeat(''😀'', 512), ''create'') > 0',
    'claims.enqueue_request(repeat(''😀'', 63), repeat(''😀'', 512), ''update'') > 0',
    'count(*) FROM claims.take_requests(repeat(''😀'', 63), t.u(1), 0, ''1 min'')', 'claims.settle_requests(t.u(1), repeat(''😀'', 65537))',
      'claims.settle_requests(t.u(1), repeat(''😀'', 65536))');
SELECT status, length(error) FROM claims.requests ORDER BY id;
DELETE FROM claims.requests;
-- durations and numbers out of range
SELECT pg_temp.all('claims.acquire_expiring(''k'', ''c'', ''0'')', 'claims.acquire_expiring(''k'', ''c'', ''-1 s'')',
      'claims.acquire_expiring(''k'', ''c'', ''3661 days'')', 'claims.acquire_expiring(''k'', ''c'', ''178000000 years'')',
    'claims.renew_expiring(''k'', ''c'', ''0'')', 'claims.acquire_expiring(''k'', ''c'', ''1 s'', -1)',
    'claims.take_requests(''q'', t.u(1), 0, ''0'')', 'claims.take_requests(''q'', t.u(1), 0, ''-1 day'')',
    'claims.extend_requests(t.u(1), ''0'')', 'claims.purge_requests(''q'', ''-1 s'')', 'claims.purge_requests(''q'', ''178000000 years'')',
    'count(*) FROM claims.take_requests(''q'', t.u(1), -9223372036854775808)',
    'count(*) FROM claims.take_requests(''q'', t.u(1), 9223372036854775807)',
    'claims.purge_requests(''q'', ''1000 years'')');
-- unknown request types, roles and tables
SELECT pg_temp.all('claims.enqueue_request(''q'', ''e'', ''delete'')', 'claims.enqueue_request(''q'', ''e'', ''CREATE'')',
      'claims.enqueue_request(''q'', ''e'', '''')',
    'claims.grant_worker(''nobody_has_this_name'')', 'claims.settle_requests(t.u(1))', 'claims.extend_requests(t.u(1), ''1 s'')',
    'claims.capture_requests(''claims.records'', ''q'', ''uuid'')', 'claims.capture_requests(''claims.requests'', ''q'', ''entity'')',
    'claims.capture_requests(999999999::oid::regclass, ''q'', ''c'')',
    'claims.capture_requests(''t.plain'', ''q'', ''nothing'')', 'claims.capture_requests(''t.plain'', ''q'', ''ctid'')',
      'claims.capture_requests(''t.plain'', '''', ''token'')', 'claims.capture_requests(''t.plain'', repeat(''q'', 64), ''token'')');
SELECT count(*) FROM claims.requests;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 't.plain'::regclass;
DELETE FROM claims.expiring_claims;
DROP TABLE t.plain;
