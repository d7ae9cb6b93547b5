-- purge_outcomes: outcomes are kept for claims.outcome_retention, and then dropped.
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
SELECT t.clean();
SHOW claims.outcome_retention;
SELECT claims.begin_update(1, t.creates('a'), lease_uuid => t.u(1200)), claims.commit_update(1, t.u(1200));
SELECT claims.begin_update(1, t.creates('b'), lease_uuid => t.u(1201)), claims.rollback_update(1, t.u(1201));
SELECT claims.rollback_update(1, t.u(1202));
SELECT claims.begin_update(1, t.creates('c'), lease_uuid => t.u(1203));
-- what is young stays
SELECT claims.purge_outcomes() IS NOT NULL;
SELECT claims.lease_outcome(1, t.u(1200)), claims.lease_outcome(1, t.u(1201)), claims.lease_outcome(1, t.u(1202)), claims.lease_outcome(1, t.u(1203));
-- a cell may not shorten the memory of all
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SET claims.outcome_retention = '1ms'$$);
SELECT t.call($$SELECT claims.purge_outcomes()$$);
RESET SESSION AUTHORIZATION;
SELECT claims.lease_outcome(1, t.u(1200));
