-- lease_outcome.
SELECT t.clean();
SET SESSION AUTHORIZATION regress_claims_one;
-- lease_outcome of unknown, outstanding, committed and rolled-back leases
SELECT claims.lease_outcome(1, t.u(800)) IS NULL;
SELECT claims.begin_update(1, t.creates('a'), lease_uuid => t.u(800));
SELECT claims.lease_outcome(1, t.u(800));
SELECT claims.commit_update(1, t.u(800));
SELECT claims.lease_outcome(cell_id => 1, lease_uuid => t.u(800));
SELECT claims.begin_update(1, t.creates('b'), lease_uuid => t.u(801));
SELECT claims.rollback_update(1, t.u(801));
SELECT claims.lease_outcome(1, t.u(801));
SELECT claims.rollback_update(1, t.u(802));
SELECT claims.lease_outcome(1, t.u(802));
-- lease_outcome sees changes of its own transaction
BEGIN;
SELECT claims.begin_update(1, t.creates('b'), lease_uuid => t.u(803));
SELECT claims.lease_outcome(1, t.u(803));
SELECT claims.commit_update(1, t.u(803));
SELECT claims.lease_outcome(1, t.u(803));
ROLLBACK;
SELECT claims.lease_outcome(1, t.u(803)) IS NULL;
-- lease_outcome assigns no transaction id
BEGIN READ ONLY;
SELECT claims.lease_outcome(1, t.u(800));
SELECT pg_current_xact_id_if_assigned() IS NULL;
COMMIT;
RESET SESSION AUTHORIZATION;
-- lease_outcome returns NULL for another cell's lease
SELECT claims.begin_update(1, t.creates('c'), lease_uuid => t.u(804));
SET SESSION AUTHORIZATION regress_claims_two;
SELECT claims.lease_outcome(2, t.u(800)) IS NULL, claims.lease_outcome(2, t.u(801)) IS NULL, claims.lease_outcome(2, t.u(804)) IS NULL;
SELECT t.call($$SELECT claims.lease_outcome(1, t.u(800))$$);
RESET SESSION AUTHORIZATION;
SELECT t.call($$SELECT claims.lease_outcome(77, t.u(800))$$);
