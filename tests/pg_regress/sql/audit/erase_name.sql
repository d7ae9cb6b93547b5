-- erase_name: a name that nobody has is replaced by a keyed hash in all that outlives its claim.
SELECT t.clean();
SET claims.audit = 'settled'; SET claims.change_feed = on;
-- t.masked() masks the hash
CREATE FUNCTION t.masked(value text) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(value, 'erased-[0-9a-f]{32}', '<erased>', 'g') $$;
-- t.places() lists the rows of all tables of the extension that have a text: the table, and how many
CREATE FUNCTION t.places(wanted text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    relation regclass;
    found bigint;
BEGIN
    FOR relation IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'r' ORDER BY c.relname LOOP
        EXECUTE format('SELECT count(*) FROM %s r WHERE r::text ILIKE %L', relation, '%' || wanted || '%') INTO found;
        IF found > 0 THEN RETURN NEXT format('%s %s', relation, found); END IF;
    END LOOP;
END $$;

-- arguments and rights
SELECT t.call(statement) FROM unnest(ARRAY[
    $$SELECT * FROM claims.erase_name(NULL, 'x', 'why')$$, $$SELECT * FROM claims.erase_name('ROUTES', NULL, 'why')$$,
    $$SELECT * FROM claims.erase_name('ROUTES', 'x', '')$$, $$SELECT * FROM claims.erase_name('NOTHING', 'x', 'why')$$,
    $$SELECT claims.forget_erasure_key(NULL)$$]) statement;
SET ROLE regress_claims_one;
SELECT t.state_of(statement) FROM unnest(ARRAY[$$SELECT * FROM claims.erase_name('ROUTES', 'x', 'why')$$,
    $$SELECT claims.forget_erasure_key('why')$$]) statement;
RESET ROLE;

-- a name with a history, and others beside it
SELECT t.have(1, 'departed-person', 'someone-else');
SELECT claims.begin_update(1, t.creates('other'), t.destroys('departed-person', 'someone-else'), t.u(1)) IS NOT NULL;
-- 55000 while somebody has it, a lease holds it, or it is reserved
SELECT t.call($$SELECT * FROM claims.erase_name('ROUTES', 'departed-person', 'why')$$);
SELECT claims.rollback_update(1, t.u(1));
SELECT t.call($$SELECT * FROM claims.erase_name('ROUTES', 'departed-person', 'why')$$);
SELECT claims.begin_update(1, t.creates('other'), t.destroys('departed-person', 'someone-else'), t.u(2)) IS NOT NULL,
    claims.commit_update(1, t.u(2));
SELECT claims.reserve_names('ROUTES', ARRAY['departed-person', 'kept'], 'why');
SELECT t.call($$SELECT * FROM claims.erase_name('ROUTES', 'departed-person', 'why')$$);
SELECT claims.unreserve_names('ROUTES', ARRAY['departed-person', 'kept'], 'why');
INSERT INTO claims.observed (table_name, attribute, outcome, bucket_type, bucket_value, count, first_at, last_at)
VALUES ('claims.claims', 'x', 'taken', 'ROUTES', 'departed-person', 1, now(), now()),
    ('claims.claims', 'x', 'taken', 'EMAILS', 'departed-person', 1, now(), now());
INSERT INTO claims.imported_collisions (id, cell_id, source_type, service, bucket_type, bucket_value, source_id, reason)
VALUES (1, 1, 'RAILS_TABLE_ROUTES', 's', 'ROUTES', 'departed-person', '1', 'held_by_other');
INSERT INTO claims.audit_log (at, id, what, session_role, application_name, ops, bucket_types, bucket_values, conflict, search_keys)
SELECT clock_timestamp(), 1, 'refused', '', '', '{create}', '{ROUTES}', '{departed-person}',
    '{"omitted": 0, "conflicts": [{"op": "create", "bucket": {"type": "ROUTES", "value": "someone-else"}, "similar_to": "departed-person"},
      {"op": "create", "bucket": {"type": "ROUTES", "value": "departed-person"}, "reason": "taken"},
      {"op": "create", "bucket": {"type": "EMAILS", "value": "departed-person"}, "reason": "taken"}]}',
    (SELECT search_keys FROM claims.audit_log WHERE lease_uuid = t.u(1));
