-- Attributes of cells, which routers read.
SELECT t.clean();
BEGIN;
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_nobody', 'three',
        attributes => '{"session_prefix": "cell-3", "sequences": [1000, 1999]}')$$);
-- register_cell keeps the attributes that it is not given
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_nobody', address => 'https://three.example')$$);
SELECT * FROM claims.list_cells();
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_nobody', attributes => '{}')$$);
SELECT * FROM claims.list_cells() WHERE cell_id = 3;
SELECT t.call($$SELECT claims.register_cell(0, 'regress_claims_nobody')$$);
ROLLBACK;
-- invalid ids, attributes and names are refused
SELECT t.call($$SELECT claims.register_cell(-1, 'regress_claims_nobody')$$);
SELECT t.call($$SELECT claims.register_cell(-9223372036854775808, 'regress_claims_nobody')$$);
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_nobody', attributes => '[]')$$);
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_nobody', attributes => '"x"')$$);
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_nobody', attributes => jsonb_build_object('x', repeat('x', 65536)))$$);
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_nobody',
        attributes => ('{"x":' || repeat('[', 200) || repeat(']', 200) || '}')::jsonb)$$);
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_nobody', repeat('x', 1025))$$);
SELECT t.call($$SELECT claims.register_cell(3, 'regress_claims_nobody', address => repeat('x', 1025))$$);
SELECT count(*) FROM claims.cells WHERE cell_id NOT IN (1, 2);
-- cells read the list of cells; a role without privileges does not
SET SESSION AUTHORIZATION regress_claims_one;
SELECT * FROM claims.list_cells();
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_claims_router;
SELECT count(*) FROM claims.list_cells();
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_claims_nobody;
SELECT t.call($$SELECT * FROM claims.list_cells()$$);
RESET SESSION AUTHORIZATION;
-- an owner that was a cell's role keeps its own privileges
BEGIN;
SELECT has_function_privilege('postgres', 'claims.begin_update(bigint, jsonb, jsonb, uuid, xid8, boolean)', 'EXECUTE') AS superuser;
SELECT t.call($$SELECT claims.register_cell(3, 'postgres'), claims.register_cell(3, 'regress_claims_nobody')$$);
SELECT bool_and(EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = p.proowner))
  FROM pg_proc p WHERE p.pronamespace = 'claims'::regnamespace;
ROLLBACK;
