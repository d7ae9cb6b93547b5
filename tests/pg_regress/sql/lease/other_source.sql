-- A destroy that names a subject or a source matches only a claim that has them.
SELECT t.clean();
-- pg_temp.destroy() makes a destroy of route `id` with some of its parts
CREATE FUNCTION pg_temp.destroy(value text, id bigint, VARIADIC parts text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_object_agg(key, part) FROM jsonb_each(t.claim(value, 'ROUTES', id)) e (key, part) WHERE key = 'bucket' OR key = ANY (parts) $$;
SELECT claims.commit_update(1,
      claims.begin_update(1, jsonb_build_array(t.claim('a', 'ROUTES', 1), t.claim('b', 'ROUTES', 2), t.claim('c', 'ROUTES', 3))));
SELECT t.have(2, 'theirs');
SET SESSION AUTHORIZATION regress_claims_one;
-- another source, another subject, another type: other_source
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('a', 2, 'source')))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('a', 2, 'subject')))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]',
        jsonb_build_array(jsonb_set(pg_temp.destroy('a', 1, 'source'), '{source,type}', '"RAILS_TABLE_USERS"')))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]',
        jsonb_build_array(jsonb_set(pg_temp.destroy('a', 1, 'subject', 'source'), '{subject,type}', '"PROJECT"')))$$);
-- all conflicts in the order of the batch; other_source ranks behind missing and before taken
SELECT t.call($$SELECT claims.begin_update(1, t.creates('theirs'),
        jsonb_build_array(pg_temp.destroy('c', 2, 'source'), pg_temp.destroy('a', 1, 'source'), pg_temp.destroy('b', 1, 'subject')))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('a', 2, 'source'), pg_temp.destroy('nothing', 2, 'source')))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('theirs', 2, 'source')))$$);
SELECT * FROM t.mask((SELECT conflicts FROM claims.try_begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('a', 2, 'source')))));
-- a claim that a lease holds is `leased`, whatever its source: it can change
SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('c', 3, 'source')), t.u(7101));
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('c', 2, 'source')))$$);
SELECT claims.rollback_update(1, t.u(7101));
-- a matching source in any spelling, with several types in one batch
SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('b', 2, 'subject', 'source'), pg_temp.destroy('a', 1, 'source'),
    '{"bucket": {"type": 1, "value": "c"}, "source": {"type": 3, "railsPrimaryKeyId": "3"}}'::jsonb), t.u(7102));
RESET SESSION AUTHORIZATION;
-- the payload has what the destroy named, and no more
SELECT jsonb_array_elements(payload->'destroy_records') FROM claims.claim_leases WHERE uuid = t.u(7102);
SELECT count(*) FROM claims.check();
-- the named source is part of the request
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('b', 2, 'source', 'subject'),
          pg_temp.destroy('a', 1, 'source'), pg_temp.destroy('c', 3, 'source')), t.u(7102))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('b', 2, 'subject', 'source'),
          pg_temp.destroy('a', 2, 'source'), pg_temp.destroy('c', 3, 'source')), t.u(7102))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', t.destroys('b', 'a', 'c'), t.u(7102))$$);
SELECT claims.commit_update(1, t.u(7102));
SELECT * FROM t.state();
-- check() compares the named source
SELECT t.have(1, 'x');
SELECT claims.begin_update(1, '[]', jsonb_build_array(pg_temp.destroy('x', 1, 'source')), t.u(7103));
BEGIN;
UPDATE claims.claims SET source_id = '7' WHERE bucket_value = 'x';
SELECT problem, detail FROM claims.check();
ROLLBACK;
SELECT claims.rollback_update(1, t.u(7103));
SELECT count(*) FROM claims.check();
