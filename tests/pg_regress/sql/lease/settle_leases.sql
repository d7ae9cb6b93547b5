-- settle_leases.
SELECT t.clean();
SELECT t.have(1, 'old1', 'old2');
SELECT claims.begin_update(1, t.creates('a'), t.destroys('old1'), t.u(900));
SELECT claims.begin_update(1, t.creates('b'), lease_uuid => t.u(901));
SELECT claims.begin_update(1, t.creates('c'), t.destroys('old2'), t.u(902));
SELECT claims.begin_update(1, t.creates('d'), lease_uuid => t.u(903)), claims.commit_update(1, t.u(903));
SELECT claims.begin_update(1, t.creates('e'), lease_uuid => t.u(904)), claims.rollback_update(1, t.u(904));
SELECT claims.begin_update(2, t.creates('f'), lease_uuid => t.u(905));
SELECT claims.begin_update(1, t.creates('g'), lease_uuid => t.u(906));
SET SESSION AUTHORIZATION regress_claims_one;
-- one call with every kind of lease: outstanding, committed, rolled back, another cell's, unknown, and one of them twice
SELECT right(lease_uuid::text, 3), outcome, settled FROM claims.settle_leases(1,
    ARRAY[t.u(900), t.u(901), t.u(903), t.u(904), t.u(905), t.u(907)], ARRAY[t.u(902), t.u(906), t.u(908)]) ORDER BY 1;
SELECT * FROM t.state();
SELECT claims.lease_outcome(1, t.u(908)), claims.lease_outcome(1, t.u(907)) IS NULL;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('z'), lease_uuid => t.u(908))$$);
-- settled leases stay settled when the other outcome is asked
SELECT right(lease_uuid::text, 3), outcome, settled FROM claims.settle_leases(1,
    ARRAY[t.u(902), t.u(904), t.u(908)], ARRAY[t.u(900), t.u(903), t.u(905)]) ORDER BY 1;
-- a repeated call settles nothing more
SELECT right(lease_uuid::text, 3), outcome, settled FROM claims.settle_leases(1,
    ARRAY[t.u(900)], ARRAY[t.u(902), t.u(908)]) ORDER BY 1;
SELECT * FROM t.state();
-- empty lists
SELECT count(*) FROM claims.settle_leases(1);
SELECT count(*) FROM claims.settle_leases(1, '{}', '{}');
-- NULL from array_agg() over no rows is an empty list
SELECT count(*) FROM claims.settle_leases(1, (SELECT array_agg(uuid) FROM claims.list_leases(1) l (uuid) WHERE false), NULL);
-- a lease in both lists is refused, and nothing is settled
SELECT claims.begin_update(1, t.creates('h'), lease_uuid => t.u(909));
SELECT t.call($$SELECT * FROM claims.settle_leases(1, ARRAY[t.u(909)], ARRAY[t.u(909)])$$);
SELECT claims.lease_outcome(1, t.u(909));
-- a lease twice in one list counts once
SELECT right(lease_uuid::text, 3), outcome, settled FROM claims.settle_leases(1, ARRAY[t.u(909), t.u(909)]);
SELECT right(lease_uuid::text, 3), outcome, settled FROM claims.settle_leases(1, rollback_leases => ARRAY[t.u(910), t.u(910)]);
-- NULL elements are refused
SELECT t.call($$SELECT * FROM claims.settle_leases(1, ARRAY[NULL]::uuid[])$$);
SELECT t.call($$SELECT * FROM claims.settle_leases(1, '{}', ARRAY[t.u(911), NULL])$$);
SELECT t.call($$SELECT * FROM claims.settle_leases(1, NULL)$$);
SELECT t.call($$SELECT * FROM claims.settle_leases(1, '{}', NULL)$$);
SELECT t.call($$SELECT * FROM claims.settle_leases(NULL)$$);
SELECT claims.lease_outcome(1, t.u(911)) IS NULL;
-- an array of two dimensions is read as a list
SELECT t.call($$SELECT count(*) FROM claims.settle_leases(1, '{}', ARRAY[ARRAY[t.u(912)], ARRAY[t.u(913)]])$$);
-- settle_leases is for the own cell only
SELECT t.call($$SELECT * FROM claims.settle_leases(2, '{}', ARRAY[t.u(905)])$$);
RESET SESSION AUTHORIZATION;
SELECT t.call($$SELECT * FROM claims.settle_leases(77, '{}', ARRAY[t.u(905)])$$);
SELECT claims.lease_outcome(2, t.u(905));
-- many leases in one call
CREATE TEMP TABLE many AS SELECT n, claims.begin_update(1, t.creates('m' || n)) AS lease FROM generate_series(1, 200) n;
SELECT outcome, settled, count(*) FROM claims.settle_leases(1, (SELECT array_agg(lease) FROM many WHERE n % 2 = 0),
    (SELECT array_agg(lease) FROM many WHERE n % 2 = 1)) GROUP BY 1, 2 ORDER BY 1;
SELECT count(*) FROM claims.claims WHERE bucket_value ~ '^m\d' AND status = 1 AND substr(bucket_value, 2)::int % 2 = 0;
SELECT count(*) FROM claims.claims WHERE bucket_value ~ '^m\d';
-- a lease that fails does not stop the others
SELECT claims.begin_update(1, t.creates('t1'), lease_uuid => t.u(920)), claims.begin_update(1, t.creates('t2'), lease_uuid => t.u(921));
BEGIN;
DELETE FROM claims.claims WHERE bucket_value = 't1';
SELECT right(lease_uuid::text, 3), settled FROM claims.settle_leases(1, ARRAY[t.u(920), t.u(921)]) WHERE lease_uuid = t.u(921);
ROLLBACK;
SELECT count(*) FROM claims.check();
-- a damaged lease is reported and stays as it is; its neighbours in both lists are settled
SELECT count(claims.begin_update(1, t.creates('u' || n), lease_uuid => t.u(930 + n))) FROM generate_series(1, 6) n;
BEGIN;
DELETE FROM claims.claims WHERE bucket_value IN ('u2', 'u4');
SELECT right(lease_uuid::text, 3), outcome, settled
  FROM claims.settle_leases(1, ARRAY[t.u(931), t.u(932), t.u(933)], ARRAY[t.u(934), t.u(935), t.u(936)]);
ROLLBACK;
SELECT count(*) FROM claims.check();
