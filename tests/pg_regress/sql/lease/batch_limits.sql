-- Limits of a batch: lengths of values and ids, and the number of its records.
SELECT t.clean();
CREATE FUNCTION pg_temp.one(value text, sid text, src text, lease int) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT left(c, 300) FROM t.call(format('SELECT claims.begin_update(1, %L, lease_uuid => t.u(%s))',
            jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 1, 'value', value),
        'subject', jsonb_build_object('type', 2, 'id', sid), 'source', jsonb_build_object('type', 3, 'id', src))), lease)) c $$;
-- a value may have 1,024 characters, of one to four bytes each, and not one more
SELECT n, pg_temp.one(repeat(chr(c), 1024), '1', '1', 2000 + n) FROM (VALUES (1, 120), (2, 233), (3, 8364), (4, 128512)) v(n, c) ORDER BY n;
SELECT char_length(bucket_value), octet_length(bucket_value) FROM claims.claims ORDER BY 2;
SELECT n, pg_temp.one(repeat(chr(c), 1025), '1', '1', 2010 + n) FROM (VALUES (1, 120), (2, 233), (3, 8364), (4, 128512)) v(n, c) ORDER BY n;
-- a value may have 2,600 bytes: 866 characters of three bytes, 650 of four
SELECT n, pg_temp.one(repeat(chr(c), chars) || more, '1', '1', 2014 + n)
  FROM (VALUES (1, 8364, 866, 'éx'), (2, 8364, 866, 'xx'), (3, 128512, 650, ''), (4, 128512, 650, 'x')) v(n, c, chars, more) ORDER BY n;
SELECT char_length(bucket_value), octet_length(bucket_value) FROM claims.claims ORDER BY 2;
-- incompressible values of 2,600 bytes fit into an index entry, and are told from values that differ at the end
CREATE FUNCTION pg_temp.noise(seed text, size int) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(chr(65536 + ('x' || substr(md5(seed || ' ' || n), 1, 7))::bit(28)::int % 900000), '' ORDER BY n)
      FROM generate_series(1, size) n $$;
CREATE TEMP TABLE noise AS SELECT 0 AS n, pg_temp.noise('a', 649) || '😀' AS value UNION ALL SELECT 1, pg_temp.noise('a', 649) || '😁'
    UNION ALL SELECT n, pg_temp.noise(n::text, 650) FROM generate_series(2, 9) n;
SELECT n, pg_temp.one(value, '1', '1', 2020 + n) FROM noise ORDER BY n;
SELECT count(*), min(char_length(r.bucket_value)), min(octet_length(r.bucket_value)), bool_and(r.bucket_value = value)
  FROM noise, claims.get_record('ROUTES', value) r;
SELECT count(*) FROM claims.get_records((SELECT jsonb_agg(jsonb_build_object('type', 1, 'value', value)) FROM noise));
SELECT left(c, 5)
  FROM t.call(format('SELECT claims.begin_update(2, %L)', jsonb_build_array(t.claim((SELECT value FROM noise WHERE n = 0))))) c LIMIT 1;
SELECT bool_and(claims.commit_update(1, t.u(2020 + n))) FROM noise;
SELECT bool_and(c->>'reason' = 'taken' AND c->'bucket'->>'value' = noise.value), count(*)
  FROM noise, LATERAL claims.try_begin_update(2, jsonb_build_array(t.claim(noise.value))) b, jsonb_array_elements(b.conflicts) c;
SELECT t.call(format('SELECT claims.begin_update(1, %L, %L, t.u(2030))', '[]',
        (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 1, 'value', value))) FROM noise)));
