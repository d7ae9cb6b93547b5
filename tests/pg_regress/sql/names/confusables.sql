-- Look-alikes: names of types that refuse them.
SELECT t.clean(); DELETE FROM claims.skeletons;
SELECT claims.add_bucket_type(110, 'HANDLES', 'username', 'reject'), claims.add_bucket_type(111, 'HOSTS', 'domain', 'reject'),
       claims.add_bucket_type(112, 'NICKS', 'username', 'allow'), claims.add_bucket_type(113, 'BYTES', 'exact', 'reject');
-- paypal in Latin letters, and paypai with a Cyrillic a
\set paypal '''paypal'''
\set paypai 'U&''p\\0430ypal'''
CREATE FUNCTION t.names(type text, VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(t.claim(v, type, n) ORDER BY n) FROM unnest(vals) WITH ORDINALITY AS u(v, n)
$$;
CREATE FUNCTION t.gone(type text, VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', type, 'value', v)) ORDER BY n)
      FROM unnest(vals) WITH ORDINALITY AS u(v, n)
$$;
CREATE FUNCTION t.looks() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT bucket_type || ' ' || bucket_value || coalesce(' then ' || successor, '')
      FROM claims.skeletons ORDER BY bucket_type, bucket_value COLLATE "C"
$$;

SELECT claims.begin_update(1, t.names('HANDLES', 'PayPal'), lease_uuid => t.u(9201)) = t.u(9201);
-- a look-alike of a leased name is a temporary conflict
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', :paypai));
SELECT t.call($$SELECT claims.begin_update(2, t.names('HANDLES', U&'p\0430ypal'))$$);
SELECT claims.commit_update(1, t.u(9201));
-- a look-alike of a claim is a permanent conflict, for other cells and for its own
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', :paypai));
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, t.names('HANDLES', :paypai));
SELECT t.call($$SELECT claims.begin_update(2, t.names('HANDLES', U&'P\0430YPAL'))$$);
-- another spelling of the name itself is taken
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', 'PAYPAL'));
-- all conflicts of a batch are returned
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', :paypai, 'paypal', 'free'));
-- look-alikes of another type, and of a type that allows them, are no conflict
SELECT lease_uuid IS NOT NULL FROM claims.try_begin_update(2, t.names('NICKS', :paypal, :paypai));
SELECT t.call($$SELECT claims.begin_update(2, t.names('BYTES', 'paypal', 'PayPal', U&'p\0430ypal'), lease_uuid => t.u(9209))$$);
SELECT claims.commit_update(2, claims.begin_update(2, t.names('HOSTS', 'paypal.com')));
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HOSTS', U&'p\0430ypal.com'));
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HOSTS', 'XN--PYPAL-4VE.com'));
SELECT count(*) FROM claims.check();
SELECT t.looks();

-- two names of one batch that look alike
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', 'visa', U&'vis\0430'));

-- a batch that destroys a name passes its skeleton to the create, and no other cell can take it meanwhile
SELECT claims.begin_update(1, t.names('HANDLES', :paypai), t.gone('HANDLES', 'paypal'), t.u(9202)) = t.u(9202);
SELECT t.looks();
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', U&'p\0430yp\0430l'));
SELECT claims.rollback_update(1, t.u(9202));
SELECT t.looks();
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', :paypai));
SELECT claims.commit_update(1, claims.begin_update(1, t.names('HANDLES', :paypai), t.gone('HANDLES', 'paypal')));
SELECT t.looks();
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', 'paypal'));
-- a skeleton is not passed where another cell owns the name, or where two creates want it
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', 'paypal'), t.gone('HANDLES', :paypai));
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, t.names('HANDLES', 'paypal', U&'p\0430yp\0430l'), t.gone('HANDLES', :paypai));
-- a name that is replaced by another spelling keeps its skeleton
SELECT claims.commit_update(1, claims.begin_update(1, t.names('HANDLES', U&'P\0430ypal'), t.gone('HANDLES', :paypai)));
SELECT t.looks();
SELECT count(*) FROM claims.check();

-- a committed destroy frees the skeleton; a rolled-back one does not
SELECT claims.begin_update(1, '[]', t.gone('HANDLES', :paypai), t.u(9203)) = t.u(9203);
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', 'paypal'));
SELECT claims.rollback_update(1, t.u(9203));
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', 'paypal'));
SELECT claims.commit_update(1, claims.begin_update(1, '[]', t.gone('HANDLES', :paypai)));
SELECT claims.begin_update(2, t.names('HANDLES', 'paypal'), lease_uuid => t.u(9204)) = t.u(9204);
SELECT claims.rollback_update(2, t.u(9204));
SELECT t.looks();
SELECT outcome, settled
  FROM claims.settle_leases(1, ARRAY[claims.begin_update(1, t.names('HANDLES', 'one')), claims.begin_update(1, t.names('HANDLES', 'two'))],
      ARRAY[claims.begin_update(1, t.names('HANDLES', 'three'))]) ORDER BY 1;
SELECT t.looks();
-- a rolled-back savepoint leaves no skeleton
BEGIN; SAVEPOINT s; SELECT claims.begin_update(1, t.names('HANDLES', 'four')) IS NOT NULL; ROLLBACK TO s;
SELECT claims.begin_update(1, t.names('HANDLES', U&'f\043Eur')) IS NOT NULL; ROLLBACK;
SELECT count(*) FROM claims.check();

-- verification reports and corrects look-alikes
SELECT claims.commit_update(2, claims.begin_update(2, t.names('HANDLES', 'paypal')));
SELECT discrepancy, bucket_value, outcome
  FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.names('HANDLES', :paypai, 'one'), '0', true);
SELECT discrepancy, bucket_value, outcome
  FROM claims.verify_records(2, 'RAILS_TABLE_ROUTES', '0', '1', '[]', '0', true,
      (SELECT array_agg(uuid) FROM claims.get_record('HANDLES', 'paypal')));
SELECT discrepancy, bucket_value, outcome
  FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.names('HANDLES', :paypai, 'one'), '0', true);
SELECT t.looks();
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', 'paypal'));

-- skeletons without a claim, after rows were deleted by hand, do not block
DELETE FROM claims.claims; DELETE FROM claims.claim_leases;
SELECT claims.commit_update(2, claims.begin_update(2, t.names('HANDLES', 'paypal', 'one', 'new')));
SELECT t.looks();
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, t.names('HANDLES', :paypai));
-- check() reports a claim without its skeleton
DELETE FROM claims.skeletons WHERE bucket_value = 'one';
SELECT problem, bucket_type, bucket_value, detail FROM claims.check();

-- cleans up
SELECT t.clean(); DELETE FROM claims.skeletons;
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
DROP FUNCTION t.names, t.gone, t.looks;
