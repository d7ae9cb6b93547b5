-- A destroy that names a subject or a source gives up only the claim that has them.
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
SELECT t.clean();
-- a destroy of route `id` with what `parts` name of it
CREATE FUNCTION pg_temp.destroy(value text, id bigint, VARIADIC parts text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_object_agg(key, part) FROM jsonb_each(t.claim(value, 'ROUTES', id)) e (key, part) WHERE key = 'bucket' OR key = ANY (parts) $$;
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(t.claim('a', 'ROUTES', 1), t.claim('b', 'ROUTES', 2), t.claim('c', 'ROUTES', 3))));
SELECT t.have(2, 'theirs');
SET SESSION AUTHORIZATION regress_claims_one;
-- another source, another subject, another type of either
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('a', 2, 'source')))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('a', 2, 'subject')))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(jsonb_set(pg_temp.destroy('a', 1, 'source'), '{source,type}', '"RAILS_TABLE_USERS"')))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(jsonb_set(pg_temp.destroy('a', 1, 'subject', 'source'), '{subject,type}', '"PROJECT"')))$$);
-- all conflicts of the batch together, in its order; this one weighs less than missing and more than taken
SELECT t.call($$SELECT claims.begin_update(1, t.creates('theirs'), jsonb_build_array(pg_temp.destroy('c', 2, 'source'), pg_temp.destroy('a', 1, 'source'), pg_temp.destroy('b', 1, 'subject')))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('a', 2, 'source'), pg_temp.destroy('nothing', 2, 'source')))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('theirs', 2, 'source')))$$);
SELECT * FROM t.mask((SELECT conflicts FROM claims.try_begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('a', 2, 'source')))));
-- a claim that a lease holds is leased, whatever it is now: it may be another one when the lease has ended
SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('c', 3, 'source')), t.u(7101));
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('c', 2, 'source')))$$);
SELECT claims.rollback_update(1, t.u(7101));
-- what it names is the claim's: any spelling, several types at once
SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('b', 2, 'subject', 'source'), pg_temp.destroy('a', 1, 'source'),
    '{"bucket": {"type": 1, "value": "c"}, "source": {"type": 3, "railsPrimaryKeyId": "3"}}'::jsonb), t.u(7102));
RESET SESSION AUTHORIZATION;
-- the payload says what was named, and no more
SELECT jsonb_array_elements(payload->'destroy_records') FROM claims.claim_leases WHERE uuid = t.u(7102);
SELECT count(*) FROM claims.check();
-- part of the request: the same again is a repeat, another source or none is another request
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('b', 2, 'source', 'subject'), pg_temp.destroy('a', 1, 'source'), pg_temp.destroy('c', 3, 'source')), t.u(7102))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('b', 2, 'subject', 'source'), pg_temp.destroy('a', 2, 'source'), pg_temp.destroy('c', 3, 'source')), t.u(7102))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', t.destroys('b', 'a', 'c'), t.u(7102))$$);
SELECT claims.commit_update(1, t.u(7102));
SELECT * FROM t.state();
-- check() compares what is named
SELECT t.have(1, 'x');
SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('x', 1, 'source')), t.u(7103));
BEGIN;
UPDATE claims.claims SET source_id = '7' WHERE bucket_value = 'x';
SELECT problem, detail FROM claims.check();
ROLLBACK;
SELECT claims.rollback_update(1, t.u(7103));
SELECT count(*) FROM claims.check();