SELECT t.places('departed-person');
SELECT op, context FROM claims.bucket_history('ROUTES', 'departed-person');

-- a name that another one's row of conflicts has as a name that looks like it
SELECT place, rows FROM claims.erase_name('ROUTES', 'departed-person', 'a request');
SELECT t.places('departed-person');
SELECT t.masked(bucket_value) FROM claims.observed ORDER BY 1;
SELECT t.masked(conflict::text) FROM claims.audit_log WHERE what = 'refused';
-- the names beside it are as they were, and the history of the name joins under its hash
SELECT DISTINCT t.masked(bucket_values::text) FROM claims.audit_log ORDER BY 1;
SELECT DISTINCT t.masked(bucket_values::text) FROM claims.change_sets ORDER BY 1;
SELECT op FROM claims.bucket_history('ROUTES', 'departed-person');
SELECT op FROM claims.bucket_history('ROUTES', (SELECT DISTINCT v FROM claims.audit_log, unnest(bucket_values) v WHERE v LIKE 'erased-%'));
SELECT action, t.masked(arguments::text), counts FROM claims.admin_log ORDER BY id;
-- nothing is left to erase, and the name is free for everybody
SELECT sum(rows) FROM claims.erase_name('ROUTES', 'departed-person', 'again');
SELECT t.have(2, 'departed-person');
SELECT claims.commit_update(2, claims.begin_update(2, '[]', t.destroys('departed-person')));

-- the hash is the same for one name, in any spelling, until the key is forgotten; dumps do not have the key
SELECT count(*) FROM claims.erasure_key;
SELECT 'claims.erasure_key'::regclass = ANY (extconfig) FROM pg_extension WHERE extname = 'claims';
SELECT sum(rows) > 0 FROM claims.erase_name('ROUTES', 'departed-person', 'third');
SELECT count(DISTINCT v) FROM claims.audit_log, unnest(bucket_values) v WHERE v LIKE 'erased-%';
SELECT claims.forget_erasure_key('done'), claims.forget_erasure_key('done');
SELECT t.have(2, 'departed-person');
SELECT claims.commit_update(2, claims.begin_update(2, '[]', t.destroys('departed-person')));
SELECT sum(rows) > 0 FROM claims.erase_name('ROUTES', 'departed-person', 'fourth');
SELECT count(DISTINCT v) FROM claims.audit_log, unnest(bucket_values) v WHERE v LIKE 'erased-%';
-- the form is a name of every profile
SELECT claims.add_bucket_type(100 + n::int, 'T_' || p, p)
  FROM unnest(ARRAY['casefold', 'username', 'domain', 'email', 'path']) WITH ORDINALITY AS p (p, n);
SELECT p, sum(e.rows) FROM unnest(ARRAY['casefold', 'username', 'domain', 'email', 'path']) p,
    LATERAL claims.erase_name('T_' || p, CASE p WHEN 'email' THEN 'Ada@Example.com' ELSE 'Ada' END, 'why') e GROUP BY p ORDER BY p;
SELECT count(*) FROM claims.admin_log, claims.canonical(arguments ->> 'bucket_type', arguments ->> 'erased') c
 WHERE action = 'erase_name' AND c = arguments ->> 'erased';
SELECT count(*) FROM claims.check();

