-- begin_first with types that have a profile and refuse look-alikes.
SELECT t.clean(); DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
SELECT claims.add_bucket_type(110, 'HANDLES', 'username', 'reject'), claims.add_bucket_type(111, 'NICKS', 'username', 'reject');
CREATE FUNCTION t.handles(VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(t.claim(v, 'HANDLES', n) ORDER BY n) FROM unnest(vals) WITH ORDINALITY AS u(v, n)
$$;
CREATE FUNCTION t.gone(VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'HANDLES', 'value', v)) ORDER BY n)
      FROM unnest(vals) WITH ORDINALITY AS u(v, n)
$$;
CREATE FUNCTION t.each(VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('create_records', t.handles(v)) ORDER BY n) FROM unnest(vals) WITH ORDINALITY AS u(v, n)
$$;
CREATE FUNCTION t.looks() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT bucket_type || ' ' || bucket_value || coalesce(' then ' || successor, '')
      FROM claims.skeletons ORDER BY bucket_type, bucket_value COLLATE "C"
$$;
SELECT claims.commit_update(1, claims.begin_update(1, t.handles('PayPal', 'visa')));
SELECT claims.begin_update(1, t.handles('Held'), lease_uuid => t.u(9601)) = t.u(9601);
SELECT claims.reserve_names('HANDLES', '{admin}', 'ours');

-- begin_first skips a name taken in another spelling, and look-alikes of claimed, leased and reserved names
SELECT lease_uuid = t.u(9602), chosen, conflicts
  FROM claims.begin_first(2, t.each('PAYPAL', U&'p\0430ypal', U&'h\0435ld', U&'\0430dmin', 'ADMIN', 'Free', 'never'), t.u(9602));
SELECT t.looks();
SELECT bucket_value, display_value FROM claims.list_records(2);
SELECT payload FROM claims.list_leases(2) WHERE lease_uuid = t.u(9602);
-- begin_first returns the conflicts of the last batch when all have some
SELECT lease_uuid, chosen, t.mask(conflicts) FROM claims.begin_first(2, t.each('PAYPAL', U&'p\0430ypal'));
SELECT lease_uuid, chosen, t.mask(conflicts) FROM claims.begin_first(2, t.each(U&'p\0430ypal', 'visa'));
SELECT lease_uuid, chosen, t.mask(conflicts) FROM claims.begin_first(2, t.each(U&'p\0430ypal', 'aDMIN'));
SELECT lease_uuid, chosen, t.mask(conflicts) FROM claims.begin_first(2, t.each('visa', U&'h\0435ld'));
-- two batches may have names that look alike; two names of one batch may not
SELECT chosen FROM claims.begin_first(2, t.each('one', U&'\043Ene', 'ONE'), t.u(9603));
SELECT chosen FROM claims.begin_first(2, jsonb_build_array(jsonb_build_object('create_records', t.handles('two', U&'tw\043E')),
        jsonb_build_object('create_records', t.handles('two'))), t.u(9604));
SELECT t.looks();
-- a batch passes a skeleton from the name it destroys to the one it creates
SELECT chosen FROM claims.begin_first(1, jsonb_build_array(jsonb_build_object('create_records', t.handles(U&'v\0456sa')),
        jsonb_build_object('create_records', t.handles(U&'v\0456sa'), 'destroy_records', t.gone('VISA'))), t.u(9605));
SELECT claims.commit_update(1, t.u(9605));
SELECT t.looks();
-- a repeat in other spellings is the same request; another array is refused
SELECT lease_uuid = t.u(9602), chosen
  FROM claims.begin_first(2, t.each('paypal', U&'P\0430YPAL', U&'h\0435ld', U&'\0430dmin', 'admin', 'FREE', 'never'), t.u(9602));
SELECT t.call($$SELECT * FROM claims.begin_first(2, t.each('PAYPAL', U&'p\0430ypal', U&'h\0435ld', U&'\0430dmin', 'ADMIN', 'Free'), t.u(9602))$$);
-- a name that its profile refuses is reported with its place
SELECT t.call($$SELECT * FROM claims.begin_first(2, t.each('fine', 'not fine'))$$);
-- skeletons of one type do not conflict with those of another
SELECT claims.commit_update(2, claims.begin_update(2, jsonb_build_array(t.claim(U&'p\0430ypal', 'NICKS'))));
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, jsonb_build_array(t.claim('paypal', 'NICKS')));
SELECT count(*) FROM claims.check();

-- force_rollback and release_records delete the skeletons of a cell's claims
SELECT claims.rollback_update(2, u) FROM unnest(ARRAY[t.u(9602), t.u(9604)]) u;
SELECT claims.force_rollback(2, t.u(9603), 'test') -> 'freed' #> '{0,bucket}';
SELECT claims.release_records(2, 'test') FROM (SELECT set_config('client_min_messages', 'error', true)) s;
SELECT claims.rollback_update(1, t.u(9601));
SELECT t.looks();
-- skeletons of other cells stay
SELECT claims.release_records(2, 'test') FROM (SELECT set_config('client_min_messages', 'error', true)) s;
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.handles('p' || U&'\0430' || 'ypal'));
SELECT count(*) FROM claims.check();

-- cleans up
SELECT t.clean(); DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
DROP FUNCTION t.handles, t.gone, t.each, t.looks;
