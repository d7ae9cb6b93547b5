-- reconcile with a service in the same database. Leases 41xx.
SELECT t.clean(), t.no_leases();
-- an unknown server is refused
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'regress_claims_service')$$);
CREATE EXTENSION postgres_fdw;
CREATE FUNCTION t.server(name text, wrapper text, host text DEFAULT current_setting('unix_socket_directories'),
      port text DEFAULT current_setting('port')) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE SERVER %I FOREIGN DATA WRAPPER %s OPTIONS (host %L, port %L, dbname %L)', name, wrapper, host, port, current_database());
END $$;
-- servers of claims_service and of other wrappers
CREATE SCHEMA "where dblink is";
CREATE EXTENSION dblink SCHEMA "where dblink is";
SELECT t.server('regress_claims_service', 'claims_service'), t.server('regress_claims_postgres', 'postgres_fdw');
SELECT t.server('Regress Claims'' "Service', 'dblink_fdw'), t.server('regress_claims_unmapped', 'claims_service'),
    t.server('regress_claims_gone', 'claims_service', '/nowhere', '1');
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_postgres OPTIONS (user 'postgres');
CREATE FOREIGN DATA WRAPPER regress_claims_other;
CREATE SERVER regress_claims_other FOREIGN DATA WRAPPER regress_claims_other;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_service OPTIONS (user 'postgres');
CREATE USER MAPPING FOR postgres SERVER "Regress Claims' ""Service" OPTIONS (user 'postgres');
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_gone OPTIONS (user 'postgres');
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_other;
-- servers of other wrappers can be used after add_service
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'regress_claims_postgres')$$);
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'Regress Claims'' "Service')$$);
SELECT claims.add_service('regress_claims_postgres', 'a service'), claims.add_service('Regress Claims'' "Service', 'another one');
-- connection strings and other texts that are no server's name are refused
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'dbname=postgres')$$);
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'postgresql://localhost/postgres')$$);
SELECT t.call($$SELECT * FROM claims.reconcile(1, '')$$);
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'regress_claims_other')$$);
SELECT t.call($$SELECT * FROM claims.reconcile(1, repeat('x', 1000))$$);
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'REGRESS_CLAIMS_SERVICE')$$);
-- a server of another owner is refused: its answers would decide about claims
GRANT USAGE ON FOREIGN DATA WRAPPER claims_service TO regress_claims_one;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.server('regress_claims_his_own', 'claims_service', '/nowhere', '1');
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_his_own OPTIONS (user 'postgres');
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'regress_claims_his_own')$$);
SELECT t.call($$SELECT * FROM claims.automatic(1, 'regress_claims_his_own')$$);
RESET SESSION AUTHORIZATION;
ALTER SERVER regress_claims_his_own OWNER TO postgres;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'regress_claims_his_own')$$);
RESET SESSION AUTHORIZATION;
DROP SERVER regress_claims_his_own CASCADE;
REVOKE USAGE ON FOREIGN DATA WRAPPER claims_service FROM regress_claims_one;
-- invalid arguments are refused
SELECT t.call($$SELECT * FROM claims.reconcile(NULL, 'regress_claims_service')$$);
SELECT t.call($$SELECT * FROM claims.reconcile(1, NULL)$$);
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'regress_claims_service', NULL)$$);
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'regress_claims_service', max_results => NULL)$$);
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'regress_claims_service', max_results => 0)$$);
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'regress_claims_service', max_results => 10001)$$);
SELECT t.call($$SELECT * FROM claims.reconcile(77, 'regress_claims_service')$$);
-- no user mapping, or a service that cannot be reached: errors, and nothing is changed
SELECT t.state_of($$SELECT * FROM claims.reconcile(1, 'regress_claims_unmapped')$$);
SELECT claims.track_lease(t.u(4100));
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'regress_claims_gone')$$);
SELECT t.tracked(), t.fences();
SELECT claims.forget_leases(ARRAY[t.u(4100)]);

