-- Code of a table's owner (conditions, casts) changes nothing in the sessions that run it.
SET client_min_messages = error;
SELECT t.clean();
SELECT t.keep_caches_of_service();
DO $$ BEGIN
    EXECUTE format('CREATE SERVER regress_claims_hostile FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
                   current_setting('unix_socket_directories'), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR postgres SERVER regress_claims_hostile OPTIONS (user 'postgres');
CREATE SCHEMA evil; GRANT ALL ON SCHEMA evil TO regress_claims_one; GRANT USAGE ON SCHEMA evil TO PUBLIC;
-- evil.as_other records that the owner's code ran as another role
CREATE SEQUENCE evil.as_other; GRANT USAGE, SELECT ON evil.as_other TO PUBLIC;
SET SESSION AUTHORIZATION regress_claims_one;
CREATE FUNCTION evil.note() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_user <> 'regress_claims_one' THEN
        PERFORM nextval('evil.as_other');
    END IF;
END $$;
-- functions with names that statements of the extension could resolve to
CREATE FUNCTION evil.to_regclass(text) RETURNS regclass LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.note(); RETURN pg_catalog.to_regclass($1); END $$;
CREATE FUNCTION evil.quote_ident(name) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.note(); RETURN pg_catalog.quote_ident($1::text); END $$;
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
    PERFORM evil.note();
    RETURN pg_catalog.clock_timestamp();
END $$;
CREATE FUNCTION evil.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.note(); END $$;
CREATE FUNCTION evil.sets(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
    PERFORM pg_catalog.set_config('search_path', 'evil, pg_catalog', false), pg_catalog.set_config('statement_timeout', '77s', false);
    RETURN true;
END $$;
CREATE TYPE evil.kind AS ENUM ('a', 'b');
CREATE FUNCTION evil.sets(evil.kind) RETURNS json LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.sets('x'); RETURN '1'; END $$;
CREATE CAST (evil.kind AS json) WITH FUNCTION evil.sets(evil.kind);
CREATE TABLE evil.users (id bigint PRIMARY KEY, username text UNIQUE, kind evil.kind);
SELECT claims.claim_attribute('evil.users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id', 'evil.sets(username)');
RESET SESSION AUTHORIZATION;
SELECT claims.capture_requests('evil.users', 'hostile', 'id');
CREATE FUNCTION t.left_behind() RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(', ', current_setting('search_path'),
          (SELECT CASE setting WHEN reset_val THEN 'no other timeout' ELSE setting END FROM pg_settings WHERE name = 'statement_timeout'),
        CASE WHEN (SELECT is_called FROM evil.as_other) THEN 'ran as somebody else' END) $$;
-- a superuser writes, in a session that has not yet used the table
\c -
SET client_min_messages = error;
INSERT INTO evil.users SELECT n, 'u' || n, 'a' FROM generate_series(1, 5) n;
SELECT t.left_behind();
-- a superuser writes in automatic mode
SET claims.service_timeout = '10s';
SELECT claims.automatic(1, 'regress_claims_hostile');
INSERT INTO evil.users VALUES (6, 'u6', 'a');
SELECT t.left_behind();
SELECT claims.automatic(NULL, NULL);
SELECT committed FROM claims.reconcile(1, 'regress_claims_hostile');
-- a superuser calls expected_records
SELECT jsonb_array_length(claims.expected_records('RAILS_TABLE_USERS'));
SELECT t.left_behind();
-- a superuser calls verify
SELECT missing, corrected FROM claims.verify(1, 'regress_claims_hostile', 'RAILS_TABLE_USERS', 2, '0', true);
SELECT missing, corrected FROM claims.verify(1, 'regress_claims_hostile', 'RAILS_TABLE_USERS', 2, '0', true);
SELECT t.left_behind();
-- the settings of an owner that is a superuser change nothing either
ALTER TABLE evil.users OWNER TO postgres;
SELECT missing FROM claims.verify(1, 'regress_claims_hostile', 'RAILS_TABLE_USERS', 2);
SELECT t.left_behind();
ALTER TABLE evil.users OWNER TO regress_claims_one;
-- code that runs for another role cannot read the pending batch
SET SESSION AUTHORIZATION regress_claims_one;
CREATE FUNCTION evil.peeks(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM * FROM claims.pending_batch(); RETURN true; END $$;
SELECT claims.claim_attribute('evil.users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id', 'evil.peeks(username)');
RESET SESSION AUTHORIZATION;
SELECT t.call($$INSERT INTO evil.users VALUES (7, 'u7', 'a') RETURNING 1$$);
SELECT claims.unclaim_attribute('evil.users', 'username'), claims.uncapture_requests('evil.users', 'hostile');
DELETE FROM claims.requests WHERE queue = 'hostile';
DROP SCHEMA evil CASCADE; DROP SERVER regress_claims_hostile CASCADE; DROP FUNCTION t.left_behind();
SELECT t.clean();
