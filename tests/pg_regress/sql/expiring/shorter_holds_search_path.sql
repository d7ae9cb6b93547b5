-- A hostile search_path: objects with names that expiring claims and requests use, before pg_catalog and in pg_temp.
SET client_min_messages = warning;
DELETE FROM claims.expiring_claims;
DELETE FROM claims.requests;
ALTER SEQUENCE claims.expiring_tokens RESTART;
ALTER TABLE claims.requests ALTER id RESTART;
DROP ROLE IF EXISTS regress_claims_victim;
CREATE ROLE regress_claims_victim;
SELECT claims.grant_worker('regress_claims_victim');
SELECT claims.add_expiring('k', '{a,b}');
CREATE SCHEMA evil AUTHORIZATION regress_claims_victim;
SET SESSION AUTHORIZATION regress_claims_victim;
-- evil.caught() raises an error that names the trap and its caller; traps for functions and operators
CREATE FUNCTION evil.caught(what text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil.% was called by %', what, current_user; END $$;
DO $do$
DECLARE f record; made int := 0;
BEGIN
    FOR f IN SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS args, format_type(prorettype, NULL) AS ret, proretset
               FROM pg_proc p
              WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND provariadic = 0
                AND proname IN ('nextval', 'pg_notify', 'md5', 'to_jsonb', 'clock_timestamp', 'now', 'unnest', 'length',
                  'pg_current_snapshot', 'pg_snapshot_xmax', 'pg_snapshot_xip',
                    'pg_visible_in_snapshot', 'pg_current_xact_id', 'pg_current_xact_id_if_assigned', 'jsonb_exists', 'pg_partition_tree',
                    'current_setting', 'set_config', 'quote_ident',
                    'text', 'int4', 'name', 'xid8eq', 'texteq', 'booleq', 'upper', 'lower', 'concat')
                AND NOT EXISTS (SELECT FROM unnest(proargtypes) y WHERE y IN ('internal'::regtype, 'cstring'::regtype))
                AND prorettype NOT IN ('internal'::regtype, 'cstring'::regtype, 'record'::regtype)
    LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s %s LANGUAGE plpgsql AS $f$ BEGIN PERFORM evil.caught(%L); END $f$', f.proname,
                regexp_replace(f.args, '(^|, )OUT [^,]*', '', 'g'), CASE WHEN f.proretset THEN 'SETOF' ELSE '' END, f.ret,
                  f.proname || '(' || f.args || ')');
            made := made + 1;
        EXCEPTION WHEN OTHERS THEN NULL; -- some cannot be copied
        END;
    END LOOP;
    IF made < 20 THEN RAISE 'only % traps', made; END IF;
END $do$;
DO $do$
DECLARE o record; made int := 0;
BEGIN
    FOR o IN SELECT oprname, format_type(oprleft, NULL) AS l, format_type(oprright, NULL) AS r, format_type(oprresult, NULL) AS ret FROM pg_operator
              WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprkind = 'b'
              AND oprname IN ('=', '<>', '<', '>', '<=', '>=', '||', '->>', '?', '+')
                AND oprleft = ANY ('{text,uuid,bigint,integer,boolean,jsonb,timestamptz,name,oid,xid8,"char"}'::regtype[])
                AND oprright = ANY ('{text,uuid,bigint,integer,boolean,jsonb,timestamptz,name,oid,xid8,"char"}'::regtype[])
    LOOP
        EXECUTE format('CREATE FUNCTION evil.op%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS $f$ BEGIN PERFORM evil.caught(%L); END $f$', made,
              o.l, o.r, o.ret, o.l || o.oprname || o.r);
        EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.op%s)', o.oprname, o.l, o.r, made);
        made := made + 1;
    END LOOP;
    IF made < 60 THEN RAISE 'only % traps', made; END IF;
