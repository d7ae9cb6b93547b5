-- The cell's side in one session: track, forget, judge, fences. Leases 40xx.
SELECT t.clean();
SELECT t.no_leases();

-- the columns of the documented tables
SELECT attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'not null' ELSE 'null' END
  FROM pg_attribute WHERE attrelid = 'claims.cells_outstanding_leases'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum;
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'claims.cells_outstanding_leases'::regclass AND contype = 'p';
SELECT p.oid::regprocedure, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)
  FROM pg_proc p WHERE pronamespace = 'claims'::regnamespace
   AND proname IN ('track_lease', 'forget_leases', 'judge_leases', 'reconcile', 'purge_fences') ORDER BY proname;

-- track_lease is part of the transaction and its savepoints
SET SESSION AUTHORIZATION regress_claims_one;
SELECT claims.track_lease(t.u(4001));
SELECT t.tracked();
SELECT claims.track_lease(t.u(4001));
SELECT t.tracked();
BEGIN;
SELECT claims.track_lease(t.u(4002));
SELECT claims.track_lease(t.u(4002));
ROLLBACK;
SELECT t.tracked();
BEGIN;
SELECT claims.track_lease(t.u(4002));
SAVEPOINT s;
SELECT claims.track_lease(t.u(4003));
ROLLBACK TO s;
SELECT claims.track_lease(t.u(4004));
RELEASE s;
COMMIT;
SELECT t.tracked();
BEGIN;
SAVEPOINT s;
SELECT claims.track_lease(t.u(4003));
ROLLBACK TO s;
SELECT claims.track_lease(t.u(4003));
ROLLBACK;
SELECT t.tracked();
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT claims.track_lease(t.u(4001)), claims.track_lease(t.u(4005));
COMMIT;
SELECT t.tracked();
RESET SESSION AUTHORIZATION;
SELECT bool_and(created_at <= clock_timestamp() AND created_at > clock_timestamp() - interval '1 minute' AND updated_at >= created_at)
  FROM claims.cells_outstanding_leases;

-- forget_leases returns the number of forgotten leases
SELECT claims.forget_leases(ARRAY[t.u(4001), t.u(4099), t.u(4001)]);
SELECT claims.forget_leases(ARRAY[t.u(4001)]), claims.forget_leases('{}');
SELECT t.tracked();
BEGIN; SELECT claims.forget_leases(ARRAY[t.u(4002), t.u(4004)]); ROLLBACK;
SELECT t.tracked();

-- verdicts: tracked, young, stale; a fence applies from the next transaction on
SELECT t.verdicts(t.listed('1 second', 4002, 4010, 4004));
SELECT t.fences();
SELECT t.verdicts(t.listed('11 minutes', 4002, 4010, 4004));
SELECT t.fences(), t.tracked();
SELECT t.verdicts(t.listed('11 minutes', 4002, 4010, 4011));
SELECT t.verdicts(t.listed('11 minutes', 4011));
SELECT t.verdicts(t.listed('1 second', 4010));
SELECT t.call($$SELECT claims.track_lease(t.u(4010))$$);
SELECT t.tracked();
-- a fence never applies in its own transaction, however often judge_leases is called
BEGIN;
SELECT t.verdicts(t.listed('11 minutes', 4012));
SELECT t.verdicts(t.listed('11 minutes', 4012));
SAVEPOINT s;
SELECT t.verdicts(t.listed('11 minutes', 4012, 4013));
SELECT t.call($$SELECT claims.track_lease(t.u(4012))$$);
ROLLBACK TO s;
SELECT t.fences();
COMMIT;
SELECT t.verdicts(t.listed('11 minutes', 4012, 4013));
-- a fence that is rolled back does not exist
BEGIN; SELECT t.verdicts(t.listed('11 minutes', 4014)); ROLLBACK;
SELECT claims.track_lease(t.u(4014));
SELECT t.verdicts(t.listed('11 minutes', 4014));
-- a lease tracked in the judging transaction is neither saved nor fenced
BEGIN;
SELECT claims.track_lease(t.u(4015));
SELECT t.verdicts(t.listed('11 minutes', 4015));
COMMIT;
SELECT t.verdicts(t.listed('11 minutes', 4015)), t.fences();
-- stale_after
SELECT t.verdicts(t.listed('1 minute', 4016), '2 minutes'), t.verdicts(t.listed('3 minutes', 4016), '2 minutes');
SELECT t.verdicts(t.listed('1 minute', 4016), '2 minutes');
SELECT t.verdicts(t.listed('0', 4017), '0'), t.fences();
SELECT t.verdicts(t.listed('100 years', 4018), '1 century 1 day');
-- verdicts under REPEATABLE READ and SERIALIZABLE
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT t.verdicts(t.listed('11 minutes', 4002, 4010, 4019));
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT t.verdicts(t.listed('11 minutes', 4002, 4010, 4019));
COMMIT;

