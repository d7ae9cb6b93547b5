-- Functions that other nodes call where tables are distributed: what they write, and the arguments they refuse. Two tables are shards.
SELECT t.clean();
CREATE TABLE claims.claims_5 (LIKE claims.claims INCLUDING ALL);
CREATE TABLE claims.claims_6 (LIKE claims.claims INCLUDING ALL);
CREATE TABLE claims.lease_outcomes_5 (LIKE claims.lease_outcomes INCLUDING ALL);
CREATE FUNCTION pg_temp.rows() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('%s: %s %s of %s, status %s, %s', r.shard, r.bucket_type, r.bucket_value, r.subject_id, r.status, coalesce(r.display_value, '-'))
      FROM (SELECT 5 AS shard, c.* FROM claims.claims_5 c UNION ALL SELECT 6, c.* FROM claims.claims_6 c) r ORDER BY r.shard, r.bucket_value $$;
-- calls with some arguments replaced
CREATE FUNCTION pg_temp.asked(called text, good text[], VARIADIC other text[]) RETURNS text LANGUAGE sql AS $$
    SELECT format('SELECT claims.%s(%s)', called, string_agg(coalesce((SELECT other[n + 1] FROM generate_series(1, cardinality(other), 2) n
              WHERE other[n] = nth::text), argument), ', ' ORDER BY nth))
      FROM unnest(good) WITH ORDINALITY AS a (argument, nth) $$;
CREATE FUNCTION pg_temp.create_with(VARIADIC other text[] DEFAULT '{}') RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(pg_temp.asked('create_on_node', ARRAY['''a''', '''{a,b}''', '''{1,2,1}''', '''{5,5,6}''', 't.u(1)', '1', 'now()',
        'ARRAY[t.u(11), t.u(12), t.u(13)]', '''{1,1,1}''', '''{x,y,z}''', '''{1,1,1}''', '''{1,2,3}''', '''{1,1,1}''', '''{1,2,3}''',
              '''{NULL,Y,Z}'''], VARIADIC other)) $$;
CREATE FUNCTION pg_temp.settle_with(VARIADIC other text[] DEFAULT '{}') RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(pg_temp.asked('settle_on_node', ARRAY['1', '''a''', '''{1,1}''', '''{a,b}''', '''{1,2,1}''', '''{5,5,6}''', 'ARRAY[t.u(1)]',
        '''{1,1,1}''', '''{x,y,z}''', '2::smallint', 'now()'], VARIADIC other)) $$;
-- the rows of a part are written into its shards
SELECT pg_temp.create_with();
SELECT pg_temp.rows();
SELECT pg_temp.create_with('1', '''b''');
SELECT pg_temp.rows();
SELECT pg_temp.create_with('1', '''b''');
-- a part without a row, and parts that do not exist
SELECT pg_temp.create_with('1', '''c''');
SELECT pg_temp.create_with('3', '''{0,-1,2147483647}''');
-- settled rows: one becomes ACTIVE, the others are deleted, if lease and status match
SELECT pg_temp.settle_with('7', 'ARRAY[t.u(2)]');
SELECT pg_temp.settle_with('10', '3::smallint');
SELECT pg_temp.settle_with('1', '2');
SELECT pg_temp.settle_with('2', '''b''');
SELECT pg_temp.rows();
SELECT pg_temp.settle_with('11', 'NULL');
SELECT pg_temp.rows();
-- an array is read as a list, whatever its dimensions
SELECT pg_temp.create_with('1', '''b''', '9', '''{{1},{1},{1}}''', '10', '''[7:9]={u,v,w}''');
SELECT pg_temp.rows();
-- without a lease a claim is ACTIVE
SELECT pg_temp.create_with('5', 'NULL', '10', '''{k,l,m}''');
SELECT pg_temp.rows();
SELECT count(*) FROM claims.claims_5 c WHERE c.status = 1 AND c.lease_uuid IS NULL AND c.bucket_value = 'k';
-- NULL arguments and elements are refused, except in the last list
SELECT pg_temp.create_with(n::text, 'NULL') FROM generate_series(1, 15) n WHERE n <> 5;
SELECT pg_temp.create_with(n::text, '''{NULL,NULL,NULL}''') FROM unnest('{2,3,4,8,9,10,11,12,13,14}'::int[]) n;
SELECT pg_temp.settle_with(n::text, 'NULL') FROM generate_series(1, 10) n;
SELECT pg_temp.settle_with(n::text, '''{NULL,NULL,NULL}''') FROM unnest('{3,4,5,6,7,8,9}'::int[]) n;
-- lists of different lengths are refused
SELECT pg_temp.create_with(n::text, '''{}''') FROM unnest('{3,4,8,9,10,11,12,13,14,15}'::int[]) n;
SELECT pg_temp.create_with(n::text, '''{1,1,1,1}''') FROM unnest('{3,4,9,10,11,12,13,14,15}'::int[]) n;
SELECT pg_temp.settle_with(n::text, '''{}''') FROM unnest('{5,6,8,9}'::int[]) n;
SELECT pg_temp.settle_with('2', '''b''', n::text, '''{1,2,2,2}''') FROM unnest('{5,6,8,9}'::int[]) n;
-- shards that do not exist are refused
SELECT pg_temp.create_with('4', '''{7,7,7}''');
SELECT pg_temp.settle_with('6', '''{7,7,7}''');
SELECT t.call($$SELECT claims.put_outcome_on_node(t.u(1), 1, '\x00', 7, 'committed', now())$$);
-- put_outcome_on_node writes an outcome once, and refuses NULLs
SELECT t.call($$SELECT claims.put_outcome_on_node(t.u(1), 1, '\x00', 5, 'committed', now())$$);
SELECT t.call($$SELECT claims.put_outcome_on_node(t.u(1), 1, NULL, 5, 'committed', now())$$);
SELECT t.call(pg_temp.asked('put_outcome_on_node', ARRAY['t.u(2)', '1', '''\x00''', '5', '''committed''', 'now()'], n::text, 'NULL'))
  FROM unnest('{1,2,4,5,6}'::int[]) n;
SELECT t.u(1) = lease_uuid, creator_id, outcome FROM claims.lease_outcomes_5;
-- roles that are no cells, and routers, are refused
SELECT count(*) FROM pg_proc p CROSS JOIN unnest('{regress_claims_one,regress_claims_router}'::name[]) r
 WHERE p.pronamespace = 'claims'::regnamespace AND p.proname ~ '_on_node$' AND has_function_privilege(r, p.oid, 'EXECUTE');
DROP TABLE claims.claims_5, claims.claims_6, claims.lease_outcomes_5;
