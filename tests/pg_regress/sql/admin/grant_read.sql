-- Routers read single claims and the views, and nothing else.
SELECT t.clean();
SELECT t.have(1, 'a');
-- the functions that a router may execute, all of them
SELECT p.oid::regprocedure FROM pg_proc p WHERE pronamespace = 'claims'::regnamespace
   AND has_function_privilege('regress_claims_router', p.oid, 'EXECUTE') ORDER BY proname;
-- the tables and views that a router may read, all of them
SELECT c.oid::regclass FROM pg_class c WHERE relnamespace = 'claims'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
   AND CASE relkind WHEN 'S' THEN has_sequence_privilege('regress_claims_router', c.oid, 'SELECT')
       ELSE has_any_column_privilege('regress_claims_router', c.oid, 'SELECT') END ORDER BY relname;
SELECT count(*) FROM pg_class c WHERE relnamespace = 'claims'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
   AND has_table_privilege('regress_claims_router', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE');
SET SESSION AUTHORIZATION regress_claims_router;
SELECT t.call($$SELECT bucket_value, cell_id, cell_name, cell_address FROM claims.get_record('ROUTES', 'a')$$);
SELECT t.call($$SELECT bucket_value FROM claims.get_records('[{"type": "ROUTES", "value": "a"}]')$$);
SELECT t.call($$SELECT bucket_value, status FROM claims.records$$);
SELECT t.call($$SELECT * FROM claims.claims$$);
SELECT t.call($$SELECT * FROM claims.list_records(1)$$);
SELECT t.call($$SELECT * FROM claims.list_leases(1)$$);
SELECT t.call($$SELECT * FROM claims.list_leases(NULL)$$);
SELECT t.call($$SELECT claims.lease_outcome(1, t.u(1))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('b'))$$);
SELECT t.call($$SELECT claims.rollback_update(1, t.u(1))$$);
SELECT t.call($$SELECT * FROM claims.check()$$);
SELECT t.call($$SELECT claims.purge_outcomes()$$);
SELECT t.call($$SELECT claims.grant_read('regress_claims_router')$$);
RESET SESSION AUTHORIZATION;
-- only administrators may grant; unknown roles are refused
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.grant_read('regress_claims_one')$$);
RESET SESSION AUTHORIZATION;
SELECT t.call($$SELECT claims.grant_read('regress_claims_no_such_role')$$);
SELECT t.call($$SELECT claims.grant_read(NULL)$$);
SET SESSION AUTHORIZATION regress_claims_admin;
BEGIN;
SELECT t.call($$SELECT claims.grant_read('regress_claims_nobody')$$);
SELECT has_function_privilege('regress_claims_nobody', 'claims.get_record(text, text)', 'EXECUTE');
ROLLBACK;
-- granting twice does nothing
SELECT t.call($$SELECT claims.grant_read('regress_claims_router')$$);
RESET SESSION AUTHORIZATION;
