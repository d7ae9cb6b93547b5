-- claims.context and claims.cell_role: what a client says about who acts goes with its lease, whoever settles that.
SELECT t.clean();
-- t.said() returns what outstanding leases have, as the cell sees it
CREATE FUNCTION t.said() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('%s: %s, %s', right(lease_uuid::text, 2), coalesce(context, '-'), coalesce(cell_role, '-'))
      FROM claims.list_leases(1) ORDER BY 1 $$;

-- the first call of a session loads the library, which knows the settings
SELECT count(*) FROM claims.list_types() WHERE kind = 'none';
-- empty by default; every role may set them; at most 256 bytes, and no control characters
SHOW claims.context;
SHOW claims.cell_role;
SET SESSION AUTHORIZATION regress_claims_one;
SET claims.context = 'user 42 via /admin, request 7f3';
SHOW claims.context;
SELECT setting, regexp_replace(left(c, 50), '[[:cntrl:]]', '?', 'g')
  FROM unnest(ARRAY['context', 'cell_role']) setting,
       unnest(ARRAY[repeat('x', 257), repeat('é', 129), E'a\nb', E'a\tb', E'a\x7fb', U&'a\0085b']) value,
       t.call(format('SET claims.%s = %L', setting, value)) c;
SHOW claims.context;
SELECT length(set_config('claims.context', repeat('é', 128), false)), length(set_config('claims.cell_role', repeat('x', 256), false));
RESET claims.context; RESET claims.cell_role;

-- nothing is kept where nothing is said; each way to begin keeps what the session says
SELECT claims.begin_update(1, t.creates('a'), lease_uuid => t.u(1)) IS NOT NULL;
SET claims.context = 'user 42'; SET claims.cell_role = 'app';
SELECT claims.begin_update(1, t.creates('b'), lease_uuid => t.u(2)) IS NOT NULL;
SELECT lease_uuid IS NOT NULL FROM claims.try_begin_update(1, t.creates('c'), lease_uuid => t.u(3));
SELECT chosen FROM claims.begin_first(1, jsonb_build_array(jsonb_build_object('create_records', t.creates('a')),
    jsonb_build_object('create_records', t.creates('d'))), t.u(4));
SELECT claims.begin_update_text(1, t.creates('e')::text, lease_uuid => t.u(5)) IS NOT NULL;
SELECT t.said();
SELECT context, cell_role, role_name FROM claims.lease_details(t.u(2));
SELECT context, cell_role FROM claims.lease_details(bucket_type => 'ROUTES', bucket_value => 'd');
-- a batch that skips destroys, too
SELECT claims.begin_update(1, t.creates('f'), t.destroys('nobody''s'), t.u(6), skip_missing => true) IS NOT NULL;
SELECT context, cell_role FROM claims.lease_details(t.u(6));

-- begin_update_text() takes them as arguments: NULL means what the session says, an empty text nothing
SELECT claims.begin_update_text(1, t.creates('g')::text, lease_uuid => t.u(7), context => 'job 9') IS NOT NULL;
SELECT claims.begin_update_text(1, t.creates('h')::text, lease_uuid => t.u(8), context => '', cell_role => 'other') IS NOT NULL;
SELECT lease_uuid, context, cell_role FROM claims.list_leases(1) WHERE lease_uuid IN (t.u(7), t.u(8)) ORDER BY 1;
SELECT t.call(format('SELECT claims.begin_update_text(1, %L, context => %L)', t.creates('i'), repeat('x', 257)));
SELECT t.call(format('SELECT claims.begin_update_text(1, %L, cell_role => %L)', t.creates('i'), E'a\nb'));

-- no part of the request: a repeat with another context is the same request, and changes nothing
SET claims.context = 'another one';
SELECT claims.begin_update(1, t.creates('b'), lease_uuid => t.u(2)) = t.u(2);
SELECT context FROM claims.lease_details(t.u(2));
SELECT t.state_of($$SELECT claims.begin_update(1, t.creates('z'), lease_uuid => t.u(2))$$);
RESET claims.context; RESET claims.cell_role;
RESET SESSION AUTHORIZATION;

-- the feed and the audit log say what the lease says, whatever the session says that settles it
SET claims.change_feed = on; SET claims.audit = 'all';
SET claims.context = 'recovery';
SELECT outcome, settled FROM claims.settle_leases(1, ARRAY[t.u(1), t.u(2)], ARRAY[t.u(3)]);
SELECT claims.commit_update(1, t.u(8));
SELECT right(lease_uuid::text, 2) AS lease, what, context, cell_role FROM claims.audit_log ORDER BY at, id;
SELECT bucket_value, context, cell_role FROM claims.changes ORDER BY id;
SELECT bucket_value, context, cell_role FROM claims.list_changes();
SELECT op, context, cell_role FROM claims.bucket_history('ROUTES', 'b');
-- a replacement has the word of its own lease
SELECT claims.begin_update_text(1, t.creates('b')::text, t.destroys('b')::text, t.u(9), context => 'renamer') IS NOT NULL,
    claims.commit_update(1, t.u(9));
SELECT op, context, cell_role FROM claims.bucket_history('ROUTES', 'b');

-- leases that go by statements, because a table was altered
ALTER TABLE claims.claim_leases ADD COLUMN note text;
SET client_min_messages = warning;
SET claims.context = 'by statement';
SELECT claims.begin_update(1, t.creates('s'), lease_uuid => t.u(40)) IS NOT NULL;
SELECT context FROM claims.lease_details(t.u(40));
RESET claims.context;
SELECT claims.commit_update(1, t.u(40));
SELECT context FROM claims.list_changes() WHERE bucket_value = 's';

-- whoever reads it is told that it is the client's word
SELECT c.relname || '.' || a.attname AS without_that FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
 WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'r' AND a.attname IN ('context', 'cell_role')
   AND coalesce(col_description(c.oid, a.attnum), '') NOT LIKE '%no identity%';
SELECT name, extra_desc LIKE '%no identity%' AS says_that FROM pg_settings WHERE name IN ('claims.context', 'claims.cell_role') ORDER BY 1;
