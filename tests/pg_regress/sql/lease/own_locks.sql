-- Rows that the own transaction has locked, several times and under savepoints, are no conflict.
SELECT t.clean();
SELECT t.have(1, 'a', 'b');
SELECT claims.begin_update(1, t.creates('c'), t.destroys('a'), t.u(3300)) = t.u(3300);
-- a lease with one lock, with a multixact of the own transaction, and after a lock that was rolled back
BEGIN;
SELECT count(*) FROM (SELECT FROM claims.claim_leases WHERE uuid = t.u(3300) FOR KEY SHARE) x;
SAVEPOINT s;
SELECT count(*) FROM (SELECT FROM claims.claim_leases WHERE uuid = t.u(3300) FOR UPDATE) x;
SELECT claims.commit_update(1, t.u(3300));
ROLLBACK TO s;
SELECT t.call($$SELECT claims.commit_update(1, t.u(3300))$$);
ROLLBACK;
BEGIN;
SELECT count(*) FROM (SELECT FROM claims.claim_leases WHERE uuid = t.u(3300) FOR SHARE) x;
SAVEPOINT s;
SELECT count(*) FROM (SELECT FROM claims.claim_leases WHERE uuid = t.u(3300) FOR NO KEY UPDATE) x;
SAVEPOINT s2;
SELECT count(*) FROM (SELECT FROM claims.claim_leases WHERE uuid = t.u(3300) FOR UPDATE) x;
RELEASE s2;
SELECT claims.rollback_update(1, t.u(3300));
COMMIT;
SELECT * FROM t.state();
-- a claim with such locks is not in flight
BEGIN;
SELECT count(*) FROM (SELECT FROM claims.claims WHERE bucket_value = 'b' FOR KEY SHARE) x;
SAVEPOINT s;
SELECT count(*) FROM (SELECT FROM claims.claims WHERE bucket_value = 'b' FOR UPDATE) x;
SELECT t.call($$SELECT claims.begin_update(2, t.creates('b'))$$);
SELECT claims.begin_update(1, '[]', t.destroys('b'), t.u(3301)) = t.u(3301);
SELECT claims.commit_update(1, t.u(3301));
COMMIT;
SELECT * FROM t.state();