-- nothing is outstanding
SELECT * FROM claims.reconcile(1, 'regress_claims_service');
SELECT * FROM claims.reconcile(1, 'regress_claims_postgres');
-- a tracked lease is committed; a young one and another cell's are left alone
SELECT claims.begin_update(1, t.creates('tracked'), lease_uuid => t.u(4101)), claims.track_lease(t.u(4101));
SELECT claims.begin_update(1, t.creates('young'), lease_uuid => t.u(4102));
SELECT claims.begin_update(2, t.creates('other'), lease_uuid => t.u(4103));
SELECT * FROM claims.reconcile(1, 'Regress Claims'' "Service');
SELECT t.tracked(), t.fences();
SELECT * FROM t.state();
-- a stale lease is fenced by one pass and rolled back by the next
SELECT * FROM claims.reconcile(1, 'regress_claims_service', '0');
SELECT t.fences();
SELECT * FROM t.state();
SELECT * FROM claims.reconcile(1, 'regress_claims_service', '0');
SELECT * FROM t.state();
SELECT * FROM claims.reconcile(1, 'regress_claims_service', '0');
-- a lease whose local transaction is known to have ended is rolled back at once
BEGIN; SELECT pg_current_xact_id() AS xid \gset
ROLLBACK;
SELECT claims.begin_update(1, t.creates('ended'), lease_uuid => t.u(4104), cell_xid => :'xid');
SELECT * FROM claims.reconcile(1, 'regress_claims_service');
SELECT * FROM t.state();
-- pages of one lease each
CREATE FUNCTION t.leases_for_pages(first int) RETURNS void LANGUAGE sql AS $$
    SELECT claims.begin_update(1, t.creates('p' || first + n), lease_uuid => t.u(first + n)) FROM generate_series(1, 9) n;
    SELECT claims.track_lease(t.u(first + n)) FROM generate_series(1, 5) n $$;
SELECT t.leases_for_pages(4200);
SELECT * FROM claims.reconcile(1, 'regress_claims_service', '0', 2);
SELECT * FROM claims.reconcile(1, 'regress_claims_service', '0', 3);
SELECT t.leases_for_pages(4210);
SELECT * FROM claims.reconcile(1, 'regress_claims_service', '0', 1);
SELECT * FROM claims.reconcile(1, 'regress_claims_service', '0', 9);
SELECT t.leases(), t.tracked(), (SELECT count(*) FROM claims.check());

-- a committed lease that is only tracked is forgotten; rolled-back and unknown ones are orphans in every pass
SELECT claims.commit_update(1, claims.begin_update(1, t.creates('done'), lease_uuid => t.u(4300))), claims.track_lease(t.u(4300));
SELECT claims.rollback_update(1, claims.begin_update(1, t.creates('undone'), lease_uuid => t.u(4301))), claims.track_lease(t.u(4301));
SELECT claims.track_lease(t.u(4302));
SELECT * FROM claims.reconcile(1, 'regress_claims_service');
SELECT t.tracked();
SELECT * FROM claims.reconcile(1, 'regress_claims_service', max_results => 1);
SELECT claims.forget_leases(ARRAY[t.u(4301), t.u(4302)]);
-- leases that another cell of the database tracks are no orphans of this cell
SET SESSION AUTHORIZATION regress_claims_two; SELECT claims.track_lease(t.u(4303)); RESET SESSION AUTHORIZATION;
SELECT * FROM claims.reconcile(1, 'regress_claims_service');
SELECT orphaned FROM claims.reconcile(2, 'regress_claims_service');
SELECT claims.forget_leases(ARRAY[t.u(4303)]);

-- one lease fails among many: the others are settled
SELECT t.clean();
SELECT t.leases_for_pages(4310);
DELETE FROM claims.claims WHERE bucket_value = 'p4313';
SELECT * FROM claims.reconcile(1, 'regress_claims_service');
SELECT t.tracked();
-- one lease makes the call at the service fail: the others are settled
CREATE FUNCTION t.fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'P0001', MESSAGE = 'not this one'; END $$;
SELECT claims.begin_update(1, t.creates('fails'), lease_uuid => t.u(4331)), claims.track_lease(t.u(4331));
SELECT claims.begin_update(1, t.creates('works'), lease_uuid => t.u(4332)), claims.track_lease(t.u(4332));
CREATE TRIGGER fails BEFORE DELETE ON claims.claim_leases
  FOR EACH ROW WHEN (OLD.uuid = '00000000-0000-4000-8000-000000004331') EXECUTE FUNCTION t.fails();
SELECT * FROM claims.reconcile(1, 'regress_claims_service');
DROP TRIGGER fails ON claims.claim_leases;
SELECT t.tracked();
SELECT * FROM claims.reconcile(1, 'regress_claims_service');
SELECT t.no_leases(), t.clean();

