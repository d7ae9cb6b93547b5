-- settle_leases.
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
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
-- 900 and 901 commit; 903 is committed already; 904 was rolled back; 905 is another cell's; 907 is unknown.
-- 902 and 906 roll back; 908 is unknown and so fenced; 910 twice
SELECT right(lease_uuid::text, 3), outcome, settled FROM claims.settle_leases(1,
    ARRAY[t.u(900), t.u(901), t.u(903), t.u(904), t.u(905), t.u(907)], ARRAY[t.u(902), t.u(906), t.u(908)]) ORDER BY 1;
SELECT * FROM t.state();
SELECT claims.lease_outcome(1, t.u(908)), claims.lease_outcome(1, t.u(907)) IS NULL;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('z'), lease_uuid => t.u(908))$$);
-- the other way: what is settled stays settled
SELECT right(lease_uuid::text, 3), outcome, settled FROM claims.settle_leases(1,
    ARRAY[t.u(902), t.u(904), t.u(908)], ARRAY[t.u(900), t.u(903), t.u(905)]) ORDER BY 1;
-- again: nothing left to do
SELECT right(lease_uuid::text, 3), outcome, settled FROM claims.settle_leases(1,
    ARRAY[t.u(900)], ARRAY[t.u(902), t.u(908)]) ORDER BY 1;
SELECT * FROM t.state();
-- nothing asked, nothing answered
SELECT count(*) FROM claims.settle_leases(1);
SELECT count(*) FROM claims.settle_leases(1, '{}', '{}');
-- in both lists: an error, and nothing is settled
SELECT claims.begin_update(1, t.creates('h'), lease_uuid => t.u(909));
SELECT t.call($$SELECT * FROM claims.settle_leases(1, ARRAY[t.u(909)], ARRAY[t.u(909)])$$);
SELECT claims.lease_outcome(1, t.u(909));
-- twice in one list: one lease
SELECT right(lease_uuid::text, 3), outcome, settled FROM claims.settle_leases(1, ARRAY[t.u(909), t.u(909)]);
SELECT right(lease_uuid::text, 3), outcome, settled FROM claims.settle_leases(1, rollback_leases => ARRAY[t.u(910), t.u(910)]);
-- NULL
SELECT t.call($$SELECT * FROM claims.settle_leases(1, ARRAY[NULL]::uuid[])$$);
SELECT t.call($$SELECT * FROM claims.settle_leases(1, '{}', ARRAY[t.u(911), NULL])$$);
SELECT t.call($$SELECT * FROM claims.settle_leases(1, NULL)$$);
SELECT t.call($$SELECT * FROM claims.settle_leases(1, '{}', NULL)$$);
SELECT t.call($$SELECT * FROM claims.settle_leases(NULL)$$);
SELECT claims.lease_outcome(1, t.u(911)) IS NULL;
-- an array of two dimensions is a list all the same
SELECT t.call($$SELECT count(*) FROM claims.settle_leases(1, '{}', ARRAY[ARRAY[t.u(912)], ARRAY[t.u(913)]])$$);
-- only for one's own cell
SELECT t.call($$SELECT * FROM claims.settle_leases(2, '{}', ARRAY[t.u(905)])$$);
RESET SESSION AUTHORIZATION;
SELECT t.call($$SELECT * FROM claims.settle_leases(77, '{}', ARRAY[t.u(905)])$$);
SELECT claims.lease_outcome(2, t.u(905));
-- many at once
CREATE TEMP TABLE many AS SELECT n, claims.begin_update(1, t.creates('m' || n)) AS lease FROM generate_series(1, 200) n;
SELECT outcome, settled, count(*) FROM claims.settle_leases(1, (SELECT array_agg(lease) FROM many WHERE n % 2 = 0),
    (SELECT array_agg(lease) FROM many WHERE n % 2 = 1)) GROUP BY 1, 2 ORDER BY 1;
SELECT count(*) FROM claims.claims WHERE bucket_value ~ '^m\d' AND status = 1 AND substr(bucket_value, 2)::int % 2 = 0;
SELECT count(*) FROM claims.claims WHERE bucket_value ~ '^m\d';
-- one lease's trouble does not stop the others, whatever the trouble
SELECT claims.begin_update(1, t.creates('t1'), lease_uuid => t.u(920)), claims.begin_update(1, t.creates('t2'), lease_uuid => t.u(921));
BEGIN;
DELETE FROM claims.claims WHERE bucket_value = 't1';
SELECT right(lease_uuid::text, 3), settled FROM claims.settle_leases(1, ARRAY[t.u(920), t.u(921)]) WHERE lease_uuid = t.u(921);
ROLLBACK;
SELECT count(*) FROM claims.check();
-- the one in trouble stays what it is, and is not busy; its neighbours are settled, on either side of it and in either list
SELECT count(claims.begin_update(1, t.creates('u' || n), lease_uuid => t.u(930 + n))) FROM generate_series(1, 6) n;
BEGIN;
DELETE FROM claims.claims WHERE bucket_value IN ('u2', 'u4');
SELECT right(lease_uuid::text, 3), outcome, settled FROM claims.settle_leases(1, ARRAY[t.u(931), t.u(932), t.u(933)], ARRAY[t.u(934), t.u(935), t.u(936)]);
ROLLBACK;
SELECT count(*) FROM claims.check();
