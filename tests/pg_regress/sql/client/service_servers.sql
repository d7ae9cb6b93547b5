-- Options of claims_service servers and user mappings: libpq's options, each in its place.
SET client_min_messages = error;
\set VERBOSITY verbose
SELECT f.fdwname, f.fdwhandler, f.fdwvalidator::regproc, f.fdwowner = 10, p.proowner = 10,
    has_foreign_data_wrapper_privilege('regress_claims_nobody', f.oid, 'USAGE') FROM pg_foreign_data_wrapper f
  JOIN pg_proc p ON p.oid = f.fdwvalidator WHERE fdwname = 'claims_service';
CREATE FUNCTION t.refused(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE state text; message text; detail text;
BEGIN EXECUTE statement; RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
    -- newer versions of libpq know more options
    RETURN concat_ws(': ', state, message, CASE WHEN detail LIKE 'Allowed here are: %host%' THEN 'where'
          WHEN detail LIKE 'Allowed here are: %user%' THEN 'who' ELSE detail END);
END $$;
-- options of the address belong to the server
SELECT t.refused($$CREATE SERVER regress_claims_s FOREIGN DATA WRAPPER claims_service OPTIONS (host 'h', hostaddr '127.0.0.1', port '1',
        dbname 'd', connect_timeout '3', sslmode 'verify-full', sslrootcert 'x', keepalives_idle '10', tcp_user_timeout '1000',
        application_name 'a', target_session_attrs 'read-write', options '-c x=y', gssencmode 'disable', channel_binding 'require')$$);
SELECT t.refused(format($$ALTER SERVER regress_claims_s OPTIONS (ADD %s 'x')$$, o))
  FROM unnest('{user,password,sslpassword,client_encoding,replication,fallback_application_name,password_required,sslcert,sslkey,
    passfile,nonsense,use_remote_estimate}'::text[]) o;
SELECT t.refused($$ALTER SERVER regress_claims_s OPTIONS (SET connect_timeout 'soon')$$);
SELECT t.refused($$ALTER SERVER regress_claims_s OPTIONS (SET tcp_user_timeout '')$$);
SELECT t.refused($$ALTER SERVER regress_claims_s OPTIONS (SET connect_timeout '5', DROP sslmode)$$);
-- options of the user belong to the user mapping
SELECT t.refused($$CREATE USER MAPPING FOR regress_claims_one SERVER regress_claims_s OPTIONS (user 'u', password 'p', sslcert 'c',
        sslkey 'k', password_required 'false')$$);
SELECT t.refused(format($$ALTER USER MAPPING FOR regress_claims_one SERVER regress_claims_s OPTIONS (ADD %s 'x')$$, o))
  FROM unnest('{host,dbname,port,options,nonsense}'::text[]) o;
SELECT t.refused($$ALTER USER MAPPING FOR regress_claims_one SERVER regress_claims_s OPTIONS (SET password_required 'perhaps')$$);
-- other roles cannot read a user mapping's options
SET ROLE regress_claims_two;
SELECT count(umoptions) FROM pg_user_mappings WHERE srvname = 'regress_claims_s';
RESET ROLE;
-- the wrapper has no options
SELECT t.refused($$ALTER FOREIGN DATA WRAPPER claims_service OPTIONS (ADD host 'h')$$);
-- options that only superusers may set
GRANT USAGE ON FOREIGN SERVER regress_claims_s TO regress_claims_one;
DROP USER MAPPING FOR regress_claims_one SERVER regress_claims_s;
SET ROLE regress_claims_one;
SELECT t.refused($$CREATE USER MAPPING FOR regress_claims_one SERVER regress_claims_s OPTIONS (user 'u', password 'p')$$);
SELECT t.refused(format($$ALTER USER MAPPING FOR regress_claims_one SERVER regress_claims_s OPTIONS (ADD %s 'false')$$, o))
  FROM unnest('{password_required,sslcert,sslkey,passfile}'::text[]) o;
SELECT t.refused($$CREATE SERVER regress_claims_t FOREIGN DATA WRAPPER claims_service$$);
RESET ROLE;
-- a foreign table of such a server cannot be read
CREATE FOREIGN TABLE t.foreign_table (a int) SERVER regress_claims_s;
SELECT t.refused('SELECT * FROM t.foreign_table');
DROP SERVER regress_claims_s CASCADE; DROP FUNCTION t.refused(text);
