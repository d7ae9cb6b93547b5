-- Names that nobody can have.
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
SELECT t.clean(); DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
SELECT claims.add_bucket_type(110, 'HANDLES', 'username', 'reject');
SELECT t.have(1, 'a');
CREATE FUNCTION t.handles(VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$ SELECT jsonb_agg(t.claim(v, 'HANDLES', n) ORDER BY n) FROM unnest(vals) WITH ORDINALITY AS u(v, n) $$;

SELECT t.call($$SELECT claims.reserve_names('HANDLES', '{Admin,Root,support}', 'ours')$$);
-- again, in another spelling, and more
SELECT t.call($$SELECT claims.reserve_names('HANDLES', '{ADMIN,root,new,NEW}', 'ours, too')$$);
SELECT t.call($$SELECT claims.reserve_names('ROUTES', '{admin,-}', 'paths of ours')$$);
SELECT bucket_type, bucket_value, display_value, reason, reserved_by FROM claims.reserved_names ORDER BY 1, 2;
SELECT action, arguments, reason FROM claims.admin_log WHERE action LIKE '%reserve%' AND arguments @> '{"bucket_values": ["Admin"]}';

\echo -- nobody has them, and nobody can
SELECT count(*) FROM claims.get_record('HANDLES', 'ADMIN');
SELECT count(*) FROM claims.get_records('[{"type": "HANDLES", "value": "admin"}, {"type": "ROUTES", "value": "admin"}]');
SELECT count(*) FROM claims.records WHERE bucket_value <> 'a';
SELECT t.call($$SELECT claims.begin_update(2, t.handles('ADMIN'))$$);
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, t.handles('free', 'Root') || t.creates('admin', 'a'));
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, '[]', t.destroys('admin'));
SELECT chosen FROM claims.begin_first(1, jsonb_build_array(jsonb_build_object('create_records', t.handles('admin')), jsonb_build_object('create_records', t.handles('one'))), t.u(9401));
-- nor what looks like one
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, t.handles(U&'\0430dmin'));
-- verification does not make it anybody's
SELECT discrepancy, bucket_value, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.creates('a', 'admin'), '0', true);
SELECT count(*) FROM claims.check();

\echo -- what is claimed cannot be reserved: all or nothing
SELECT t.call($$SELECT claims.reserve_names('ROUTES', '{x,a,y}', 'too late')$$);
SELECT t.call($$SELECT claims.reserve_names('HANDLES', '{z,ONE}', 'leased')$$);
SELECT count(*) FROM claims.reserved_names WHERE bucket_value IN ('x', 'y', 'z');
SELECT claims.commit_update(1, t.u(9401));
-- a name that looks like one that is claimed can be
SELECT t.call($$SELECT claims.reserve_names('HANDLES', ARRAY[U&'\043Ene'], 'looks like one')$$);
SELECT count(*) FROM claims.check();

\echo -- given free
SELECT t.call($$SELECT claims.unreserve_names('HANDLES', '{aDMIN,ROOT,never}', 'no more')$$);
SELECT t.call($$SELECT claims.unreserve_names('HANDLES', '{admin}', 'no more')$$);
-- and their looks with them
SELECT bucket_value FROM claims.skeletons ORDER BY bucket_value COLLATE "C";
SELECT lease_uuid IS NOT NULL FROM claims.try_begin_update(2, t.handles(U&'\0430dmin'));
SELECT t.call($$SELECT claims.rollback_update(1, claims.begin_update(1, t.handles('root')))$$);
SELECT bucket_type, bucket_value FROM claims.reserved_names ORDER BY 1, 2;
SELECT count(*) FROM claims.check();

\echo -- what is not taken
SELECT t.call(format('SELECT claims.reserve_names(%L, %L, %L)', type, vals, reason)) FROM (VALUES ('HANDLES', '{ok}', NULL), ('HANDLES', '{ok}', ''), ('HANDLES', '{ok}', ' '), (NULL, '{ok}', 'r'), ('HANDLES', NULL, 'r'),
    ('HANDLES', '{ok,NULL}', 'r'), ('HANDLES', '{ok,"not ok"}', 'r'), ('HANDLES', '{""}', 'r'), ('NOTHING', '{ok}', 'r'), ('HANDLES', '{}', 'r')) AS n (type, vals, reason);
SELECT t.call($$SELECT claims.unreserve_names('HANDLES', '{ok}', NULL)$$);
SELECT t.call($$SELECT claims.reserve_names('HANDLES', array_fill('a'::text, ARRAY[10001]), 'r')$$);
BEGIN; SET LOCAL ROLE regress_claims_one; SELECT t.call($$SELECT claims.reserve_names('HANDLES', '{ok}', 'r')$$); SELECT t.call($$SELECT * FROM claims.reserved_names$$); ROLLBACK;
-- what is rolled back is not reserved
BEGIN; SELECT claims.reserve_names('HANDLES', '{gone}', 'r'); ROLLBACK;
SELECT t.call($$SELECT claims.rollback_update(1, claims.begin_update(1, t.handles('gone')))$$);
-- one without the other is seen
DELETE FROM claims.reservations WHERE bucket_value = 'new'; DELETE FROM claims.claims WHERE bucket_value = 'support';
SELECT problem, bucket_type, bucket_value FROM claims.check() ORDER BY 1;

SELECT t.clean(); DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
DROP FUNCTION t.handles;
