-- A hostile search_path: objects with names that the extension uses, before pg_catalog and in pg_temp.
SELECT t.clean();
-- a cell's role makes a schema of its own
CREATE SCHEMA evil AUTHORIZATION regress_claims_one;
GRANT USAGE ON SCHEMA evil TO PUBLIC;
SET SESSION AUTHORIZATION regress_claims_one;
CREATE TABLE evil.log (what text);
-- evil.caught() raises an error that names the trap and its caller
CREATE FUNCTION evil.caught(what text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil.% was called by %', what, current_user; END $$;
-- traps: functions of pg_catalog with the same names and arguments
DO $do$
DECLARE f record;
BEGIN
    FOR f IN SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS args, format_type(prorettype, NULL) AS ret, proretset
               FROM pg_proc p
              WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND provariadic = 0
                AND proname IN ('jsonb_array_elements', 'jsonb_array_length', 'jsonb_build_object', 'jsonb_typeof', 'jsonb_array_element',
                    'jsonb_array_elements_text', 'to_jsonb', 'unnest', 'now', 'clock_timestamp', 'statement_timestamp', 'length',
                    'char_length', 'octet_length', 'lower', 'upper', 'md5', 'sha256', 'encode', 'decode', 'convert_to', 'gen_random_uuid',
                    'format', 'quote_ident', 'set_config', 'current_setting', 'pg_has_role', 'has_function_privilege', 'row_to_json',
                    'hashtext', 'hashtextextended', 'substr', 'substring', 'concat', 'array_length', 'cardinality', 'array_position',
                    'extract', 'date_part', 'to_timestamp', 'txid_current', 'pg_current_xact_id', 'array_append', 'generate_series',
                    'jsonb_each', 'date_trunc', 'greatest', 'strpos', 'left', 'right', 'starts_with', 'jsonb_to_recordset',
                    'jsonb_populate_record', 'btrim', 'replace')
                AND NOT EXISTS (SELECT FROM unnest(proargtypes) y WHERE y IN ('internal'::regtype, 'cstring'::regtype))
                AND prorettype NOT IN ('internal'::regtype, 'cstring'::regtype, 'record'::regtype)
    LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s %s LANGUAGE plpgsql AS $f$ BEGIN PERFORM evil.caught(%L); END $f$', f.proname,
                regexp_replace(f.args, '(^|, )OUT [^,]*', '', 'g'), CASE WHEN f.proretset THEN 'SETOF' ELSE '' END, f.ret,
                f.proname || '(' || f.args || ')');
        EXCEPTION WHEN OTHERS THEN NULL; -- some cannot be copied
        END;
    END LOOP;
END $do$;
-- traps: operators of pg_catalog
DO $do$
DECLARE o record;
BEGIN
    FOR o IN SELECT oprname, format_type(oprleft, NULL) AS l, format_type(oprright, NULL) AS r, format_type(oprresult, NULL) AS ret FROM pg_operator
              WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprkind = 'b'
                AND oprname IN ('=', '<>', '<', '>', '<=', '>=', '||', '->', '->>', '+', '-', '@>', '~', '&&', '#>', '?')
                AND oprleft IN (SELECT unnest('{text,uuid,bigint,integer,smallint,boolean,jsonb,timestamptz,interval,name,oid,bytea,
                    anyarray,anyelement,anycompatiblearray}'::regtype[]))
                AND oprright IN (SELECT unnest('{text,uuid,bigint,integer,smallint,boolean,jsonb,timestamptz,interval,name,oid,bytea,
                    anyarray,anyelement,anycompatiblearray}'::regtype[]))
    LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION evil.op(%s, %s) RETURNS %s LANGUAGE plpgsql AS $f$ BEGIN PERFORM evil.caught(%L); END $f$',
                o.l, o.r, o.ret, 'operator ' || o.oprname || '(' || o.l || ',' || o.r || ')');
        EXCEPTION WHEN duplicate_function THEN NULL; WHEN OTHERS THEN NULL;
        END;
        BEGIN
            EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.op)', o.oprname, o.l, o.r);
        EXCEPTION WHEN OTHERS THEN NULL;
        END;
    END LOOP;
END $do$;
SELECT count(*) > 40 FROM pg_proc WHERE pronamespace = 'evil'::regnamespace AND proname <> 'op';
SELECT count(*) > 80 FROM pg_operator WHERE oprnamespace = 'evil'::regnamespace;
-- traps: aggregates, tables, views and types
CREATE FUNCTION evil.step(text, anyelement) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.caught('an aggregate'); END $$;
CREATE AGGREGATE evil.count(anyelement) (SFUNC = evil.step, STYPE = text);
CREATE AGGREGATE evil.max(anyelement) (SFUNC = evil.step, STYPE = text);
CREATE TABLE evil.claims (uuid uuid, bucket_type int, bucket_value text, creator_id bigint, status smallint, lease_uuid uuid);
CREATE TABLE evil.claim_leases (uuid uuid, creator_id bigint, payload jsonb);
CREATE TABLE evil.cells (cell_id bigint, name text);
CREATE TABLE evil.bucket_types (id int, name text);
CREATE TABLE evil.subject_types (id int, name text);
CREATE TABLE evil.source_types (id int, name text);
CREATE TABLE evil.pg_class (oid oid);
CREATE TABLE evil.pg_roles (oid oid);
CREATE TABLE evil.pg_authid (oid oid);
CREATE TABLE evil.pg_settings (name text);
CREATE DOMAIN evil.uuid AS text CHECK (value = 'evil');
CREATE DOMAIN evil.jsonb AS text CHECK (value = 'evil');
CREATE DOMAIN evil.text AS varchar CHECK (value = 'evil');
CREATE DOMAIN evil.int8 AS int4 CHECK (value = 666);
CREATE DOMAIN evil.int4 AS int2 CHECK (value = 666);
CREATE DOMAIN evil.timestamptz AS date CHECK (value > 'infinity');
CREATE DOMAIN evil.regrole AS varchar CHECK (value = 'evil');
CREATE TEMP TABLE claims (uuid uuid, evil text);
CREATE TEMP TABLE claim_leases (uuid uuid, evil text);
CREATE TEMP TABLE cells (cell_id text, evil text);
CREATE TEMP TABLE bucket_types (id text, evil text);
CREATE TEMP TABLE records (evil text);
CREATE TEMP TABLE pg_class (evil text);
CREATE TEMP TABLE pg_proc (evil text);
CREATE DOMAIN pg_temp.uuid AS text CHECK (value = 'evil');
CREATE DOMAIN pg_temp.jsonb AS text CHECK (value = 'evil');
CREATE DOMAIN pg_temp.bool AS text CHECK (value = 'evil');
RESET SESSION AUTHORIZATION;

