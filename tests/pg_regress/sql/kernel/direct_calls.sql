-- Trigger functions called directly: SQLSTATE 39P01 or 39P03, and 0A000 for those in PL/pgSQL.
SELECT t.call(format('SELECT %s', p.oid::regprocedure)) FROM pg_proc p
 WHERE p.pronamespace = 'claims'::regnamespace AND p.prorettype IN ('trigger'::regtype, 'event_trigger'::regtype) ORDER BY p.proname COLLATE "C";
-- the owner of a claimed table may execute only the functions that its triggers call
CREATE ROLE regress_claims_owner;
CREATE SCHEMA app AUTHORIZATION regress_claims_owner;
CREATE TABLE app.routes (id bigint PRIMARY KEY, path text UNIQUE, namespace_id int);
ALTER TABLE app.routes OWNER TO regress_claims_owner;
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_ROUTES'),
    claims.capture_requests('app.routes', 'work', 'path');
GRANT USAGE ON SCHEMA claims TO regress_claims_owner;
SET ROLE regress_claims_owner;
SELECT t.call('SELECT claims.capture_row()');
SELECT t.call('SELECT claims.capture_change()');
SELECT t.call('SELECT claims.announce_change()');
-- in triggers of other kinds they do nothing
CREATE TABLE app.others (id bigint, path text);
CREATE TRIGGER a_row AFTER INSERT ON app.others FOR EACH ROW EXECUTE FUNCTION claims.capture_row();
CREATE TRIGGER a_statement AFTER INSERT OR UPDATE OR DELETE ON app.others FOR EACH STATEMENT EXECUTE FUNCTION claims.capture_row();
CREATE TRIGGER a_truncate BEFORE TRUNCATE ON app.others FOR EACH STATEMENT EXECUTE FUNCTION claims.capture_row();
CREATE CONSTRAINT TRIGGER a_deferred AFTER INSERT ON app.others DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  EXECUTE FUNCTION claims.capture_row('an argument');
CREATE TRIGGER b_row AFTER INSERT ON app.others FOR EACH ROW EXECUTE FUNCTION claims.capture_change();
CREATE TRIGGER b_work AFTER INSERT ON app.others FOR EACH ROW EXECUTE FUNCTION claims.capture_change('work', 'path');
CREATE TRIGGER b_other AFTER INSERT ON app.others FOR EACH ROW EXECUTE FUNCTION claims.capture_change('work', 'nothing', 'more');
CREATE TRIGGER b_statement AFTER INSERT ON app.others FOR EACH STATEMENT EXECUTE FUNCTION claims.capture_change('work', 'path');
CREATE VIEW app.shown AS SELECT * FROM app.others;
CREATE TRIGGER c_instead INSTEAD OF INSERT ON app.shown FOR EACH ROW EXECUTE FUNCTION claims.capture_row();
INSERT INTO app.others VALUES (1, 'x');
UPDATE app.others SET path = 'y';
DELETE FROM app.others;
TRUNCATE app.others;
INSERT INTO app.shown VALUES (1, 'x');
-- capture_row as a BEFORE trigger suppresses the row
CREATE TRIGGER d_before BEFORE INSERT ON app.others FOR EACH ROW EXECUTE FUNCTION claims.capture_row();
INSERT INTO app.others VALUES (1, 'x');
SELECT count(*) FROM app.others;
RESET ROLE;
SELECT count(*) FROM claims.requests;
SELECT count(*) FROM claims.pending_batch() b WHERE b.create_records <> '[]' OR b.destroy_records <> '[]';
DROP SCHEMA app CASCADE; REVOKE ALL ON SCHEMA claims FROM regress_claims_owner; DROP OWNED BY regress_claims_owner; DROP ROLE regress_claims_owner;
