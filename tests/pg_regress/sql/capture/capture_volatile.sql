-- A condition that writes rows when it is evaluated: no row is committed without its claim.
SET client_min_messages = error;
SELECT t.clean();
SELECT t.keep_caches_of_service();
DO $$ BEGIN
    EXECUTE format('CREATE SERVER regress_claims_volatile FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
                   current_setting('unix_socket_directories'), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR postgres SERVER regress_claims_volatile OPTIONS (user 'postgres');
SET claims.service_timeout = '10s';
CREATE SCHEMA app;
-- For the last row it writes one more, up to a limit, when it is evaluated where claims are adopted: outside of triggers at COMMIT, in the
-- deferred trigger after SET CONSTRAINTS.
SET app.depth = 0;
CREATE TABLE app.most (id bigint);
INSERT INTO app.most VALUES (2);
CREATE FUNCTION app.writes(text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE next bigint := (SELECT max(id) + 1 FROM app.users);
BEGIN
    IF pg_trigger_depth() <= current_setting('app.depth')::int AND $1 = 'u' || next - 1 AND next <= (SELECT id FROM app.most) THEN
        INSERT INTO app.users VALUES (next, 'u' || next);
    END IF;
    RETURN true;
END $$;
CREATE TABLE app.users (id bigint PRIMARY KEY, username text);
CREATE UNIQUE INDEX ON app.users (username);
SELECT claims.claim_attribute('app.users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id', 'app.writes(username)');
-- claims of the cell that no row calls for, for rows to adopt
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_agg(t.claim('u' || n, 'USERNAMES', 9)))) FROM generate_series(1, 30) n;
-- each row, and the claim that it has
CREATE FUNCTION app.rows() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('%s %s: %s %s', u.id, u.username, c.status, c.source_id = u.id::text) FROM app.users u
      LEFT JOIN claims.claims c ON c.bucket_value = u.username ORDER BY u.id $$;
-- begin_pending
BEGIN;
INSERT INTO app.users VALUES (1, 'u1');
SELECT t.call($$SELECT claims.begin_pending(1, 'regress_claims_volatile') IS NOT NULL$$);
ROLLBACK;
-- nothing is left to write
BEGIN;
INSERT INTO app.users VALUES (2, 'u2');
SELECT claims.begin_pending(1, 'regress_claims_volatile') IS NOT NULL;
ROLLBACK;
-- automatic mode, at COMMIT
SELECT claims.automatic(1, 'regress_claims_volatile');
INSERT INTO app.users VALUES (1, 'u1');
SELECT committed >= 0 FROM claims.reconcile(1, 'regress_claims_volatile');
SELECT * FROM app.rows();
-- with SET CONSTRAINTS
UPDATE app.most SET id = 4;
BEGIN;
INSERT INTO app.users VALUES (3, 'u3');
SET LOCAL app.depth = 2;
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
SELECT committed >= 0 FROM claims.reconcile(1, 'regress_claims_volatile');
SELECT * FROM app.rows();
-- without end
UPDATE app.most SET id = 1000;
\set VERBOSITY sqlstate
INSERT INTO app.users VALUES (5, 'u5');
\set VERBOSITY default
SELECT * FROM app.rows();
SELECT claims.automatic(NULL, NULL);
SELECT claims.unclaim_attribute('app.users', 'username');
DROP SCHEMA app CASCADE; DROP SERVER regress_claims_volatile CASCADE;
SELECT t.no_leases(), t.clean();