-- a name that two types have, of which one was renamed: the places have its names under each name of the type, and keep those of the other one
SELECT t.clean(); TRUNCATE claims.audit_log, claims.change_sets, claims.observed, claims.imported_collisions, claims.admin_log;
SELECT claims.add_bucket_type(110, 'OLD'), claims.add_bucket_type(111, 'OTHER');
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(t.claim('shared-name', 'OLD'), t.claim('shared-name', 'OTHER'))));
SELECT claims.commit_update(1, claims.begin_update(1, '[]',
    '[{"bucket": {"type": "OLD", "value": "shared-name"}}, {"bucket": {"type": "OTHER", "value": "shared-name"}}]'));
SELECT claims.reserve_names(n, '{shared-name}', 'why'), claims.unreserve_names(n, '{shared-name}', 'why')
  FROM unnest('{OLD,110,OTHER}'::text[]) n;
SELECT claims.hand_over('OLD', 'shared-name', 1, 'GROUP', '1', 'RAILS_TABLE_ROUTES', '1', 'why');
SELECT claims.commit_update(1, claims.begin_update(1, '[]', '[{"bucket": {"type": "OLD", "value": "shared-name"}}]'));
INSERT INTO claims.audit_log (at, id, what, session_role, application_name, ops, bucket_types, bucket_values, conflict, search_keys)
SELECT clock_timestamp(), 1, 'refused', '', '', '{create,create}', '{OLD,OTHER}', '{shared-name,shared-name}',
    '{"omitted": 0, "conflicts": [{"op": "create", "bucket": {"type": "OLD", "value": "shared-name"}, "reason": "taken"},
      {"op": "create", "bucket": {"type": "OTHER", "value": "shared-name"}, "reason": "taken"}]}',
    (SELECT search_keys FROM claims.audit_log LIMIT 1);
SELECT claims.rename_type('bucket', 110, 'NEW');
INSERT INTO claims.observed (table_name, attribute, outcome, bucket_type, bucket_value, count, first_at, last_at)
SELECT 'claims.claims', 'x', 'taken', n, 'shared-name', 1, now(), now() FROM unnest('{OLD,NEW,OTHER}'::text[]) n;
INSERT INTO claims.imported_collisions (id, cell_id, source_type, service, bucket_type, bucket_value, source_id, reason)
SELECT i, 1, 'RAILS_TABLE_ROUTES', 's', n, 'shared-name', i, 'held_by_other' FROM unnest('{OLD,NEW,OTHER}'::text[]) WITH ORDINALITY AS n (n, i);
SELECT place, rows FROM claims.erase_name('NEW', 'shared-name', 'a request');
SELECT DISTINCT bucket_types, t.masked(bucket_values::text), t.masked(conflict::text) FROM claims.audit_log ORDER BY 1, 2, 3;
SELECT DISTINCT bucket_types, t.masked(bucket_values::text) FROM claims.change_sets ORDER BY 1;
SELECT bucket_type, t.masked(bucket_value) FROM claims.observed ORDER BY 1;
SELECT bucket_type, t.masked(bucket_value) FROM claims.imported_collisions ORDER BY 1;
SELECT action, arguments ->> 'bucket_type' AS type, t.masked(concat(arguments ->> 'bucket_values', arguments ->> 'bucket_value'))
  FROM claims.admin_log WHERE arguments ? 'bucket_values' OR arguments ? 'bucket_value' ORDER BY 2, 1;

-- not while a row of a claimed column has the name, in any spelling
SET client_min_messages = error;
CREATE SCHEMA app; CREATE TABLE app.people (id bigint PRIMARY KEY, name text, org int); INSERT INTO app.people VALUES (1, 'Ada', 1);
SELECT claims.claim_attribute('app.people', 'name', 'T_casefold', 'ORGANIZATION', 'org', 'RAILS_TABLE_USERS');
SELECT t.call($$SELECT * FROM claims.erase_name('T_casefold', 'ADA', 'why')$$);
SELECT count(*) FROM claims.erase_name('T_casefold', 'Bob', 'why');
SELECT claims.unclaim_attribute('app.people', 'name'); DROP SCHEMA app CASCADE;
SELECT count(*) FROM claims.erase_name('T_casefold', 'ADA', 'why');
