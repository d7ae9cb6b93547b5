-- purge_outcomes deletes outcomes older than claims.outcome_retention.
SELECT t.clean();
SELECT claims.begin_update(1, t.creates('a'), lease_uuid => t.u(1200)), claims.commit_update(1, t.u(1200));
SELECT claims.begin_update(1, t.creates('b'), lease_uuid => t.u(1201)), claims.rollback_update(1, t.u(1201));
SELECT claims.rollback_update(1, t.u(1202));
SELECT claims.begin_update(1, t.creates('c'), lease_uuid => t.u(1203));
SHOW claims.outcome_retention;
-- young outcomes stay
SELECT claims.purge_outcomes() IS NOT NULL;
SELECT claims.lease_outcome(1, t.u(1200)), claims.lease_outcome(1, t.u(1201)), claims.lease_outcome(1, t.u(1202)), claims.lease_outcome(1, t.u(1203));
-- a cell may neither change the setting nor purge
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SET claims.outcome_retention = '1ms'$$);
SELECT t.call($$SELECT claims.purge_outcomes()$$);
RESET SESSION AUTHORIZATION;
SELECT claims.lease_outcome(1, t.u(1200));
-- after a week: outcomes older than a week are deleted; younger ones and outstanding leases stay
BEGIN;
UPDATE claims.lease_outcomes SET settled_at = settled_at - interval '7 days 1 minute' WHERE lease_uuid IN (t.u(1200), t.u(1202));
UPDATE claims.lease_outcomes SET settled_at = settled_at - interval '6 days 23 hours' WHERE lease_uuid = t.u(1201);
UPDATE claims.claim_leases SET created_at = created_at - interval '30 days' WHERE uuid = t.u(1203);
SELECT claims.purge_outcomes();
SELECT claims.lease_outcome(1, t.u(1200)) IS NULL, claims.lease_outcome(1, t.u(1201)), claims.lease_outcome(1, t.u(1202)) IS NULL,
    claims.lease_outcome(1, t.u(1203));
-- a lease whose outcome was deleted is unknown
SELECT t.call($$SELECT claims.commit_update(1, t.u(1200))$$);
SELECT t.call($$SELECT claims.rollback_update(1, t.u(1200))$$);
SELECT t.call($$SELECT claims.commit_update(1, t.u(1201))$$);
SELECT t.call($$SELECT claims.commit_update(1, t.u(1203))$$);
SELECT * FROM t.state();
ROLLBACK;
-- an administrator may lower the setting
BEGIN;
SET LOCAL claims.outcome_retention = 0;
SELECT claims.purge_outcomes() >= 3;
SELECT claims.purge_outcomes();
SELECT count(*) FROM claims.lease_outcomes;
SELECT claims.lease_outcome(1, t.u(1203));
SELECT count(*) FROM claims.check();
ROLLBACK;
-- an administrator that is no superuser may purge
SET SESSION AUTHORIZATION regress_claims_admin;
SELECT claims.purge_outcomes();
RESET SESSION AUTHORIZATION;
-- 20,000 outcomes are deleted in one call
BEGIN;
INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome, settled_at) SELECT gen_random_uuid(), 1, 'committed', '2001-01-01'
  FROM generate_series(1, 20001);
SELECT claims.purge_outcomes();
SELECT claims.purge_outcomes();
ROLLBACK;
