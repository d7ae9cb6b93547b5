-- Cells and their roles.
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
SELECT t.clean();
SELECT cell_id, name, address FROM claims.cells ORDER BY cell_id;

BEGIN;
CREATE ROLE regress_claims_three;
-- nothing before it is registered
SET LOCAL SESSION AUTHORIZATION regress_claims_three;
SELECT t.call($$SELECT claims.begin_update(3, t.creates('a'), lease_uuid => t.u(200))$$);
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_three')$$);
RESET SESSION AUTHORIZATION;
-- with name and address
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_three', 'Cell Three', 'https://three.example')$$);
SELECT cell_id, name, address FROM claims.cells WHERE cell_id = 3;
-- now everything that a cell needs
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
-- but not what an admin may
SELECT t.call($$SELECT count(*) FROM claims.list_leases(NULL)$$);
SELECT t.call($$SELECT claims.register_cell(4, 'regress_claims_three')$$);
SELECT t.call($$SELECT claims.grant_read('regress_claims_three')$$);
RESET SESSION AUTHORIZATION;

-- calling it again updates it: another name, another role
CREATE ROLE regress_claims_three_b;
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_three_b', 'Cell Three B', 'https://b.example')$$);
SELECT cell_id, name, address FROM claims.cells WHERE cell_id = 3;
SELECT cell_name, cell_address FROM claims.get_record('ROUTES', 'a');
-- what is left out stays
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_three_b', address => 'https://c.example')$$);
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_three_b')$$);
SELECT cell_id, name, address FROM claims.cells WHERE cell_id = 3;
SET LOCAL SESSION AUTHORIZATION regress_claims_three;
SELECT t.call($$SELECT claims.begin_update(3, t.creates('c'), lease_uuid => t.u(204))$$);
RESET SESSION AUTHORIZATION;
SET LOCAL SESSION AUTHORIZATION regress_claims_three_b;
SELECT t.call($$SELECT claims.begin_update(3, t.creates('c'), lease_uuid => t.u(205))$$);
RESET SESSION AUTHORIZATION;

-- renaming the role changes nothing
ALTER ROLE regress_claims_three_b RENAME TO regress_claims_three_c;
SET LOCAL SESSION AUTHORIZATION regress_claims_three_c;
SELECT t.call($$SELECT claims.commit_update(3, t.u(205))$$);
RESET SESSION AUTHORIZATION;
-- and a new role of the old name is nobody
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
-- a lease of the one is not a lease of the other, whoever asks
SELECT t.call($$SELECT claims.commit_update(4, t.u(207))$$);
ROLLBACK;

-- bad input
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_no_such_role')$$);
SELECT t.call($$SELECT claims.register_cell(NULL, 'regress_claims_one')$$);
SELECT t.call($$SELECT claims.register_cell(3, NULL)$$);
SELECT count(*) FROM claims.cells WHERE cell_id = 3;
-- a cell that was dropped from the table is unknown to an admin and forbidden to its role
SELECT t.call($$SELECT claims.begin_update(3, t.creates('a'))$$);
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.begin_update(3, t.creates('a'))$$);
RESET SESSION AUTHORIZATION;

-- a cell whose role was dropped: its claims stay, administrators still act for it, nobody else does
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
-- a superuser's role, a role that is an administrator, PUBLIC
BEGIN;
SELECT t.call($$SELECT claims.register_cell(3, 'postgres')$$);
SET LOCAL SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.lease_outcome(3, t.u(210))$$);
RESET SESSION AUTHORIZATION;
SELECT t.call($$SELECT claims.register_cell(4, 'public')$$);
ROLLBACK;

-- the admin's role need not be a superuser
SET SESSION AUTHORIZATION regress_claims_admin;
BEGIN;
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_nobody')$$);
SELECT t.call($$SELECT claims.begin_update(3, t.creates('a'), lease_uuid => t.u(209))$$);
ROLLBACK;
RESET SESSION AUTHORIZATION;
