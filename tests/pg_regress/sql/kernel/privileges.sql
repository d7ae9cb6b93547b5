-- What each role may do, with real roles.
SELECT t.clean();
SELECT t.have(1, 'a'); SELECT t.have(2, 'b');
SELECT claims.begin_update(1, t.creates('c'), lease_uuid => t.u(2400)), claims.begin_update(2, t.creates('d'), lease_uuid => t.u(2401));
-- t.calls() makes every call that names a cell, and lists the results
CREATE FUNCTION t.calls(cell bigint, lease uuid) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT split_part(s, '(', 1) || ': ' || string_agg(CASE WHEN c LIKE 'ok%' THEN 'ok' ELSE c END, ' ') FROM unnest(ARRAY[
        format('begin_update(%s, t.creates(''e'' || %s), lease_uuid => t.u(2410 + %s))', cell, cell, cell),
        format('try_begin_update(%s, t.creates(''e'' || %s), lease_uuid => t.u(2410 + %s))', cell, cell, cell),
        format('rollback_update(%s, t.u(2410 + %s))', cell, cell),
        format('commit_update(%s, %L)', cell, lease),
        format('lease_outcome(%s, %L)', cell, lease),
        format('settle_leases(%s, ARRAY[%L::uuid])', cell, lease),
        format('list_leases(%s)', cell),
        format('list_records(%s)', cell)]) WITH ORDINALITY u(s, n), t.call('SELECT * FROM claims.' || s) c GROUP BY s, n ORDER BY n $$;
CREATE FUNCTION t.undone(role name, cell bigint, lease uuid) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE r text[];
BEGIN
    BEGIN
        EXECUTE format('SET LOCAL SESSION AUTHORIZATION %I', role);
        r := ARRAY(SELECT t.calls(cell, lease));
        RAISE SQLSTATE 'ZZ000';
    EXCEPTION WHEN SQLSTATE 'ZZ000' THEN NULL;
    END;
    RETURN QUERY SELECT unnest(r);
END $$;
-- a cell calls for itself
SELECT t.undone('regress_claims_one', 1, t.u(2400));
-- a cell calls for another cell
SELECT t.undone('regress_claims_one', 2, t.u(2401));
SELECT t.undone('regress_claims_two', 1, t.u(2400));
-- a cell calls for a cell that is not registered
SELECT t.undone('regress_claims_one', 77, t.u(2401));
-- administrators call for any cell, also for one that is not registered
SELECT t.undone('regress_claims_admin', 1, t.u(2400));
SELECT t.undone('regress_claims_admin', 77, t.u(2400));
SELECT t.undone('postgres', 77, t.u(2400));
-- a role without privileges and a router call for a cell
SELECT t.undone('regress_claims_nobody', 1, t.u(2400));
SELECT t.undone('regress_claims_router', 1, t.u(2400));

-- an inheriting member has the cell's privileges; another member has them after SET ROLE
BEGIN;
CREATE ROLE regress_claims_member INHERIT;
CREATE ROLE regress_claims_noinherit NOINHERIT;
GRANT regress_claims_one TO regress_claims_member, regress_claims_noinherit;
GRANT regress_claims_one TO regress_claims_two;
SAVEPOINT s;
SET LOCAL SESSION AUTHORIZATION regress_claims_member;
SELECT t.calls(1, t.u(2400));
SELECT t.call($$SELECT claims.commit_update(2, t.u(2401))$$);
ROLLBACK TO s;
SET LOCAL SESSION AUTHORIZATION regress_claims_noinherit;
SELECT t.calls(1, t.u(2400));
SET LOCAL ROLE regress_claims_one;
SELECT t.calls(1, t.u(2400));
ROLLBACK TO s;
-- a cell that is a member of another cell's role calls for both, and each lease stays with its cell
SET LOCAL SESSION AUTHORIZATION regress_claims_two;
SELECT t.call($$SELECT claims.commit_update(1, t.u(2401))$$);
SELECT t.call($$SELECT claims.commit_update(2, t.u(2400))$$);
SELECT t.call($$SELECT claims.commit_update(1, t.u(2400))$$);
SELECT t.call($$SELECT claims.begin_update(2, '[]', t.destroys('a'))$$);
ROLLBACK TO s;
-- a member of the administrator's role without inheritance is an administrator after SET ROLE
CREATE ROLE regress_claims_clerk NOINHERIT;
GRANT regress_claims_admin TO regress_claims_clerk;
SET LOCAL SESSION AUTHORIZATION regress_claims_clerk;
SELECT t.call($$SELECT claims.register_cell(5, 'regress_claims_clerk')$$);
SET LOCAL ROLE regress_claims_admin;
SELECT t.call($$SELECT claims.register_cell(5, 'regress_claims_clerk')$$);
ROLLBACK;

