-- Cells and their roles.
SELECT t.clean();
SELECT cell_id, name, address FROM claims.cells ORDER BY cell_id;

BEGIN;
CREATE ROLE regress_claims_three;
-- a role cannot act before it is registered
SET LOCAL SESSION AUTHORIZATION regress_claims_three;
SELECT t.call($$SELECT claims.begin_update(3, t.creates('a'), lease_uuid => t.u(200))$$);
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_three')$$);
RESET SESSION AUTHORIZATION;
-- register_cell with name and address
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_three', 'Cell Three', 'https://three.example')$$);
SELECT cell_id, name, address FROM claims.cells WHERE cell_id = 3;
-- a registered cell can call everything that cells need
SET LOCAL SESSION AUTHORIZATION regress_claims_three;
SELECT t.call($$SELECT claims.begin_update(3, t.creates('a'), lease_uuid => t.u(201))$$);
SELECT t.call($$SELECT claims.lease_outcome(3, t.u(201))$$);
SELECT t.call($$SELECT claims.commit_update(3, t.u(201))$$);
SELECT t.call($$SELECT lease_uuid, conflicts FROM claims.try_begin_update(3, t.creates('b'), lease_uuid => t.u(202))$$);
SELECT t.call($$SELECT claims.rollback_update(3, t.u(202))$$);
SELECT t.call($$SELECT * FROM claims.settle_leases(3, rollback_leases => ARRAY[t.u(203)])$$);
SELECT t.call($$SELECT bucket_value, cell_id, status, cell_name, cell_address FROM claims.get_record('ROUTES', 'a')$$);
SELECT t.call($$SELECT bucket_value FROM claims.get_records('[{"type": "ROUTES", "value": "a"}]')$$);
SELECT t.call($$SELECT count(*) FROM claims.list_leases(3)$$);
SELECT t.call($$SELECT count(*) FROM claims.list_records(3)$$);
-- a cell cannot call what is for administrators
SELECT t.call($$SELECT count(*) FROM claims.list_leases(NULL)$$);
SELECT t.call($$SELECT claims.register_cell(4, 'regress_claims_three')$$);
SELECT t.call($$SELECT claims.grant_read('regress_claims_three')$$);
RESET SESSION AUTHORIZATION;

-- a second call changes the cell's name and role; settings stay those of the role that the cell had before
ALTER ROLE regress_claims_three SET lock_timeout = '3s';
CREATE ROLE regress_claims_three_b;
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_three_b', 'Cell Three B', 'https://b.example')$$);
SELECT cell_id, name, address FROM claims.cells WHERE cell_id = 3;
SELECT cell_name, cell_address FROM claims.get_record('ROUTES', 'a');
SELECT setrole::regrole, setconfig FROM pg_db_role_setting WHERE setrole::regrole::text LIKE 'regress_claims_three%';
-- register_cell keeps the name and address that it is not given
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_three_b', address => 'https://c.example')$$);
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_three_b')$$);
SELECT cell_id, name, address FROM claims.cells WHERE cell_id = 3;
SET LOCAL SESSION AUTHORIZATION regress_claims_three;
SELECT t.call($$SELECT claims.begin_update(3, t.creates('c'), lease_uuid => t.u(204))$$);
RESET SESSION AUTHORIZATION;
SET LOCAL SESSION AUTHORIZATION regress_claims_three_b;
SELECT t.call($$SELECT claims.begin_update(3, t.creates('c'), lease_uuid => t.u(205))$$);
RESET SESSION AUTHORIZATION;

-- a renamed role stays the cell's role
ALTER ROLE regress_claims_three_b RENAME TO regress_claims_three_c;
SET LOCAL SESSION AUTHORIZATION regress_claims_three_c;
SELECT t.call($$SELECT claims.commit_update(3, t.u(205))$$);
RESET SESSION AUTHORIZATION;
-- a new role with the old name is not the cell's role
CREATE ROLE regress_claims_three_b;
SET LOCAL SESSION AUTHORIZATION regress_claims_three_b;
SELECT t.call($$SELECT claims.begin_update(3, t.creates('d'), lease_uuid => t.u(206))$$);
RESET SESSION AUTHORIZATION;
ROLLBACK;

-- one role for two cells
BEGIN;
CREATE ROLE regress_claims_three;
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_three')$$);
SELECT t.call($$SELECT claims.register_cell(4, 'regress_claims_three')$$);
SET LOCAL SESSION AUTHORIZATION regress_claims_three;
SELECT t.call($$SELECT claims.begin_update(3, t.creates('a'), lease_uuid => t.u(207))$$);
SELECT t.call($$SELECT claims.begin_update(4, t.creates('b'), lease_uuid => t.u(208))$$);
-- a lease of one cell is not a lease of the other, though they share a role
SELECT t.call($$SELECT claims.commit_update(4, t.u(207))$$);
ROLLBACK;

-- unknown roles and NULLs are refused
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_no_such_role')$$);
SELECT t.call($$SELECT claims.register_cell(NULL, 'regress_claims_one')$$);
SELECT t.call($$SELECT claims.register_cell(3, NULL)$$);
SELECT count(*) FROM claims.cells WHERE cell_id = 3;
-- an unregistered cell is unknown to an administrator and forbidden to other roles
SELECT t.call($$SELECT claims.begin_update(3, t.creates('a'))$$);
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.begin_update(3, t.creates('a'))$$);
RESET SESSION AUTHORIZATION;

-- a cell whose role was dropped: its claims stay, and only administrators act for it
BEGIN;
CREATE ROLE regress_claims_three;
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_three', 'Cell Three')$$);
SELECT t.call($$SELECT claims.begin_update(3, t.creates('orphan'), lease_uuid => t.u(210))$$);
DROP OWNED BY regress_claims_three;
DROP ROLE regress_claims_three;
SELECT t.call($$SELECT claims.commit_update(3, t.u(210))$$);
SELECT cell_id, cell_name FROM claims.get_record('ROUTES', 'orphan');
SET LOCAL SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.lease_outcome(3, t.u(210))$$);
RESET SESSION AUTHORIZATION;
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_nobody')$$);
SET LOCAL SESSION AUTHORIZATION regress_claims_nobody;
SELECT t.call($$SELECT claims.lease_outcome(3, t.u(210))$$);
RESET SESSION AUTHORIZATION;
ROLLBACK;
-- a superuser, an administrator and PUBLIC as a cell's role
BEGIN;
SELECT t.call($$SELECT claims.register_cell(3, 'postgres')$$);
SET LOCAL SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.lease_outcome(3, t.u(210))$$);
RESET SESSION AUTHORIZATION;
SELECT t.call($$SELECT claims.register_cell(4, 'public')$$);
ROLLBACK;

-- an administrator that is no superuser can register cells
SET SESSION AUTHORIZATION regress_claims_admin;
BEGIN;
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_nobody')$$);
SELECT t.call($$SELECT claims.begin_update(3, t.creates('a'), lease_uuid => t.u(209))$$);
ROLLBACK;
RESET SESSION AUTHORIZATION;
