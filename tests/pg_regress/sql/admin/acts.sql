-- Admin actions on leases and cells that block others. Leases 52xx.
SELECT t.clean();
SELECT t.have(1, 'old', 'swap', 'stays'); SELECT t.have(2, 'other');
SELECT claims.begin_update(1, t.creates('new', 'swap'), t.destroys('old', 'swap'), t.u(5200), '7');
SELECT claims.begin_update(2, t.creates('theirs'), lease_uuid => t.u(5201));

-- lease_details finds a lease by its uuid and by a bucket that it holds
CREATE FUNCTION t.details(args text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE 'SELECT concat_ws('' | '', d.lease_uuid, d.cell_id, d.cell_name, d.role_name, d.age BETWEEN ''0'' AND ''1 h'',
        d.created_at < now() + interval ''1 h'', d.cell_xid,
        (SELECT string_agg(r #>> ''{bucket,value}'', '' '' ORDER BY n) FROM jsonb_array_elements(d.creates) WITH ORDINALITY e(r, n)),
        (SELECT string_agg(r #>> ''{bucket,value}'', '' '' ORDER BY n) FROM jsonb_array_elements(d.destroys) WITH ORDINALITY e(r, n)))
        FROM claims.lease_details(' || args || ') d';
END $$;
SELECT t.details('t.u(5200)');
SELECT t.details('bucket_type => ''ROUTES'', bucket_value => ''old''') = t.details('t.u(5200)'),
    t.details('NULL, ''1'', ''new''') = t.details('t.u(5200)');
SELECT t.details('t.u(5201)');
-- lease_details returns no row for an unknown lease, a bucket without a lease and an unknown bucket
SELECT t.details('t.u(5299)'); SELECT t.details('NULL, ''ROUTES'', ''stays'''); SELECT t.details('NULL, ''ROUTES'', ''no such''');
-- lease_details refuses arguments that name neither one lease nor one bucket
SELECT t.call('SELECT * FROM claims.lease_details()');
SELECT t.call('SELECT * FROM claims.lease_details(bucket_type => ''ROUTES'')');
SELECT t.call('SELECT * FROM claims.lease_details(bucket_value => ''x'')');
SELECT t.call('SELECT * FROM claims.lease_details(t.u(1), ''ROUTES'', ''x'')');
SELECT t.call('SELECT * FROM claims.lease_details(NULL, ''NO_SUCH'', ''x'')');
-- a cell sees its own leases only; a router sees none; an administrator sees all
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.details('t.u(5200)'); SELECT t.details('t.u(5201)'); SELECT t.details('NULL, ''ROUTES'', ''theirs''');
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_claims_router;
SELECT t.call('SELECT * FROM claims.lease_details(t.u(5200))');
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_claims_admin;
SELECT t.details('t.u(5201)');
RESET SESSION AUTHORIZATION;

-- force_rollback refuses another cell's lease, an unknown lease, NULLs and a caller that is no administrator
SELECT t.call($$SELECT claims.force_rollback(2, t.u(5200), 'test')$$);
SELECT t.call($$SELECT claims.force_rollback(1, t.u(5299), 'test')$$);
SELECT t.call($$SELECT claims.force_rollback(NULL, t.u(5200), 'test')$$);
SELECT t.call($$SELECT claims.force_rollback(1, NULL, 'test')$$);
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.force_rollback(1, t.u(5200), 'test')$$);
RESET SESSION AUTHORIZATION;
-- force_rollback frees the creates, gives the destroys back and is recorded in admin_log
SET SESSION AUTHORIZATION regress_claims_admin;
SELECT claims.force_rollback(1, t.u(5200), 'its cell is gone');
RESET SESSION AUTHORIZATION;
SELECT * FROM t.state();
SELECT claims.lease_outcome(1, t.u(5200));
SELECT t.call($$SELECT claims.force_rollback(1, t.u(5200), 'again')$$);
SELECT t.call($$SELECT claims.commit_update(1, t.u(5200))$$);
SELECT action, arguments, reason FROM claims.admin_log WHERE action = 'force_rollback' ORDER BY id DESC LIMIT 1;
-- a refused force_rollback leaves no fence: the uuid can still be used
SELECT t.call($$SELECT claims.rollback_update(1, claims.begin_update(1, t.creates('x'), lease_uuid => t.u(5299)))$$);

-- remove_cell refuses a cell that has claims
SELECT t.call($$SELECT claims.remove_cell(2, 'gone')$$);
-- release_records counts with dry_run and refuses a NULL cell and a limit that is no positive number
SELECT claims.release_records(1, 'a look', dry_run => true);
SELECT t.call('SELECT * FROM claims.release_records(1, ''x'', 0)');
SELECT t.call('SELECT * FROM claims.release_records(NULL, ''x'')');
SELECT t.call('SELECT * FROM claims.release_records(1, ''x'', NULL)');
-- release_records works in portions and leaves what a lease holds; remove_cell succeeds when nothing is left
BEGIN;
CREATE ROLE regress_claims_gone;
SELECT claims.register_cell(7, 'regress_claims_gone', 'Gone');
SELECT t.have(7, 'g1', 'g2', 'g3', 'g4', 'g5');
SELECT claims.begin_update(7, t.creates('g6'), t.destroys('g5'), t.u(5210));
SELECT claims.set_mode('read_only', 'its disks burnt', 7);
SELECT claims.release_records(7, 'its disks burnt', 3), claims.release_records(7, 'its disks burnt', 3),
    claims.release_records(7, 'its disks burnt', 3);
SELECT claim, status FROM t.state() WHERE cell = 7;
SELECT t.call($$SELECT claims.remove_cell(7, 'gone')$$);
SELECT claims.force_rollback(7, t.u(5210), 'its disks burnt') -> 'freed' #> '{0,bucket}';
SELECT t.call($$SELECT claims.remove_cell(7, 'gone')$$);
SELECT claims.release_records(7, 'its disks burnt'), claims.release_records(7, 'its disks burnt');
SELECT count(*) FROM t.state() WHERE cell <> 7;
SELECT claims.remove_cell(7, 'its disks burnt');
SELECT count(*) FROM claims.list_cells() WHERE cell_id = 7;
SELECT count(*) FROM claims.modes WHERE cell_id = 7;
-- the role of a removed cell has no privileges and can be dropped
SELECT has_schema_privilege('regress_claims_gone', 'claims', 'USAGE'),
    has_function_privilege('regress_claims_gone', 'claims.begin_update(bigint, jsonb, jsonb, uuid, xid8, boolean)', 'EXECUTE');
DROP ROLE regress_claims_gone;
-- a cell cannot be removed twice, and admin_log lists the actions on it
SELECT t.call($$SELECT claims.remove_cell(7, 'again')$$);
SELECT action, arguments FROM claims.admin_log WHERE arguments @> '{"cell_id": 7}' AND action <> 'register_cell' ORDER BY id;
ROLLBACK;
-- release_records warns while the cell may still begin leases
BEGIN;
SELECT claims.release_records(1, 'test');
ROLLBACK;
-- release_records and force_rollback work for a cell that is not registered any more
BEGIN;
CREATE ROLE regress_claims_gone;
SELECT claims.register_cell(7, 'regress_claims_gone'), t.have(7, 'g1'), claims.begin_update(7, t.creates('g2'), lease_uuid => t.u(5211));
DELETE FROM claims.cells WHERE cell_id = 7;
SELECT claims.force_rollback(7, t.u(5211), 'test') ->> 'cell_id', claims.release_records(7, 'test');
SELECT count(*) FROM claims.check();
ROLLBACK;
-- a role that also represents another cell keeps the privileges of cells
BEGIN;
SELECT claims.register_cell(7, 'regress_claims_one'), claims.remove_cell(7, 'test');
SELECT has_function_privilege('regress_claims_one', 'claims.begin_update(bigint, jsonb, jsonb, uuid, xid8, boolean)', 'EXECUTE');
ROLLBACK;
-- cells and routers may not call the admin actions
SELECT r, s, left(c, 5) FROM unnest('{regress_claims_one,regress_claims_router}'::name[]) r,
    unnest(ARRAY['release_records(1, ''x'')', 'remove_cell(1, ''x'')', 'force_rollback(1, t.u(1), ''x'')']) s,
    LATERAL (SELECT set_config('role', r, true)) i, t.call('SELECT claims.' || s) c WHERE c !~ '^ ';
DROP FUNCTION t.details;
SELECT t.clean();