-- a superuser that did SET ROLE to a cell is that cell
SET ROLE regress_claims_one;
SELECT t.call($$SELECT claims.commit_update(2, t.u(2401))$$);
SELECT t.call($$SELECT claims.list_leases(NULL)$$);
SELECT t.call($$SELECT claims.lease_outcome(1, t.u(2400))$$);
RESET ROLE;

-- the current role outside of all SECURITY DEFINER functions counts
CREATE FUNCTION t.as_owner(statement text) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY SELECT t.call(statement);
END $$;
CREATE FUNCTION t.as_two(statement text) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY SELECT t.call(statement);
END $$;
ALTER FUNCTION t.as_two(text) OWNER TO regress_claims_two;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.as_owner($$SELECT claims.lease_outcome(1, t.u(2400))$$);
SELECT t.as_owner($$SELECT claims.lease_outcome(2, t.u(2401))$$);
SELECT t.as_owner($$SELECT claims.list_leases(NULL)$$);
SELECT t.as_owner($$SELECT claims.purge_outcomes()$$);
SELECT t.as_owner($$SELECT claims.purge_fences()$$);
SELECT t.as_owner($$SELECT claims.register_cell(1, 'regress_claims_nobody')$$);
SELECT t.as_two($$SELECT claims.lease_outcome(2, t.u(2401))$$);
SELECT t.as_two($$SELECT claims.lease_outcome(1, t.u(2400))$$);
RESET SESSION AUTHORIZATION;

-- no setting changes the caller's identity
SET SESSION AUTHORIZATION regress_claims_one;
BEGIN;
SELECT t.call(format('SELECT set_config(%L, %L, true)', s, v))
  FROM unnest(ARRAY['claims.cell_id', 'claims.cell', 'claims.role', 'claims.role_name', 'claims.admin', 'claims.is_admin', 'claims.caller',
        'claims.current_cell']) s, unnest(ARRAY['2']) v;
SELECT t.calls(2, t.u(2401));
SELECT t.call($$SELECT claims.list_leases(NULL)$$);
ROLLBACK;
-- no setting of the extension that a cell may change gives it a right
BEGIN;
SELECT count(c) > 0 FROM pg_settings, t.call(format('SET LOCAL %s = %L', name, coalesce(max_val, 'on'))) c WHERE name LIKE 'claims.%';
SELECT t.calls(2, t.u(2401));
ROLLBACK;
RESET SESSION AUTHORIZATION;

-- the caller is the same in a parallel worker
\set SHOW_CONTEXT never
BEGIN;
SELECT set_config(name, 'on', true) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SET LOCAL SESSION AUTHORIZATION regress_claims_one;
SELECT bucket_value FROM claims.list_records(1);
SELECT bucket_value FROM claims.get_record('ROUTES', 'b');
SELECT t.call($$SELECT bucket_value FROM claims.list_records(2)$$);
SELECT claims.lease_outcome(1, t.u(2400));
SAVEPOINT s;
SELECT bucket_value FROM claims.list_records(2);
ROLLBACK TO s;
SELECT claims.list_leases(NULL);
ROLLBACK;
\set SHOW_CONTEXT errors

