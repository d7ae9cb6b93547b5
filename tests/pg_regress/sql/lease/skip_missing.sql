-- skip_missing: begins without the destroys whose claims are not there for them.
SELECT t.clean();
SELECT claims.commit_update(1,
    claims.begin_update(1, jsonb_build_array(t.claim('a', 'ROUTES', 1), t.claim('b', 'ROUTES', 2), t.claim('c', 'ROUTES', 3))));
SELECT t.have(2, 'theirs');
SELECT claims.reserve_names('ROUTES', '{reserved}', 'test');
SET SESSION AUTHORIZATION regress_claims_one;

-- without it, or with NULL, the batch is refused as a whole
SELECT t.call($$SELECT claims.begin_update(1, t.creates('new'), t.destroys('a', 'gone'))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('new'), t.destroys('a', 'gone'), skip_missing => NULL)$$);
-- missing, reserved, of another cell and of another source are skipped; the rest is taken, and the payload says what was skipped
SELECT claims.begin_update(1, t.creates('new'),
    t.destroys('a', 'gone', 'reserved', 'theirs') || jsonb_build_array(t.claim('b', 'ROUTES', 7)), t.u(8601), skip_missing => true) = t.u(8601);
SELECT bucket_value, status FROM claims.list_records(1);
SELECT jsonb_path_query_array(payload, '$.create_records[*].bucket.value'), jsonb_path_query_array(payload, '$.destroy_records[*].bucket.value')
  FROM claims.list_leases(1) WHERE lease_uuid = t.u(8601);
SELECT jsonb_array_elements(payload->'skipped_destroys') FROM claims.list_leases(1) WHERE lease_uuid = t.u(8601);
SELECT creates, destroys FROM claims.lease_details(t.u(8601));
-- a repeat is the same request only with the same skip_missing
SELECT claims.begin_update(1, t.creates('new'),
    t.destroys('a', 'gone', 'reserved', 'theirs') || jsonb_build_array(t.claim('b', 'ROUTES', 7)), t.u(8601), skip_missing => true) = t.u(8601);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('new'),
    t.destroys('a', 'gone', 'reserved', 'theirs') || jsonb_build_array(t.claim('b', 'ROUTES', 7)), t.u(8601))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('new'), t.destroys('a'), t.u(8601), skip_missing => true)$$);
SELECT claims.commit_update(1, t.u(8601));
SELECT claims.begin_update(1, t.creates('new'),
    t.destroys('a', 'gone', 'reserved', 'theirs') || jsonb_build_array(t.claim('b', 'ROUTES', 7)), t.u(8601), skip_missing => true) = t.u(8601);
SELECT bucket_value, status FROM claims.list_records(1);
-- where all destroys can be made it is an ordinary begin
SELECT claims.begin_update(1, '[]', t.destroys('new'), t.u(8602), skip_missing => true) = t.u(8602);
SELECT payload ? 'skipped_destroys' FROM claims.list_leases(1) WHERE lease_uuid = t.u(8602);
-- a claim that a lease holds is not missing
SELECT t.call($$SELECT claims.begin_update(1, '[]', t.destroys('new', 'gone'), skip_missing => true)$$);
SELECT claims.rollback_update(1, t.u(8602));

-- a replace whose claim is missing is a create
SELECT claims.begin_update(1, t.creates('fresh', 'x'), t.destroys('fresh'), t.u(8603), skip_missing => true) = t.u(8603);
SELECT bucket_value, status FROM claims.list_records(1);
SELECT claims.commit_update(1, t.u(8603));
-- a replace of a claim of another cell or source remains a create, which is refused
SELECT t.call($$SELECT claims.begin_update(1, t.creates('theirs', 'y'), t.destroys('theirs', 'gone'), skip_missing => true)$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('c'), jsonb_build_array(t.claim('c', 'ROUTES', 9)), skip_missing => true)$$);
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, t.creates('theirs', 'reserved'), t.destroys('gone'), skip_missing => true);

-- a batch of which nothing remains is a lease that holds nothing
SELECT claims.begin_update(1, destroy_records => t.destroys('gone', 'theirs'), lease_uuid => t.u(8604), skip_missing => true) = t.u(8604);
SELECT payload FROM claims.list_leases(1);
RESET SESSION AUTHORIZATION;
SELECT count(*) FROM claims.check();
SET SESSION AUTHORIZATION regress_claims_one;
SELECT claims.commit_update(1, t.u(8604)), claims.lease_outcome(1, t.u(8604));
SELECT claims.rollback_update(1, lease_uuid) FROM claims.try_begin_update(1, '[]', t.destroys('gone'), skip_missing => true);
-- an empty batch is still refused
SELECT t.call($$SELECT claims.begin_update(1, '[]', '[]', skip_missing => true)$$);

-- begin_update_text has defaults for both lists
SELECT claims.begin_update_text(1, t.creates('text')::text, lease_uuid => t.u(8605)) = t.u(8605);
SELECT claims.begin_update_text(1, destroy_records => t.destroys('gone')::text, skip_missing => true, lease_uuid => t.u(8606)) = t.u(8606);
SELECT outcome, settled FROM claims.settle_leases(1, ARRAY[t.u(8606)], ARRAY[t.u(8605)]);
-- begin_first takes the first batch that is free without its missing destroys
SELECT chosen FROM claims.begin_first(1, jsonb_build_array(
    jsonb_build_object('create_records', t.creates('theirs'), 'destroy_records', t.destroys('gone')),
    jsonb_build_object('create_records', t.creates('first'), 'destroy_records', t.destroys('gone', 'c')),
    jsonb_build_object('create_records', t.creates('second'))), t.u(8607), skip_missing => true);
SELECT bucket_value, status FROM claims.list_records(1);
SELECT claims.commit_update(1, t.u(8607));
RESET SESSION AUTHORIZATION;
SELECT claims.unreserve_names('ROUTES', '{reserved}', 'test');
SELECT count(*) FROM claims.check();

-- many destroys of which every second is missing, in one call
SELECT t.clean();
SELECT claims.commit_update(1, claims.begin_update(1, (SELECT jsonb_agg(t.claim('m' || i)) FROM generate_series(2, 600, 2) i)));
SELECT claims.begin_update(1, (SELECT jsonb_agg(t.claim('n' || i)) FROM generate_series(1, 300) i),
    (SELECT t.destroys(VARIADIC array_agg('m' || i)) FROM generate_series(1, 600) i), t.u(8608), skip_missing => true) = t.u(8608);
SELECT status, count(*) FROM claims.list_records(1) GROUP BY status ORDER BY status;
SELECT jsonb_array_length(payload->'skipped_destroys') FROM claims.list_leases(1);
SELECT claims.commit_update(1, t.u(8608));
SELECT count(*) FROM claims.list_records(1);

-- a skipped destroy frees no look-alike: the create that needs it is refused; a replace that becomes a create takes its skeleton
BEGIN;
SELECT claims.add_bucket_type(186, 'LOOKS', 'username', 'reject');
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(t.claim('paypal', 'LOOKS', 1))));
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, jsonb_build_array(t.claim('paypa1', 'LOOKS', 1)),
    jsonb_build_array(t.claim('paypal', 'LOOKS', 2)), skip_missing => true);
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(t.claim('google', 'LOOKS', 3)),
    jsonb_build_array(t.claim('google', 'LOOKS', 3)), skip_missing => true));
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, jsonb_build_array(t.claim('goog1e', 'LOOKS', 1)));
SELECT count(*) FROM claims.check();
ROLLBACK;
SELECT count(*) FROM claims.check();
SELECT t.clean();