-- the traps work for functions that do not pin their search_path
SET search_path = evil, pg_temp, pg_catalog;
SELECT lower('X');
SELECT 1::pg_catalog.int8 OPERATOR(evil.=) 1::pg_catalog.int8;

-- every function of a lease's life, as the cell and as a superuser, with the traps first
SELECT pg_catalog.set_config('search_path', 'evil, pg_temp, pg_catalog', false);
SET SESSION AUTHORIZATION regress_claims_one;
\set life 'SELECT claims.begin_update(1, \'[{"bucket": {"type": "ROUTES", "value": "s"}, '
\set life :life '"subject": {"type": "GROUP", "id": 1}, "source": {"type": "RAILS_TABLE_ROUTES", "id": "1"}}]\', \'[]\', :lease); '
\set life :life 'SELECT claims.begin_update(1, \'[{"bucket": {"type": 1, "value": "s"}, '
\set life :life '"subject": {"type": 2, "id": 1}, "source": {"type": 3, "id": "1"}}]\', \'[]\', :lease); '
\set life :life 'SELECT claims.lease_outcome(1, :lease); SELECT cell_id, payload FROM claims.list_leases(1); '
\set life :life 'SELECT claims.commit_update(1, :lease); SELECT bucket_value, status FROM claims.get_record(\'ROUTES\', \'s\'); '
\set life :life 'SELECT bucket_value, status FROM claims.get_records(\'[{"type": 1, "value": "s"}]\'); '
\set life :life 'SELECT bucket_value, source_id FROM claims.list_records(1, \'RAILS_TABLE_ROUTES\', NULL, 10, \'0\', \'9\'); '
\set life :life 'SELECT lease_uuid, conflicts FROM claims.try_begin_update(1, \'[{"bucket": {"type": 1, "value": "s"}, '
\set life :life '"subject": {"type": 2, "id": 1}, "source": {"type": 3, "id": "1"}}]\'); '
\set life :life 'SELECT claims.begin_update(1, \'[{"bucket": {"type": 1, "value": "s"}, '
\set life :life '"subject": {"type": 2, "id": 1}, "source": {"type": 3, "id": "1"}}]\'); '
\set life :life 'SELECT claims.begin_update(1, \'[]\', \'[{"bucket": {"type": 1, "value": "s"}}]\', :lease2); '
\set life :life 'SELECT claims.rollback_update(1, :lease2); '
\set life :life 'SELECT outcome, settled FROM claims.settle_leases(1, \'{}\', ARRAY[:lease2::pg_catalog.uuid]); '
\set life :life 'SELECT claims.begin_update(1, \'[]\', \'[{"bucket": {"type": 1, "value": "s"}}]\', :lease3); '
\set life :life 'SELECT outcome, settled FROM claims.settle_leases(1, ARRAY[:lease3::pg_catalog.uuid]);'
\set lease '\'00000000-0000-4000-8000-000000002501\''
\set lease2 '\'00000000-0000-4000-8000-000000002502\''
\set lease3 '\'00000000-0000-4000-8000-000000002503\''
:life
RESET SESSION AUTHORIZATION;
SET search_path = evil, pg_temp, pg_catalog;
\set lease '\'00000000-0000-4000-8000-000000002511\''
\set lease2 '\'00000000-0000-4000-8000-000000002512\''
\set lease3 '\'00000000-0000-4000-8000-000000002513\''
:life
SELECT * FROM claims.check();
SELECT claims.purge_outcomes() IS NOT NULL;
BEGIN;
SELECT claims.register_cell(8, 'regress_claims_nobody', 'Eight', 'x');
SELECT claims.grant_read('regress_claims_nobody');
SELECT claims.add_bucket_type(300, 'EVIL');
SELECT claims.add_subject_type(300, 'EVIL');
SELECT claims.add_source_type(300, 'EVIL');
SELECT bucket_value FROM claims.records;
SELECT claims.list_leases(NULL);
ROLLBACK;
-- every function of a lease's life with an empty search_path
SET search_path = '';
\set lease '\'00000000-0000-4000-8000-000000002521\''
\set lease2 '\'00000000-0000-4000-8000-000000002522\''
\set lease3 '\'00000000-0000-4000-8000-000000002523\''
:life
SELECT * FROM claims.check();
-- the caller's search_path is unchanged, and no trap was sprung
SHOW search_path;
RESET search_path;
SELECT count(*) FROM evil.log;
SET client_min_messages = warning;
DROP SCHEMA evil CASCADE;