SELECT claims.commit_update(1, t.u(2030));
SELECT count(*) FROM noise, claims.get_record('ROUTES', value) r;
SELECT pg_temp.one(pg_temp.noise('b', 651), '1', '1', 2031);
-- the value of a destroy has the same limits
SELECT left(t.call(format('SELECT claims.begin_update(1, %L, %L)', '[]', t.destroys(repeat('x', 1025)))), 300);
SELECT left(t.call(format('SELECT claims.begin_update(1, %L, %L)', '[]', t.destroys(repeat('😀', 651)))), 300);
-- an id may have 128 characters
SELECT pg_temp.one('ids', repeat('😀', 128), repeat('é', 128), 2040);
SELECT char_length(subject_id), char_length(source_id) FROM claims.claims WHERE bucket_value = 'ids';
SELECT pg_temp.one('ids2', repeat('x', 129), '1', 2041);
SELECT pg_temp.one('ids2', '1', repeat('x', 129), 2042);
SELECT pg_temp.one('ids2', '1', repeat('😀', 129), 2043);
-- values, ids, keys and types of 10 and 100 MB are refused
SELECT t.call('SELECT claims.begin_update(1, jsonb_set(t.creates(''x''), ''{0,bucket,value}'', to_jsonb(repeat(''x'', 100 * 1024 * 1024))))');
SELECT pg_temp.one('x', repeat('x', 10 * 1024 * 1024), '1', 2045);
SELECT left(c, 5), length(c) < 300
  FROM t.call(format('SELECT claims.begin_update(1, %L)', jsonb_build_array(jsonb_build_object(repeat('k', 10 * 1024 * 1024), 1)))) c LIMIT 1;
SELECT left(c, 5), length(c) < 300
  FROM t.call(format('SELECT claims.begin_update(1, %L)', jsonb_build_array(t.claim('x', repeat('T', 10 * 1024 * 1024))))) c LIMIT 1;
-- an error quotes only a part of a long value
SELECT bool_and(length(c) < 2000) FROM t.call(format('SELECT claims.begin_update(1, %L)', jsonb_build_array(t.claim('x', repeat('T', 1000000))))) c;
SELECT bool_and(length(c) < 2000)
  FROM t.call(format('SELECT claims.begin_update(1, %L)', jsonb_build_array(jsonb_build_object(repeat('k', 1000000), 1)))) c;
-- the default of max_batch_size counts creates and destroys together
SHOW claims.max_batch_size;
SELECT t.clean();
SELECT t.call(format('SELECT claims.begin_update(1, %L, lease_uuid => t.u(2050))',
        t.creates(VARIADIC ARRAY(SELECT 'n' || n FROM generate_series(1, 2000) n))));
SELECT t.call(format('SELECT claims.begin_update(1, %L)', t.creates(VARIADIC ARRAY(SELECT 'm' || n FROM generate_series(1, 2001) n))));
SELECT t.call('SELECT claims.commit_update(1, t.u(2050))');
SELECT t.call(format('SELECT claims.begin_update(1, %L, %L, t.u(2051))', t.creates(VARIADIC ARRAY(SELECT 'm' || n FROM generate_series(1, 1001) n)),
        t.destroys(VARIADIC ARRAY(SELECT 'n' || n FROM generate_series(1, 1000) n))));
SELECT t.call(format('SELECT claims.begin_update(1, %L, %L, t.u(2051))', t.creates(VARIADIC ARRAY(SELECT 'm' || n FROM generate_series(1, 1000) n)),
        t.destroys(VARIADIC ARRAY(SELECT 'n' || n FROM generate_series(1, 1000) n))));
SELECT t.call(format('SELECT claims.begin_update(1, %L, %L)', '[]', t.destroys(VARIADIC ARRAY(SELECT 'n' || n FROM generate_series(1, 2001) n))));
SELECT t.call(format('SELECT conflicts FROM claims.try_begin_update(1, %L)',
        t.creates(VARIADIC ARRAY(SELECT 'k' || n FROM generate_series(1, 2001) n))));
SELECT left(c, 5) FROM t.call(format('SELECT claims.begin_update(1, %L)', (SELECT jsonb_agg(n) FROM generate_series(1, 100000) n))) c LIMIT 1;
-- a changed max_batch_size
SET claims.max_batch_size = 2;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('x', 'y'), lease_uuid => t.u(2052))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b', 'c'))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b'), t.destroys('x'))$$);
-- a lease larger than a lowered max_batch_size can be committed
SELECT t.call('SELECT claims.rollback_update(1, t.u(2051))');
SET claims.max_batch_size = 5000;
SELECT t.call(format('SELECT claims.begin_update(1, %L, lease_uuid => t.u(2053))',
        t.creates(VARIADIC ARRAY(SELECT 'l' || n FROM generate_series(1, 5000) n))));
RESET claims.max_batch_size;
SELECT t.call('SELECT claims.commit_update(1, t.u(2053))');
SELECT count(*) FROM claims.claims WHERE bucket_value ~ '^l\d';
-- max_batch_size must be positive
SELECT t.call($$SET claims.max_batch_size = 0$$);
SELECT t.call($$SET claims.max_batch_size = -1$$);
SELECT count(*) FROM claims.check();