-- a known local transaction: running, ended with and without the tracked lease
SELECT t.no_leases();
CREATE FUNCTION t.listed_xid(age interval, number int, xid xid8) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_array(jsonb_build_object('lease_uuid', t.u(number), 'created_at', clock_timestamp() - age, 'cell_xid', xid)) $$;
BEGIN;
SELECT pg_current_xact_id() AS xid \gset
SELECT t.verdicts(t.listed_xid('1 year', 4030, :'xid'));
SAVEPOINT s;
SELECT claims.track_lease(t.u(4030));
ROLLBACK TO s;
SELECT t.verdicts(t.listed_xid('1 year', 4030, :'xid')), t.fences();
COMMIT;
SELECT t.verdicts(t.listed_xid('0', 4030, :'xid'));
SELECT t.fences();
SELECT t.call($$SELECT claims.track_lease(t.u(4030))$$);
BEGIN; SELECT pg_current_xact_id() AS xid \gset
ROLLBACK;
SELECT t.verdicts(t.listed_xid('0', 4031, :'xid'));
SELECT t.verdicts(t.listed_xid('0', 4031, :'xid'));
BEGIN; SELECT pg_current_xact_id() AS xid \gset
SELECT claims.track_lease(t.u(4032));
COMMIT;
SELECT t.verdicts(t.listed_xid('0', 4032, :'xid')), t.verdicts(t.listed_xid('1 year', 4032, :'xid'));
-- the rollback of a savepoint does not end its transaction; an xid may be a JSON number
BEGIN; SELECT pg_current_xact_id() AS xid \gset
COMMIT;
SELECT t.verdicts(jsonb_build_array(jsonb_build_object('lease_uuid', t.u(4033), 'created_at', now(), 'cell_xid', :xid)));
-- an xid in the future, of no transaction, NULL or absent: the age decides
SELECT t.verdicts(t.listed_xid('0', 4034, '18446744073709551615')), t.verdicts(t.listed_xid('11 minutes', 4034, '18446744073709551615'));
SELECT t.verdicts(t.listed_xid('0', 4034, '18446744073709551615'));
SELECT t.verdicts(t.listed_xid('0', 4035, (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 1000)::text::xid8));
SELECT n, t.verdicts(t.listed_xid('0', 4035, n::text::xid8)) FROM unnest('{0,1,2,4294967296,4294967297,4294967298}'::bigint[]) n;
SELECT t.verdicts(t.listed_xid('11 minutes', 4035, '2'));
SELECT t.verdicts(t.listed_xid('0', 4036, NULL)), t.verdicts(t.listed_xid('11 minutes', 4036, NULL));
SELECT t.verdicts(t.listed_xid('0', 4036, NULL));
-- a prepared transaction is running
BEGIN; SELECT pg_current_xact_id() AS xid \gset
SELECT claims.track_lease(t.u(4037));
PREPARE TRANSACTION 'regress_claims_cell';
SELECT t.verdicts(t.listed_xid('1 year', 4037, :'xid')), t.verdicts(t.listed('1 year', 4037)), t.fences();
SELECT t.call($$SELECT claims.track_lease(t.u(4037))$$);
COMMIT PREPARED 'regress_claims_cell';
SELECT t.verdicts(t.listed_xid('0', 4037, :'xid'));
BEGIN; SELECT pg_current_xact_id() AS xid \gset
SELECT claims.track_lease(t.u(4038));
PREPARE TRANSACTION 'regress_claims_cell';
ROLLBACK PREPARED 'regress_claims_cell';
SELECT t.verdicts(t.listed_xid('0', 4038, :'xid'));
-- a fence in a prepared transaction: the lease is neither tracked nor rolled back before that ends
BEGIN; SELECT t.verdicts(t.listed('11 minutes', 4039)); PREPARE TRANSACTION 'regress_claims_cell';
SELECT t.verdicts(t.listed('11 minutes', 4039));
SELECT t.call($$SELECT claims.track_lease(t.u(4039))$$);
COMMIT PREPARED 'regress_claims_cell';
SELECT t.call($$SELECT claims.track_lease(t.u(4039))$$);
SELECT t.verdicts(t.listed('11 minutes', 4039));

