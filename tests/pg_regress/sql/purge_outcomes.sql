-- purge_outcomes: outcomes are kept for claims.outcome_retention, and then dropped.
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
SELECT t.clean();
SELECT claims.begin_update(1, t.creates('a'), lease_uuid => t.u(1200)), claims.commit_update(1, t.u(1200));
SELECT claims.begin_update(1, t.creates('b'), lease_uuid => t.u(1201)), claims.rollback_update(1, t.u(1201));
SELECT claims.rollback_update(1, t.u(1202));
SELECT claims.begin_update(1, t.creates('c'), lease_uuid => t.u(1203));
SHOW claims.outcome_retention;
-- what is young stays
SELECT claims.purge_outcomes() IS NOT NULL;
SELECT claims.lease_outcome(1, t.u(1200)), claims.lease_outcome(1, t.u(1201)), claims.lease_outcome(1, t.u(1202)), claims.lease_outcome(1, t.u(1203));
-- a cell may not shorten the memory of all
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SET claims.outcome_retention = '1ms'$$);
SELECT t.call($$SELECT claims.purge_outcomes()$$);
RESET SESSION AUTHORIZATION;
SELECT claims.lease_outcome(1, t.u(1200));
-- a week later: outcomes of a week ago are gone, younger ones stay, and what is outstanding is outstanding
BEGIN;
UPDATE claims.lease_outcomes SET settled_at = settled_at - interval '7 days 1 minute' WHERE lease_uuid IN (t.u(1200), t.u(1202));
UPDATE claims.lease_outcomes SET settled_at = settled_at - interval '6 days 23 hours' WHERE lease_uuid = t.u(1201);
UPDATE claims.claim_leases SET created_at = created_at - interval '30 days' WHERE uuid = t.u(1203);
SELECT claims.purge_outcomes();
SELECT claims.lease_outcome(1, t.u(1200)) IS NULL, claims.lease_outcome(1, t.u(1201)), claims.lease_outcome(1, t.u(1202)) IS NULL, claims.lease_outcome(1, t.u(1203));
-- what was forgotten is unknown
SELECT t.call($$SELECT claims.commit_update(1, t.u(1200))$$);
SELECT t.call($$SELECT claims.rollback_update(1, t.u(1200))$$);
SELECT t.call($$SELECT claims.commit_update(1, t.u(1201))$$);
SELECT t.call($$SELECT claims.commit_update(1, t.u(1203))$$);
SELECT * FROM t.state();
ROLLBACK;
-- the setting counts: an administrator shortens it
BEGIN;
SET LOCAL claims.outcome_retention = 0;
SELECT claims.purge_outcomes() >= 3;
SELECT claims.purge_outcomes();
SELECT count(*) FROM claims.lease_outcomes;
SELECT claims.lease_outcome(1, t.u(1203));
SELECT count(*) FROM claims.check();
ROLLBACK;
-- an administrator who is no superuser may purge too
SET SESSION AUTHORIZATION regress_claims_admin;
SELECT claims.purge_outcomes();
RESET SESSION AUTHORIZATION;
-- all of them in one call, however many
BEGIN;
INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome, settled_at) SELECT gen_random_uuid(), 1, 'committed', '2001-01-01' FROM generate_series(1, 20001);
SELECT claims.purge_outcomes();
SELECT claims.purge_outcomes();
ROLLBACK;