-- the application's role needs no privileges on the server or tables, and its own user mapping is not used
SELECT claims.begin_update(1, t.creates('app'), lease_uuid => t.u(4340)), claims.track_lease(t.u(4340));
CREATE USER MAPPING FOR regress_claims_one SERVER regress_claims_service OPTIONS (user 'no such role');
SET SESSION AUTHORIZATION regress_claims_one;
SELECT * FROM claims.reconcile(1, 'regress_claims_service');
SELECT t.call($$SELECT * FROM claims.reconcile(2, 'regress_claims_service')$$);
RESET SESSION AUTHORIZATION;
DROP USER MAPPING FOR regress_claims_one SERVER regress_claims_service;
-- a hostile search_path changes nothing
CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
SET search_path = evil, pg_catalog;
SELECT claims.begin_update(1, t.creates('evil'), lease_uuid => t.u(4341)), claims.track_lease(t.u(4341));
SELECT * FROM claims.reconcile(1, 'regress_claims_service');
RESET search_path;
SELECT claims.lease_outcome(1, t.u(4341));
-- the connection to the service has its own DateStyle and search_path
ALTER ROLE postgres SET DateStyle = 'SQL, DMY'; ALTER ROLE postgres SET search_path = evil;
SELECT claims.begin_update(1, t.creates('dates'), lease_uuid => t.u(4342)), claims.track_lease(t.u(4342));
SELECT * FROM claims.reconcile(1, 'regress_claims_service', '1 month 2 days 03:04:05.5');
ALTER ROLE postgres RESET DateStyle; ALTER ROLE postgres RESET search_path;
-- an error of the service keeps its SQLSTATE; a changed user mapping makes a new connection
CREATE ROLE regress_claims_stranger LOGIN;
ALTER USER MAPPING FOR PUBLIC SERVER regress_claims_service OPTIONS (SET user 'regress_claims_stranger');
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'regress_claims_service')$$);
-- a cancel ends the wait for the service
ALTER USER MAPPING FOR PUBLIC SERVER regress_claims_service OPTIONS (SET user 'postgres');
SELECT claims.begin_update(1, t.creates('slow'), lease_uuid => t.u(4343)), claims.track_lease(t.u(4343));
CREATE TABLE t.canceled AS SELECT pg_backend_pid() AS pid;
CREATE FUNCTION t.sleeps() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_cancel_backend(pid) FROM t.canceled;
    PERFORM pg_sleep(20);
    RETURN OLD;
END $$;
CREATE TRIGGER sleeps BEFORE DELETE ON claims.claim_leases FOR EACH ROW EXECUTE FUNCTION t.sleeps();
SELECT * FROM claims.reconcile(1, 'regress_claims_service');
SELECT t.tracked();
SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE query LIKE '%settle_leases%' AND pid <> pg_backend_pid();
DROP TRIGGER sleeps ON claims.claim_leases; DROP TABLE t.canceled;
SELECT * FROM claims.reconcile(1, 'regress_claims_service');
-- reconcile in a read-only transaction, and in one that is rolled back
SELECT claims.begin_update(1, t.creates('back'), lease_uuid => t.u(4344)), claims.track_lease(t.u(4344));
BEGIN READ ONLY; SELECT t.call($$SELECT * FROM claims.reconcile(1, 'regress_claims_service')$$); ROLLBACK;
BEGIN; SELECT * FROM claims.reconcile(1, 'regress_claims_service'); ROLLBACK;
SELECT t.tracked(), claims.lease_outcome(1, t.u(4344));
SELECT * FROM claims.reconcile(1, 'regress_claims_service');
SELECT t.tracked();
-- reconcile under SERIALIZABLE
SELECT claims.begin_update(1, t.creates('serializable'), lease_uuid => t.u(4345)), claims.track_lease(t.u(4345));
BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT * FROM claims.reconcile(1, 'regress_claims_service', '0'); COMMIT;
SELECT t.tracked(), t.leases();
-- reconcile deletes old fences
SELECT t.verdicts(t.listed('11 minutes', 4350, 4351));
UPDATE claims.lease_fences SET fenced_at = clock_timestamp() - interval '8 days' WHERE lease_uuid = t.u(4350);
SELECT count(*) FROM claims.reconcile(1, 'regress_claims_service');
SELECT t.fences();

-- cleans up
SET client_min_messages = warning;
DROP SERVER regress_claims_service CASCADE; DROP SERVER regress_claims_unmapped CASCADE; DROP SERVER regress_claims_gone CASCADE;
DROP SCHEMA "where dblink is", evil CASCADE;
DROP EXTENSION postgres_fdw CASCADE;
DROP FOREIGN DATA WRAPPER regress_claims_other CASCADE;
DROP ROLE regress_claims_stranger;
RESET client_min_messages;
SELECT t.no_leases(), t.clean();
