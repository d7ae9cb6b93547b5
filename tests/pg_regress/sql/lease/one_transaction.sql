-- Begin and commit in one transaction, and several leases in one.
SELECT t.clean();
SELECT t.have(1, 'old');
-- begin and commit in one transaction
SET SESSION AUTHORIZATION regress_claims_one;
BEGIN;
SELECT claims.begin_update(1, t.creates('a'), t.destroys('old'), t.u(700));
SELECT claims.commit_update(1, t.u(700));
SELECT claims.commit_update(1, t.u(700));
SELECT claims.begin_update(1, t.creates('a'), t.destroys('old'), t.u(700));
SELECT claims.lease_outcome(1, t.u(700));
COMMIT;
SELECT * FROM t.state();
-- begin and rollback in one transaction
BEGIN;
SELECT claims.begin_update(1, t.creates('b'), t.destroys('a'), t.u(701));
SELECT claims.rollback_update(1, t.u(701));
SELECT t.call($$SELECT claims.begin_update(1, t.creates('b'), t.destroys('a'), t.u(701))$$);
COMMIT;
SELECT * FROM t.state();
-- several leases on one bucket, one after the other
BEGIN;
SELECT claims.begin_update(1, '[]', t.destroys('a'), t.u(702)), claims.commit_update(1, t.u(702));
SELECT claims.begin_update(1, t.creates('a'), '[]', t.u(703)), claims.commit_update(1, t.u(703));
SELECT claims.begin_update(1, '[]', t.destroys('a'), t.u(704)), claims.rollback_update(1, t.u(704));
SELECT claims.begin_update(1, t.creates('c'), '[]', t.u(705)), claims.rollback_update(1, t.u(705));
SELECT claims.begin_update(1, t.creates('c'), '[]', t.u(706)), claims.commit_update(1, t.u(706));
COMMIT;
SELECT * FROM t.state();
-- a rolled-back transaction restores everything
BEGIN;
SELECT claims.begin_update(1, t.creates('d'), t.destroys('a', 'c'), t.u(707)), claims.commit_update(1, t.u(707));
ROLLBACK;
SELECT * FROM t.state();
SELECT t.call($$SELECT claims.commit_update(1, t.u(707))$$);
-- begin and commit in one statement
SELECT claims.commit_update(1, claims.begin_update(1, t.creates('e')));
-- a uuid that the same transaction has fenced
BEGIN;
SELECT claims.rollback_update(1, t.u(708));
SELECT claims.rollback_update(1, t.u(708));
SELECT t.call($$SELECT claims.begin_update(1, t.creates('f'), lease_uuid => t.u(708))$$);
SELECT t.call($$SELECT claims.commit_update(1, t.u(708))$$);
COMMIT;
-- begin and commit under REPEATABLE READ and SERIALIZABLE
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT claims.begin_update(1, t.creates('g'), t.destroys('e'), t.u(709));
SELECT bucket_value, status FROM claims.get_records('[{"type": 1, "value": "g"}, {"type": 1, "value": "e"}]');
SELECT claims.commit_update(1, t.u(709));
SELECT bucket_value, status FROM claims.get_records('[{"type": 1, "value": "g"}, {"type": 1, "value": "e"}]');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT claims.begin_update(1, t.creates('h'), t.destroys('g'), t.u(710));
SELECT claims.rollback_update(1, t.u(710));
SELECT bucket_value, status FROM claims.get_records('[{"type": 1, "value": "g"}, {"type": 1, "value": "h"}]');
COMMIT;
RESET SESSION AUTHORIZATION;
SELECT count(*) FROM claims.check();
