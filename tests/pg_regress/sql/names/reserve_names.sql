-- Reserved names, which no cell can claim.
SELECT t.clean(); DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
SELECT claims.add_bucket_type(110, 'HANDLES', 'username', 'reject');
SELECT t.have(1, 'a');
CREATE FUNCTION t.handles(VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(t.claim(v, 'HANDLES', n) ORDER BY n) FROM unnest(vals) WITH ORDINALITY AS u(v, n)
$$;

CREATE FUNCTION t.gone(VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'HANDLES', 'value', v)) ORDER BY n)
      FROM unnest(vals) WITH ORDINALITY AS u(v, n)
$$;
-- t.looks() lists the skeletons of names that begin with one of the letters
CREATE FUNCTION t.looks(first text) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY
      SELECT bucket_value || CASE reserved WHEN '' THEN '' WHEN bucket_value THEN ' (reserved)' ELSE ' ' || reserved END FROM claims.skeletons
    WHERE position(left(bucket_value, 1) IN first) > 0 ORDER BY bucket_value COLLATE "C"; END $$;

-- reserve_names returns how many names are new
SELECT t.call($$SELECT claims.reserve_names('HANDLES', '{Admin,Root,support}', 'ours')$$);
-- names that are reserved already, in another spelling, and new ones
SELECT t.call($$SELECT claims.reserve_names('HANDLES', '{ADMIN,root,new,NEW}', 'ours, too')$$);
SELECT t.call($$SELECT claims.reserve_names('ROUTES', '{admin,-}', 'paths of ours')$$);
SELECT bucket_type, bucket_value, display_value, reason, reserved_by FROM claims.reserved_names ORDER BY 1, 2;
SELECT action, arguments, reason FROM claims.admin_log WHERE action LIKE '%reserve%' AND arguments @> '{"bucket_values": ["Admin"]}';

-- reserved names have no owner and conflict with creates
SELECT count(*) FROM claims.get_record('HANDLES', 'ADMIN');
SELECT count(*) FROM claims.get_records('[{"type": "HANDLES", "value": "admin"}, {"type": "ROUTES", "value": "admin"}]');
SELECT count(*) FROM claims.records WHERE bucket_value <> 'a';
SELECT t.call($$SELECT claims.begin_update(2, t.handles('ADMIN'))$$);
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, t.handles('free', 'Root') || t.creates('admin', 'a'));
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, '[]', t.destroys('admin'));
SELECT chosen FROM claims.begin_first(1,
      jsonb_build_array(jsonb_build_object('create_records', t.handles('admin')), jsonb_build_object('create_records', t.handles('one'))), t.u(9401));
-- look-alikes of reserved names conflict
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, t.handles(U&'\0430dmin'));
-- verification gives a reserved name to no cell
SELECT discrepancy, bucket_value, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.creates('a', 'admin'), '0', true);
SELECT count(*) FROM claims.check();

-- a claimed or leased name cannot be reserved, and nothing of its batch is
SELECT t.call($$SELECT claims.reserve_names('ROUTES', '{x,a,y}', 'too late')$$);
SELECT t.call($$SELECT claims.reserve_names('HANDLES', '{z,ONE}', 'leased')$$);
SELECT count(*) FROM claims.reserved_names WHERE bucket_value IN ('x', 'y', 'z');
SELECT claims.commit_update(1, t.u(9401));
-- a look-alike of a claimed name can be reserved, and check() accepts both
SELECT t.call($$SELECT claims.reserve_names('HANDLES', ARRAY[U&'\043Ene'], 'looks like one')$$);
SELECT count(*) FROM claims.check();

-- a claim that looks like a reserved name keeps its skeleton; a later reserved look-alike has none
SELECT claims.commit_update(1, claims.begin_update(1, t.handles(U&'p\0430ypal', U&'v\0456sa')));
SELECT claims.reserve_names('HANDLES', ARRAY['PayPal', 'visa', U&'p\0430yp\0430l', 'else'], 'ours');
SELECT claims.reserve_names('HANDLES', ARRAY['PAYPAL'], 'again');
SELECT t.looks('pvse');
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.handles(U&'payp\0430l'));
-- a name that replaces such a claim conflicts with the reserved name
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, t.handles(U&'payp\0430l'), t.gone(U&'p\0430ypal'));
SELECT claims.commit_update(1, claims.begin_update(1, '[]', t.gone(U&'p\0430ypal')));
SELECT t.looks('pvse');
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.handles(U&'p\0430ypal'));
SELECT discrepancy, outcome FROM claims.verify_records(2, 'RAILS_TABLE_ROUTES', '7', '8',
      jsonb_set(t.handles(U&'p\0430ypal'), '{0,source,rails_primary_key_id}', '8'), '0', false);
