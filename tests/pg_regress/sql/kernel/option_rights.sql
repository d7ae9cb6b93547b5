-- Options that only superusers may set: the role that wrote the command counts, not the one for which PostgreSQL runs it.
SET client_min_messages = error;
CREATE ROLE regress_claims_setter;
GRANT USAGE ON FOREIGN DATA WRAPPER claims_service TO regress_claims_setter;
CREATE SCHEMA app AUTHORIZATION regress_claims_setter;
SET ROLE regress_claims_setter;
CREATE SERVER regress_claims_set FOREIGN DATA WRAPPER claims_service OPTIONS (host '/tmp');
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_set OPTIONS (user 'postgres');
CREATE FUNCTION app.options() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT array_to_string(umoptions, ', ') FROM pg_user_mappings WHERE srvname = 'regress_claims_set' $$;
-- app.try() runs a statement as its caller and returns the result
CREATE FUNCTION app.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
CREATE FUNCTION app.set_option() RETURNS text LANGUAGE sql AS $$
    SELECT app.try($q$ALTER USER MAPPING FOR PUBLIC SERVER regress_claims_set OPTIONS (ADD password_required 'false')$q$) $$;
SELECT app.set_option();

-- code of a table's owner that a superuser runs cannot set such an option
CREATE SEQUENCE app.runs;
CREATE FUNCTION app.in_index(v int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE answer text := app.set_option();
BEGIN
    PERFORM nextval('app.runs');
    IF answer <> '42501: permission denied within a security-restricted operation' THEN RAISE '%', answer; END IF;
    RETURN v;
END $$;
CREATE TABLE app.plain (v int);
INSERT INTO app.plain SELECT generate_series(1, 3);
CREATE FUNCTION app.later(v int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT v';
CREATE INDEX plain_expression ON app.plain (app.later(v));
CREATE STATISTICS app.plain_statistics ON (app.later(v) + 1) FROM app.plain;
CREATE MATERIALIZED VIEW app.copied AS SELECT app.later(v) AS v FROM app.plain;
CREATE OR REPLACE FUNCTION app.later(v int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN app.in_index(v); END $$;
RESET ROLE;
ANALYZE app.plain;
REINDEX INDEX app.plain_expression;
REINDEX INDEX CONCURRENTLY app.plain_expression;
VACUUM FULL app.plain;
CLUSTER app.plain USING plain_expression;
REFRESH MATERIALIZED VIEW app.copied;
CREATE INDEX CONCURRENTLY plain_concurrent ON app.plain ((app.later(v) + 1));
SELECT nextval('app.runs') > 20;
SELECT app.options();

-- in a SECURITY DEFINER function its owner counts
ALTER FUNCTION app.set_option() SECURITY DEFINER;
SELECT current_user, app.set_option();
SELECT app.options();
ALTER FUNCTION app.set_option() OWNER TO postgres;
GRANT USAGE ON SCHEMA app TO postgres;
SET ROLE regress_claims_setter;
SELECT current_user, app.set_option();
SELECT app.options();
-- an option that a superuser set cannot be changed by others
SELECT app.try($$ALTER USER MAPPING FOR PUBLIC SERVER regress_claims_set OPTIONS (SET user 'other')$$);
RESET ROLE;

-- such code can set no option at all
SET ROLE regress_claims_setter;
ALTER TABLE app.plain ADD w int;
CREATE FUNCTION app.plain_option(v int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE answer text := app.try($q$ALTER SERVER regress_claims_set OPTIONS (ADD port '1')$q$);
BEGIN
    IF answer <> '42501: permission denied within a security-restricted operation' AND v > 0 THEN RAISE '%', answer; END IF;
    RETURN v;
END $$;
RESET ROLE;
CREATE INDEX plain_option ON app.plain (app.plain_option(v));
SELECT srvoptions FROM pg_foreign_server WHERE srvname = 'regress_claims_set';

-- a user mapping without a password needs a superuser as the server's owner: another one could change the address
SELECT claims.register_cell(1, 'regress_claims_one');
CREATE FUNCTION t.owned_by(owner text) RETURNS void LANGUAGE plpgsql AS $$ DECLARE f record; BEGIN
    EXECUTE format('ALTER SCHEMA claims OWNER TO %I', owner);
    FOR f IN SELECT p.oid::regprocedure AS name FROM pg_proc p WHERE pronamespace = 'claims'::regnamespace AND proowner <> 10
        OR pronamespace = 'claims'::regnamespace AND prorettype <> 'event_trigger'::regtype AND proname <> 'service_validator' LOOP
        EXECUTE format('ALTER ROUTINE %s OWNER TO %I', f.name, owner);
    END LOOP;
    FOR f IN SELECT c.oid::regclass AS name FROM pg_class c WHERE relnamespace = 'claims'::regnamespace AND relkind IN ('r', 'v') LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO %I', f.name, owner);
    END LOOP; END $$;
SELECT t.owned_by('regress_claims_setter');
ALTER SERVER regress_claims_set OPTIONS (SET host '/nowhere');
SELECT t.call($$SELECT * FROM claims.reconcile(1, 'regress_claims_set')$$);
ALTER SERVER regress_claims_set OWNER TO postgres;
GRANT USAGE ON FOREIGN SERVER regress_claims_set TO regress_claims_setter;
SELECT t.state_of($$SELECT * FROM claims.reconcile(1, 'regress_claims_set')$$);
SELECT t.owned_by('postgres');
DROP SCHEMA app CASCADE; DROP SERVER regress_claims_set CASCADE; DROP OWNED BY regress_claims_setter; DROP ROLE regress_claims_setter;