END $do$;
CREATE DOMAIN evil.uuid AS text CHECK (value = 'evil');
CREATE DOMAIN evil.text AS varchar CHECK (value = 'evil');
CREATE DOMAIN evil.int8 AS int4 CHECK (value = 666);
CREATE DOMAIN evil.jsonb AS varchar CHECK (value = 'evil');
CREATE DOMAIN evil.name AS varchar CHECK (value = 'evil');
CREATE DOMAIN evil.regclass AS varchar CHECK (value = 'evil');
CREATE TEMP TABLE requests (evil int);
CREATE TEMP TABLE expiring_claims (evil int);
CREATE TEMP TABLE pg_class (evil int);
CREATE TEMP TABLE pg_attribute (evil int);
CREATE TEMP TABLE pg_proc (evil int);
CREATE TABLE evil.captured (id int, entity varchar);
\set life 'SELECT key, token FROM claims.acquire_expiring(\'k\', \'one\', \'1 min\', 1); '
\set life :life 'SELECT key FROM claims.renew_expiring(\'k\', \'one\', \'2 min\'); '
\set life :life 'SELECT key FROM claims.held_expiring(\'k\', \'one\'); SELECT claims.release_expiring(\'k\', \'one\', \'{a,b}\'); '
\set life :life 'SELECT claims.release_expiring(\'k\', \'one\'); SELECT claims.enqueue_request(\'q\', \'e\', \'create\', \'{}\'); '
\set life :life 'SELECT claims.enqueue_request(\'q\', \'e\', \'update\'); BEGIN; '
\set life :life 'SELECT id, request_type FROM claims.take_requests(\'q\', :p); '
\set life :life 'SELECT claims.settle_requests(:p, \'no\'); COMMIT; SELECT claims.retry_requests(\'q\', \'e\'); '
\set life :life 'SELECT id, request_type FROM claims.take_requests(\'q\', :p, 0, \'1 min\'); '
\set life :life 'SELECT claims.extend_requests(:p, \'2 min\'); SELECT claims.settle_requests(:p); '
\set life :life 'SELECT id, request_type FROM claims.take_requests(\'q\', :p, 0, \'1 microsecond\'); BEGIN; '
\set life :life 'SELECT id, request_type FROM claims.take_requests(\'q\', :p); '
\set life :life 'SELECT claims.settle_requests(:p); COMMIT; SELECT claims.capture_requests(\'evil.captured\', \'c\', \'entity\'); '
\set life :life 'INSERT INTO evil.captured VALUES (1, \'x\'); UPDATE evil.captured SET id = 2; TRUNCATE evil.captured; '
\set life :life 'SELECT id, entity, payload FROM claims.take_requests(\'c\', :p); '
\set life :life 'SELECT claims.uncapture_requests(\'evil.captured\', \'c\');'
\set p '\'00000000-0000-4000-8000-000000000001\''
SET search_path = evil, pg_temp, pg_catalog;
-- the traps work
SELECT md5('x');
SELECT 'a'::pg_catalog.text OPERATOR(evil.=) 'a'::pg_catalog.text;
-- every function, as the worker and as a superuser, with the traps first
:life
RESET SESSION AUTHORIZATION;
SET search_path = evil, pg_temp, pg_catalog;
SELECT claims.assert_held('k', 'a', 1);
SELECT claims.purge_requests('q', '0');
SELECT claims.remove_expiring('k', '{a}');
SELECT claims.add_expiring('k', '{a}');
SELECT claims.grant_worker('regress_claims_victim');
:life
-- every function with an empty search_path
SET search_path = '';
SELECT claims.purge_requests('q', '0');
:life
RESET search_path;
DROP SCHEMA evil CASCADE;
SELECT key FROM claims.acquire_expiring('k', 'two', '1 min') ORDER BY key;
DELETE FROM claims.expiring_claims;
DELETE FROM claims.requests;
DROP OWNED BY regress_claims_victim;
DROP ROLE regress_claims_victim;
