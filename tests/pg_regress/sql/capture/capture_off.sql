-- What would leave names without claims is refused, reported by check(), or mended by claim_attribute().
SET client_min_messages = error;
SELECT t.clean();
CREATE SCHEMA off;
CREATE TABLE off.plain (id bigint PRIMARY KEY, name text UNIQUE);
CREATE TABLE off.parts (id bigint, name text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE off.low PARTITION OF off.parts FOR VALUES FROM (0) TO (10);
CREATE FUNCTION off.claim() RETURNS void LANGUAGE sql AS $$
    SELECT claims.claim_attribute(t::regclass, 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES')
      FROM unnest('{off.plain,off.parts}'::text[]) t $$;
SELECT off.claim();
SELECT claims.capture_requests('off.plain', 'off', 'id');
CREATE FUNCTION off.found() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(': ', problem, detail) FROM claims.check() WHERE detail LIKE '%off.%' OR detail LIKE '%claims.%' OR detail LIKE '%Event%'
     ORDER BY concat_ws(': ', problem, detail) COLLATE "C" $$;
CREATE FUNCTION off.captured(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE names text;
BEGIN
    BEGIN
        EXECUTE statement;
        SELECT string_agg(r #>> '{bucket,value}', ' ') INTO names FROM claims.pending_batch() b, jsonb_array_elements(b.create_records) r;
        RAISE 'undo' USING ERRCODE = 'ZZ000';
    EXCEPTION WHEN SQLSTATE 'ZZ000' THEN NULL;
    END;
    RETURN NEXT coalesce(names, 'nothing');
END $$;
RESET client_min_messages;
SELECT table_name, captured FROM claims.claimed_columns ORDER BY table_name::text;
SELECT off.found();
-- a disabled trigger: nothing is captured, and check() and claimed_columns say so
BEGIN;
ALTER TABLE off.plain DISABLE TRIGGER USER;
SELECT off.captured($$INSERT INTO off.plain VALUES (1, 'one')$$);
SELECT off.found();
SELECT table_name, captured FROM claims.claimed_columns ORDER BY table_name::text;
-- claim_attribute and capture_requests enable them again
SELECT off.claim();
SELECT claims.capture_requests('off.plain', 'off', 'id');
SELECT off.captured($$INSERT INTO off.plain VALUES (1, 'one')$$);
SELECT off.found();
ROLLBACK;
-- the trigger of a partition only, one that fires in replication only, and one that was dropped
BEGIN;
ALTER TABLE off.low DISABLE TRIGGER claims_capture;
ALTER TABLE off.plain ENABLE REPLICA TRIGGER claims_capture;
DROP TRIGGER claims_truncate ON off.low;
SELECT off.captured($$INSERT INTO off.parts VALUES (1, 'one')$$);
SELECT off.found();
SELECT table_name, captured FROM claims.claimed_columns ORDER BY table_name::text;
SELECT off.claim();
SELECT off.captured($$INSERT INTO off.parts VALUES (1, 'one'); INSERT INTO off.plain VALUES (2, 'two')$$);
SELECT off.found();
ROLLBACK;
-- one that fires always stays so
BEGIN;
ALTER TABLE off.plain ENABLE ALWAYS TRIGGER claims_capture;
SELECT off.found();
SELECT off.claim();
SELECT tgenabled FROM pg_trigger WHERE tgrelid = 'off.plain'::regclass AND tgname = 'claims_capture';
ROLLBACK;
-- one that was replaced by a trigger for some rows only
BEGIN;
CREATE OR REPLACE TRIGGER claims_capture AFTER INSERT ON off.plain FOR EACH ROW WHEN (NEW.id > 5) EXECUTE FUNCTION claims.capture_row();
SELECT off.found();
SELECT off.claim();
SELECT off.captured($$INSERT INTO off.plain VALUES (1, 'one')$$);
SELECT off.found();
ROLLBACK;
-- event triggers that are disabled or missing
BEGIN;
ALTER EVENT TRIGGER claims_complete_triggers DISABLE;
DROP EVENT TRIGGER claims_forget_dropped_tables;
SELECT off.found();
SELECT off.claim();
SELECT off.found();
ROLLBACK;
-- triggers of the extension itself
BEGIN;
ALTER TABLE claims.cells DISABLE TRIGGER announce_change;
SELECT off.found();
ROLLBACK;
-- an inheritance child of a claimed table is refused, in each way to make one
SELECT t.call('CREATE TABLE off.child () INHERITS (off.plain)');
CREATE TABLE off.other (id bigint NOT NULL, name text);
SELECT t.call('CREATE TABLE off.child () INHERITS (off.other, off.plain)');
SELECT t.call('ALTER TABLE off.other INHERIT off.plain');
SELECT t.call('ALTER TABLE off.other ADD x int, INHERIT off.plain');
SELECT t.call('CREATE TEMP TABLE child () INHERITS (off.plain)');
CREATE FOREIGN DATA WRAPPER regress_claims_nothing; CREATE SERVER regress_claims_nowhere FOREIGN DATA WRAPPER regress_claims_nothing;
SELECT t.call('CREATE FOREIGN TABLE off.far () INHERITS (off.plain) SERVER regress_claims_nowhere');
CREATE FOREIGN TABLE off.far (id bigint NOT NULL, name text) SERVER regress_claims_nowhere;
SELECT t.call('ALTER FOREIGN TABLE off.far INHERIT off.plain');
DROP SERVER regress_claims_nowhere CASCADE; DROP FOREIGN DATA WRAPPER regress_claims_nothing;
-- other inheritance, LIKE and partitions are not
CREATE TABLE off.heir () INHERITS (off.other);
CREATE TABLE off.likeness (LIKE off.plain INCLUDING ALL);
CREATE TABLE off.high PARTITION OF off.parts FOR VALUES FROM (10) TO (20);
-- a child that was made while nobody looked is reported
BEGIN;
ALTER EVENT TRIGGER claims_complete_triggers DISABLE;
CREATE TABLE off.child () INHERITS (off.plain);
ALTER EVENT TRIGGER claims_complete_triggers ENABLE;
SELECT off.found();
ROLLBACK;
-- no table of the extension becomes unlogged while there is a claimed one
SELECT t.call('ALTER TABLE claims.claims SET UNLOGGED');
SELECT t.call('ALTER TABLE claims.lease_outcomes SET UNLOGGED');
ALTER TABLE off.other SET UNLOGGED;
-- without the event trigger it is reported, and the table is written with statements
BEGIN;
ALTER EVENT TRIGGER claims_complete_triggers DISABLE;
ALTER TABLE claims.claims SET UNLOGGED;
ALTER EVENT TRIGGER claims_complete_triggers ENABLE;
SELECT off.found();
SELECT t.call($$SELECT claims.begin_update(1, t.creates('unlogged'), lease_uuid => t.u(4100))$$);
ROLLBACK;
-- settings under which no trigger fires
ALTER DATABASE :DBNAME SET session_replication_role = 'replica';
SELECT problem FROM claims.check() WHERE problem LIKE 'setting%';
ALTER DATABASE :DBNAME RESET session_replication_role;
SELECT problem FROM claims.check() WHERE problem LIKE 'setting%';
SET client_min_messages = error;
SELECT claims.unclaim_attribute(t::regclass, 'name') FROM unnest('{off.plain,off.parts}'::text[]) t;
SELECT claims.uncapture_requests('off.plain', 'off');
DROP SCHEMA off CASCADE;
SELECT count(*) FROM claims.check();