-- judge_leases takes the rows of list_leases, and refuses rows without uuid or time
SELECT claims.begin_update(1, t.creates('listed'), lease_uuid => t.u(4050), cell_xid => '18446744073709551615'), claims.track_lease(t.u(4050));
SELECT t.verdicts(jsonb_agg(to_jsonb(l))) FROM claims.list_leases(1) l;
SELECT t.verdicts(jsonb_agg(l)) FROM claims.list_leases(1) l;
SELECT count(*) FROM claims.judge_leases('[]');
SELECT t.verdicts(t.listed('0', 4051, 4052, 4051));
SELECT t.call($$SELECT * FROM claims.judge_leases(NULL)$$);
SELECT t.call($$SELECT * FROM claims.judge_leases('[]', NULL)$$);
SELECT t.call($$SELECT * FROM claims.judge_leases('{}')$$) ~ '^22023';
SELECT t.call($$SELECT * FROM claims.judge_leases('[1]')$$) ~ '^22023';
SELECT t.call($$SELECT * FROM claims.judge_leases('[{}]')$$);
SELECT t.call($$SELECT * FROM claims.judge_leases(t.listed('0', 1) || '[{"lease_uuid": "00000000-0000-4000-8000-000000000001"}]')$$);
SELECT t.call($$SELECT * FROM claims.judge_leases('[{"lease_uuid": "x", "created_at": "2026-01-01"}]')$$);
SELECT t.call($$SELECT * FROM claims.judge_leases('[{"lease_uuid": "00000000-0000-4000-8000-000000000001", "created_at": "soon"}]')$$);
SELECT t.call($$SELECT claims.track_lease(NULL)$$);
SELECT t.call($$SELECT claims.forget_leases(NULL)$$);
SELECT t.call($$SELECT claims.forget_leases(ARRAY[t.u(1), NULL])$$);
-- 3,000 leases in one call
SELECT verdict, count(*) FROM claims.judge_leases((SELECT jsonb_agg(jsonb_build_object('lease_uuid', t.u(100000 + n), 'created_at', '2026-01-01'))
        FROM generate_series(1, 3000) n)) GROUP BY 1;
SELECT verdict, count(*) FROM claims.judge_leases((SELECT jsonb_agg(jsonb_build_object('lease_uuid', t.u(100000 + n), 'created_at', '2026-01-01'))
        FROM generate_series(1, 3001) n)) GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM claims.cells_outstanding_leases WHERE uuid BETWEEN t.u(100000) AND t.u(200000);

-- fences are deleted when they are old and no older transaction is open (cell_leases.spec)
SELECT t.no_leases();
SELECT t.verdicts(t.listed('11 minutes', 4060, 4061));
SELECT claims.purge_fences();
UPDATE claims.lease_fences SET fenced_at = clock_timestamp() - interval '8 days' WHERE lease_uuid = t.u(4060);
SELECT claims.purge_fences(), t.fences();

-- cells may call these functions; purge_fences is for administrators
SELECT r, has_function_privilege(r, 'claims.track_lease(uuid)', 'EXECUTE') AND has_function_privilege(r, 'claims.forget_leases(uuid[])', 'EXECUTE')
       AND has_function_privilege(r, 'claims.judge_leases(jsonb, interval)', 'EXECUTE')
       AND has_function_privilege(r, 'claims.reconcile(bigint, text, interval, int)', 'EXECUTE'),
       has_function_privilege(r, 'claims.purge_fences()', 'EXECUTE')
  FROM unnest('{regress_claims_one,regress_claims_two}'::text[]) r;
SELECT r, count(*) FILTER (WHERE has_function_privilege(r, p.oid, 'EXECUTE'))
  FROM unnest('{regress_claims_router,regress_claims_nobody}'::text[]) r, pg_proc p
 WHERE pronamespace = 'claims'::regnamespace AND proname IN ('track_lease', 'forget_leases', 'judge_leases', 'reconcile', 'purge_fences') GROUP BY r;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT * FROM claims.cells_outstanding_leases$$), t.call($$DELETE FROM claims.lease_fences$$);
-- cells that share a database forget their own leases; any cell forgets those that an administrator tracked
SELECT claims.track_lease(t.u(4073));
SET SESSION AUTHORIZATION regress_claims_two;
SELECT claims.track_lease(t.u(4074)), claims.forget_leases(ARRAY[t.u(4073), t.u(4074)]), t.tracked();
RESET SESSION AUTHORIZATION;
SELECT claims.track_lease(t.u(4075)), claims.forget_leases(ARRAY[t.u(4073)]), t.tracked();
SET SESSION AUTHORIZATION regress_claims_two;
SELECT claims.forget_leases(ARRAY[t.u(4075)]), t.tracked();
RESET SESSION AUTHORIZATION;
BEGIN READ ONLY; SELECT t.call($$SELECT claims.track_lease(t.u(4070))$$) ~ '^25006'; ROLLBACK;
-- the caller's lock_timeout is unchanged
SET lock_timeout = '1234ms'; SET claims.wait_timeout = '50ms';
SELECT claims.track_lease(t.u(4071)), t.verdicts(t.listed('11 minutes', 4072));
SHOW lock_timeout;
RESET lock_timeout; RESET claims.wait_timeout;
SELECT t.no_leases(), t.clean();