-- cells, routers and other roles cannot read or write tables
CREATE FUNCTION t.as_role(role name, statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET LOCAL SESSION AUTHORIZATION %I', role);
    RETURN QUERY SELECT t.call(statement);
    RESET SESSION AUTHORIZATION;
END $$;
SELECT r, left(c, 5), count(*) FROM unnest('{regress_claims_one,regress_claims_router,regress_claims_nobody}'::name[]) r,
    unnest(ARRAY['SELECT 1 FROM claims.claims', 'SELECT 1 FROM claims.claim_leases', 'SELECT 1 FROM claims.cells',
        'DELETE FROM claims.claims', 'UPDATE claims.claims SET status = 1',
        'DELETE FROM claims.claim_leases', 'INSERT INTO claims.cells (cell_id) VALUES (9)', 'TRUNCATE claims.claims', 'LOCK claims.claims',
        'INSERT INTO claims.bucket_types VALUES (9, ''X'')', 'DROP TABLE claims.claims', 'CREATE TABLE claims.x ()',
        'ALTER FUNCTION claims.commit_update(bigint, uuid) OWNER TO regress_claims_one']) s, t.as_role(r, s) c
          WHERE c !~ '^ ' GROUP BY 1, 2 ORDER BY 1, 2;
-- only administrators change privileges, whoever may execute the functions
BEGIN;
GRANT USAGE ON SCHEMA claims TO regress_claims_nobody;
GRANT EXECUTE ON FUNCTION claims.grant_read(name), claims.grant_worker(name), claims.grant_monitor(name), claims.revoke_read(name),
    claims.revoke_worker(name), claims.revoke_monitor(name) TO regress_claims_nobody;
SELECT f, c FROM unnest('{grant_read,grant_worker,grant_monitor,revoke_read,revoke_worker,revoke_monitor}'::text[]) WITH ORDINALITY AS u(f, n),
    LATERAL (SELECT c FROM t.as_role('regress_claims_nobody', format('SELECT claims.%s(''regress_claims_nobody'')', f)) c
      WHERE c !~ '^ ') s ORDER BY n;
ROLLBACK;
-- PUBLIC is granted one function, which indexes call, and nothing else
SELECT 'function', p.oid::regprocedure::text, a.privilege_type FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
 WHERE p.pronamespace = 'claims'::regnamespace AND a.grantee = 0
UNION ALL SELECT 'schema', n.nspname, a.privilege_type FROM pg_namespace n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
 WHERE n.nspname = 'claims' AND a.grantee = 0
UNION ALL SELECT 'relation', c.relname, a.privilege_type
  FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner))) a
 WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND a.grantee = 0
UNION ALL SELECT 'column', c.relname || '.' || t.attname, a.privilege_type
  FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid, aclexplode(t.attacl) a
 WHERE c.relnamespace = 'claims'::regnamespace AND a.grantee = 0
UNION ALL SELECT 'wrapper', w.fdwname, a.privilege_type
  FROM pg_foreign_data_wrapper w, aclexplode(coalesce(w.fdwacl, acldefault('F', w.fdwowner))) a
 WHERE w.fdwname = 'claims_service' AND a.grantee = 0;
-- a role without privileges reads nothing
SELECT c FROM t.as_role('regress_claims_nobody', $$SELECT * FROM claims.get_record('ROUTES', 'a')$$) c;
SELECT c FROM t.as_role('regress_claims_nobody', $$SELECT * FROM claims.records$$) c;
-- another cell's lease and one that never existed give the same errors
SELECT replace(a::text, '2401', 'N') = replace(b::text, '2499', 'N')
  FROM (SELECT ARRAY(SELECT t.as_role('regress_claims_one', $$SELECT claims.commit_update(1, t.u(2401))$$)) a,
      ARRAY(SELECT t.as_role('regress_claims_one', $$SELECT claims.commit_update(1, t.u(2499))$$)) b) s;
SELECT outcome, settled, count(*) FROM claims.settle_leases(1, ARRAY[t.u(2401), t.u(2499)]) GROUP BY 1, 2;
SELECT * FROM t.state();
-- a uuid that another cell has fenced has no outcome in this cell, which must use another uuid
BEGIN;
SET LOCAL SESSION AUTHORIZATION regress_claims_two;
SELECT claims.rollback_update(2, t.u(2450));
SET LOCAL SESSION AUTHORIZATION regress_claims_one;
SELECT claims.lease_outcome(1, t.u(2450)) IS NULL;
SELECT outcome IS NULL, settled FROM claims.settle_leases(1, ARRAY[t.u(2450)]);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('w'), lease_uuid => t.u(2450))$$);
SELECT t.call($$SELECT claims.commit_update(1, t.u(2450))$$);
ROLLBACK;
-- not prevented: a cell's function that an administrator calls acts as the administrator, within what the cell may execute
SET SESSION AUTHORIZATION regress_claims_admin;
SELECT left(t.as_two($$SELECT count(*) FROM claims.list_leases(NULL)$$), 2);
SELECT t.as_two($$SELECT claims.purge_outcomes()$$);
RESET SESSION AUTHORIZATION;
-- the error as the client sees it
SET SESSION AUTHORIZATION regress_claims_one;
SELECT claims.begin_update(2, t.creates('x'));
SELECT claims.list_leases(NULL);
SELECT claims.register_cell(9, 'regress_claims_one');
SELECT 1;
RESET SESSION AUTHORIZATION;
DROP FUNCTION t.calls, t.undone, t.as_owner, t.as_two, t.as_role;
SELECT count(*) FROM claims.check();
