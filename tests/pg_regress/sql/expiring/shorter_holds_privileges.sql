-- Privileges on expiring claims and requests: workers all kinds and queues, administrators the rest, PUBLIC nothing.
DELETE FROM claims.expiring_claims;
DELETE FROM claims.requests;
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_claims_worker;
RESET client_min_messages;
CREATE ROLE regress_claims_worker;
CREATE FUNCTION pg_temp.states(VARIADIC statements text[]) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT q.s || ' -> ' || c FROM unnest(statements) WITH ORDINALITY q(s, n), t.call('SELECT ' || q.s) c WHERE c NOT LIKE '  %' ORDER BY n $$;
\set workers ' \'claims.acquire_expiring(\'\'k\'\', \'\'c\'\', \'\'1 min\'\') IS NULL\', '
\set workers :workers '\'claims.renew_expiring(\'\'k\'\', \'\'c\'\', \'\'1 min\'\') IS NULL\', '
\set workers :workers '\'claims.held_expiring(\'\'k\'\', \'\'c\'\') IS NULL\', \'claims.assert_held(\'\'k\'\', \'\'a\'\', 0)\', '
\set workers :workers '\'claims.release_expiring(\'\'k\'\', \'\'c\'\')\', '
\set workers :workers '\'claims.enqueue_request(\'\'q\'\', \'\'e\'\', \'\'update\'\') > 0\', '
\set workers :workers '\'count(*) FROM claims.take_requests(\'\'q\'\', t.u(1))\', '
\set workers :workers '\'count(*) FROM claims.take_requests(\'\'q\'\', t.u(1), 0, \'\'1 min\'\')\', '
\set workers :workers '\'claims.extend_requests(t.u(1), \'\'1 min\'\')\', \'claims.settle_requests(t.u(1))\', '
\set workers :workers '\'claims.retry_requests(\'\'q\'\', \'\'e\'\')\' '
\set admins ' \'claims.add_expiring(\'\'k\'\', \'\'{a}\'\')\', \'claims.remove_expiring(\'\'k\'\', \'\'{b}\'\')\', '
\set admins :admins '\'claims.purge_requests(\'\'q\'\', \'\'1 day\'\')\', \'claims.grant_worker(\'\'regress_claims_worker\'\')\' '
\set internals ' \'claims.change_request_triggers(10, \'\'q\'\', \'\'w\'\', true)\' '
-- a role without privileges, a cell and a router may call nothing
SET ROLE regress_claims_nobody;
SELECT pg_temp.states(:workers);
RESET ROLE;
SET ROLE regress_claims_one;
SELECT pg_temp.states(:workers, :admins);
RESET ROLE;
SET ROLE regress_claims_router;
SELECT pg_temp.states(:workers);
RESET ROLE;
-- an administrator that is no superuser
SET ROLE regress_claims_admin;
SELECT pg_temp.states(:admins);
RESET ROLE;
SELECT claims.add_expiring('k', '{a}');
-- a worker
SET ROLE regress_claims_worker;
SELECT pg_temp.states(:workers);
SELECT pg_temp.states(:admins);
SELECT pg_temp.states(:internals);
SELECT count(*) FROM claims.requests;
SELECT count(*) FROM claims.expiring_claims;
-- a worker reads both tables, and writes neither; it cannot use the claims of cells
INSERT INTO claims.requests (queue, entity, request_type) VALUES ('q', 'x', 'update');
UPDATE claims.requests SET status = 'new';
DELETE FROM claims.requests;
UPDATE claims.expiring_claims SET claimant = 'me';
SELECT nextval('claims.expiring_tokens');
SELECT count(*) FROM claims.claims;
SELECT claims.begin_update(1, t.creates('a'));
RESET ROLE;
-- DETAIL and HINT of a refusal
SET ROLE regress_claims_worker;
SELECT t.call('SELECT claims.purge_requests(''q'', ''1 day'')');
-- only administrators, also through a function that may execute them: the role that calls it counts
RESET ROLE;
CREATE FUNCTION t.as_owner(statement text) RETURNS text LANGUAGE sql SECURITY DEFINER AS $$ SELECT t.state_of('SELECT claims.' || statement) $$;
SELECT r, s, t.as_owner(s)
  FROM unnest(ARRAY['add_expiring(''k'', ''{z}'')', 'remove_expiring(''k'', ''{z}'')', 'purge_requests(''q'', ''1 day'')']) s,
    (VALUES (current_user)) v(r);
SET SESSION AUTHORIZATION regress_claims_worker;
SELECT s, t.as_owner(s) FROM unnest(ARRAY['add_expiring(''k'', ''{z}'')', 'remove_expiring(''k'', ''{z}'')', 'purge_requests(''q'', ''1 day'')']) s;
RESET SESSION AUTHORIZATION;
DROP FUNCTION t.as_owner;
-- capturing is for the table's owner and administrators
CREATE TABLE t.mine (id int PRIMARY KEY, entity text);
ALTER TABLE t.mine OWNER TO regress_claims_worker;
CREATE TABLE t.theirs (id int PRIMARY KEY, entity text);
GRANT ALL ON t.theirs TO regress_claims_worker, regress_claims_nobody;
SET ROLE regress_claims_worker;
SELECT t.call('SELECT claims.capture_requests(''t.mine'', ''q'', ''entity'')');
SELECT t.call('SELECT claims.capture_requests(''t.theirs'', ''q'', ''entity'')');
SELECT t.call('SELECT claims.uncapture_requests(''t.theirs'', ''q'')');
RESET ROLE;
SELECT t.call('SELECT claims.capture_requests(''t.theirs'', ''captured'', ''entity'')');
-- a role that may write the table enqueues its requests, and may do nothing else
SET ROLE regress_claims_nobody;
INSERT INTO t.theirs VALUES (1, 'one');
SELECT claims.enqueue_request('captured', 'one', 'update');
RESET ROLE;
SELECT queue, entity, payload FROM claims.requests WHERE queue = 'captured';
-- no function is executable by PUBLIC, all pin their search_path if SECURITY DEFINER, and all have comments
SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'claims'::regnamespace
   AND (has_function_privilege('regress_claims_nobody', p.oid, 'EXECUTE') AND p.proname <> 'canonical_form'
     OR obj_description(p.oid, 'pg_proc') IS NULL
        OR (p.prosecdef AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)));
-- grant_worker can be repeated; the functions that it grants
SELECT claims.grant_worker('regress_claims_worker');
SELECT string_agg(p.proname, ' ' ORDER BY p.proname) FROM pg_proc p WHERE p.pronamespace = 'claims'::regnamespace
    AND has_function_privilege('regress_claims_worker', p.oid, 'EXECUTE') AND p.proname <> 'canonical_form';
DROP TABLE t.theirs, t.mine;
DELETE FROM claims.expiring_claims;
DELETE FROM claims.requests;
DROP OWNED BY regress_claims_worker;
DROP ROLE regress_claims_worker;
