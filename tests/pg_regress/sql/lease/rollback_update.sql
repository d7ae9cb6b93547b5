-- rollback_update.
SELECT t.clean();
SELECT t.have(1, 'old', 'kept');
-- rollback_update deletes creates and makes destroys ACTIVE
CREATE TEMP TABLE before AS SELECT * FROM claims.claims;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT claims.begin_update(1, t.creates('a', 'b'), t.destroys('old'), t.u(600));
SELECT claims.rollback_update(1, t.u(600));
SELECT * FROM t.state();
SELECT t.leases();
SELECT claims.rollback_update(1, t.u(600));
SELECT claims.rollback_update(cell_id => 1, lease_uuid => t.u(600));
SELECT claims.lease_outcome(1, t.u(600));
SELECT t.call($$SELECT claims.commit_update(1, t.u(600))$$);
RESET SESSION AUTHORIZATION;
-- a claim that was to be destroyed is as before
SELECT count(*) FROM claims.claims JOIN before USING (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type,
    source_id, creator_id, status, created_at);
-- created names are free again, for another cell too
SELECT t.call($$SELECT claims.begin_update(2, t.creates('a'), lease_uuid => t.u(601))$$);
-- an unknown uuid is fenced once
SELECT claims.rollback_update(1, t.u(602));
SELECT claims.rollback_update(1, t.u(602));
SELECT claims.lease_outcome(1, t.u(602));
SELECT t.call($$SELECT claims.begin_update(1, t.creates('z'), lease_uuid => t.u(602))$$);
SELECT t.leases();
-- a fence is rolled back with its transaction
BEGIN;
SELECT claims.rollback_update(1, t.u(603));
ROLLBACK;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('z'), lease_uuid => t.u(603))$$);
-- another cell's lease: outstanding, committed, rolled back, fenced
SELECT t.call($$SELECT claims.rollback_update(2, t.u(603))$$);
SELECT claims.commit_update(1, t.u(603));
SELECT t.call($$SELECT claims.rollback_update(2, t.u(603))$$);
SELECT t.call($$SELECT claims.rollback_update(2, t.u(600))$$);
SELECT t.call($$SELECT claims.rollback_update(2, t.u(602))$$);
SELECT * FROM t.state();
-- a rollback_update is rolled back with its transaction
BEGIN;
SELECT claims.rollback_update(2, t.u(601));
ROLLBACK;
SELECT claims.lease_outcome(2, t.u(601));
SELECT * FROM t.state();
SELECT claims.rollback_update(2, t.u(601));
-- updated_at of a claim that was to be destroyed
BEGIN;
SELECT claims.begin_update(1, '[]', t.destroys('kept'), t.u(604));
COMMIT;
BEGIN;
SELECT pg_sleep(0.05);
SELECT claims.rollback_update(1, t.u(604));
SELECT updated_at > now() + interval '50 ms', lease_uuid IS NULL FROM claims.claims WHERE bucket_value = 'kept';
COMMIT;
-- a missing claim: the call settles what remains or refuses, and never settles half of it
SELECT claims.begin_update(1, t.creates('e', 'f'), t.destroys('old', 'kept'), t.u(605));
BEGIN;
DELETE FROM claims.claims WHERE bucket_value IN ('e', 'old');
SELECT t.call($$SELECT claims.rollback_update(1, t.u(605))$$);
SELECT * FROM t.state();
SELECT count(*) > 0 OR t.leases() = 0 FROM claims.check();
ROLLBACK;
SELECT claims.rollback_update(1, t.u(605));
SELECT count(*) FROM claims.check();
