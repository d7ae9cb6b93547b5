-- rollback_update.
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
SELECT t.clean();
SELECT t.have(1, 'old', 'kept');
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
-- the claim that was to be destroyed is what it was
SELECT count(*) FROM claims.claims JOIN before USING (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type,
    source_id, creator_id, status, created_at);
-- the names are free again, for another cell too
SELECT t.call($$SELECT claims.begin_update(2, t.creates('a'), lease_uuid => t.u(601))$$);
-- an unknown uuid is fenced, once
SELECT claims.rollback_update(1, t.u(602));
SELECT claims.rollback_update(1, t.u(602));
SELECT claims.lease_outcome(1, t.u(602));
SELECT t.call($$SELECT claims.begin_update(1, t.creates('z'), lease_uuid => t.u(602))$$);
SELECT t.leases();
-- a fence in a transaction that is rolled back is none
BEGIN;
SELECT claims.rollback_update(1, t.u(603));
ROLLBACK;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('z'), lease_uuid => t.u(603))$$);
-- another cell's: outstanding, committed, rolled back, fenced
SELECT t.call($$SELECT claims.rollback_update(2, t.u(603))$$);
SELECT claims.commit_update(1, t.u(603));
SELECT t.call($$SELECT claims.rollback_update(2, t.u(603))$$);
SELECT t.call($$SELECT claims.rollback_update(2, t.u(600))$$);
SELECT t.call($$SELECT claims.rollback_update(2, t.u(602))$$);
SELECT * FROM t.state();
-- undone with its transaction
BEGIN;
SELECT claims.rollback_update(2, t.u(601));
ROLLBACK;
SELECT claims.lease_outcome(2, t.u(601));
SELECT * FROM t.state();
SELECT claims.rollback_update(2, t.u(601));
-- time of change
BEGIN;
SELECT claims.begin_update(1, '[]', t.destroys('kept'), t.u(604));
COMMIT;
BEGIN;
SELECT pg_sleep(0.05);
SELECT claims.rollback_update(1, t.u(604));
SELECT updated_at > now() + interval '50 ms', lease_uuid IS NULL FROM claims.claims WHERE bucket_value = 'kept';
COMMIT;
-- with a claim missing, because somebody damaged the table, it does what is left to do or refuses: never half, never silently
SELECT claims.begin_update(1, t.creates('e', 'f'), t.destroys('old', 'kept'), t.u(605));
BEGIN;
DELETE FROM claims.claims WHERE bucket_value IN ('e', 'old');
SELECT t.call($$SELECT claims.rollback_update(1, t.u(605))$$);
SELECT * FROM t.state();
SELECT count(*) > 0 OR t.leases() = 0 FROM claims.check();
ROLLBACK;
SELECT claims.rollback_update(1, t.u(605));
SELECT count(*) FROM claims.check();