SELECT discrepancy, outcome FROM claims.verify_records(2, 'RAILS_TABLE_ROUTES', '7', '8',
      jsonb_set(t.handles(U&'p\0430ypal'), '{0,source,rails_primary_key_id}', '8'), '0', true);
SELECT count(*) FROM claims.check();
-- one of two look-alikes is unreserved, then the other
SELECT claims.unreserve_names('HANDLES', '{paypal}', 'no more');
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.handles('paypal'));
SELECT claims.unreserve_names('HANDLES', ARRAY[U&'p\0430yp\0430l', 'visa', 'else'], 'no more');
SELECT t.looks('pvse');
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.handles('visa'));
SELECT t.call($$SELECT claims.rollback_update(2, claims.begin_update(2, t.handles('paypal')))$$);
SELECT claims.commit_update(1, claims.begin_update(1, '[]', t.gone(U&'v\0456sa')));
-- reserve_names and begin_update in one transaction, in either order
BEGIN;
SELECT claims.reserve_names('HANDLES', '{visa}', 'r');
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.handles(U&'v\0456sa'));
ROLLBACK;
BEGIN;
SELECT claims.reserve_names('HANDLES', '{visa}', 'r'), claims.unreserve_names('HANDLES', '{visa}', 'r');
SELECT lease_uuid IS NOT NULL FROM claims.try_begin_update(2, t.handles(U&'v\0456sa'));
ROLLBACK;
SELECT count(*) FROM claims.check();

-- unreserve_names returns how many names were reserved
SELECT t.call($$SELECT claims.unreserve_names('HANDLES', '{aDMIN,ROOT,never}', 'no more')$$);
SELECT t.call($$SELECT claims.unreserve_names('HANDLES', '{admin}', 'no more')$$);
-- unreserved names have no skeleton and can be claimed
SELECT bucket_value FROM claims.skeletons ORDER BY bucket_value COLLATE "C";
SELECT lease_uuid IS NOT NULL FROM claims.try_begin_update(2, t.handles(U&'\0430dmin'));
SELECT t.call($$SELECT claims.rollback_update(1, claims.begin_update(1, t.handles('root')))$$);
SELECT bucket_type, bucket_value FROM claims.reserved_names ORDER BY 1, 2;
SELECT count(*) FROM claims.check();

-- invalid arguments and callers are refused
SELECT t.call(format('SELECT claims.reserve_names(%L, %L, %L)', type, vals, reason))
  FROM (VALUES ('HANDLES', '{ok}', NULL), ('HANDLES', '{ok}', ''), ('HANDLES', '{ok}', ' '), (NULL, '{ok}', 'r'), ('HANDLES', NULL, 'r'),
    ('HANDLES', '{ok,NULL}', 'r'), ('HANDLES', '{ok,"not ok"}', 'r'), ('HANDLES', '{""}', 'r'), ('NOTHING', '{ok}', 'r'),
      ('HANDLES', '{}', 'r')) AS n (type, vals, reason);
SELECT t.call($$SELECT claims.unreserve_names('HANDLES', '{ok}', NULL)$$);
SELECT t.call($$SELECT claims.reserve_names('HANDLES', array_fill('a'::text, ARRAY[10001]), 'r')$$);
BEGIN;
SET LOCAL ROLE regress_claims_one;
SELECT t.call($$SELECT claims.reserve_names('HANDLES', '{ok}', 'r')$$);
SELECT t.call($$SELECT * FROM claims.reserved_names$$);
ROLLBACK;
-- a rolled-back reservation does not exist
BEGIN; SELECT claims.reserve_names('HANDLES', '{gone}', 'r'); ROLLBACK;
SELECT t.call($$SELECT claims.rollback_update(1, claims.begin_update(1, t.handles('gone')))$$);
-- check() reports a reservation without its skeleton, and the reverse
DELETE FROM claims.reservations WHERE bucket_value = 'new'; DELETE FROM claims.claims WHERE bucket_value = 'support';
SELECT problem, bucket_type, bucket_value FROM claims.check() ORDER BY 1;
DELETE FROM claims.skeletons WHERE bucket_value = 'support';
SELECT problem, bucket_type, bucket_value, detail FROM claims.check() WHERE problem LIKE '%look%' ORDER BY 1;

-- cleans up
SELECT t.clean(); DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
DROP FUNCTION t.handles, t.gone, t.looks;
