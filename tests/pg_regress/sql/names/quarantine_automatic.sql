-- Names that are kept back, where a transaction claims in the database itself.
SET client_min_messages = error;
SELECT t.clean();
CREATE SCHEMA app;
CREATE TABLE app.handles (id bigint PRIMARY KEY, path text UNIQUE, namespace_id int);
SELECT claims.add_bucket_type(127, 'KEPT'), claims.set_quarantine('KEPT', '1 day', 'a test');
SELECT claims.claim_attribute('app.handles', 'path', 'KEPT', 'GROUP', 'namespace_id', 'RAILS_TABLE_ROUTES');
CREATE FUNCTION t.names() RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(concat_ws(' ', bucket_value, creator_id, 'for', source_id, 'of', subject_id,
                     CASE WHEN status <> 1 THEN 'status ' || status END),
                               ', ' ORDER BY bucket_value COLLATE "C"), 'none') || ', leases ' || (SELECT count(*) FROM claims.claim_leases)
      FROM claims.claims $$;
SELECT claims.automatic_here(1);
-- a rename and a delete keep the name back, a rollback does not
INSERT INTO app.handles VALUES (1, 'ada', 10), (2, 'bob', 11); SELECT t.names();
BEGIN; DELETE FROM app.handles; ROLLBACK; SELECT t.names();
UPDATE app.handles SET path = 'ada2' WHERE id = 1; SELECT t.names();
DELETE FROM app.handles WHERE id = 2; SELECT t.names();
-- the same subject has it again, another one does not; a rollback and a savepoint leave it as it was
BEGIN; INSERT INTO app.handles VALUES (3, 'bob', 11); ROLLBACK; SELECT t.names();
\set VERBOSITY sqlstate
INSERT INTO app.handles VALUES (3, 'bob', 12);
\set VERBOSITY default
SELECT t.names();
INSERT INTO app.handles VALUES (3, 'bob', 11); SELECT t.names();
-- a name that goes from row to row in one transaction is given up by nobody
BEGIN; DELETE FROM app.handles WHERE id = 3; INSERT INTO app.handles VALUES (4, 'bob', 12); COMMIT; SELECT t.names();
-- whether a form may offer it
SELECT claims.is_available('app.handles', 'path', 'ada', '9'), claims.first_available('app.handles', 'path', '{ada,bob,carl}', '9');
-- what is over is free
UPDATE claims.claims SET available_at = updated_at WHERE status = 5;
SELECT claims.is_available('app.handles', 'path', 'ada'), claims.is_available('app.handles', 'path', 'ada', '9'),
       claims.is_available('app.handles', 'path', 'ada', '4');
INSERT INTO app.handles VALUES (5, 'ada', 13); SELECT t.names(), (SELECT count(*) FROM claims.check());
-- who acts is in the log and in the feed, whether the transaction needs a lease for its names or not
SET claims.audit = 'settled'; SET claims.change_feed = on; SET claims.context = 'user 42'; SET claims.cell_role = 'app';
INSERT INTO app.handles VALUES (6, 'eva', 14); UPDATE app.handles SET namespace_id = 15 WHERE id = 6; DELETE FROM app.handles WHERE id = 6;
RESET claims.audit; RESET claims.change_feed; RESET claims.context; RESET claims.cell_role;
SELECT ops, old_subjects, subjects, context, cell_role FROM claims.audit_log WHERE bucket_values = '{eva}' ORDER BY at, id;
SELECT op, context, cell_role FROM claims.changes WHERE bucket_value = 'eva' ORDER BY id;
DELETE FROM claims.audit_log; DELETE FROM claims.change_sets;
-- values of a unique are not kept back: a table that is dropped frees them at once; and no unique gets a type that exists
CREATE TABLE app.keys (id int, key text);
SELECT claims.add_unique('app_keys', '{app.keys}', 'key');
SELECT t.call($$SELECT claims.set_quarantine('app_keys', '1 day', 'a test')$$);
SELECT claims.set_quarantine('app_keys', '0', 'as it is');
SELECT t.call($$SELECT claims.add_unique('KEPT', '{app.keys}', 'key')$$);
INSERT INTO app.keys VALUES (1, 'x'); DELETE FROM app.keys; INSERT INTO app.keys VALUES (2, 'x');
SELECT claims.drop_unique('app_keys', 'a test');

-- cleans up
SELECT claims.automatic(NULL, NULL);
SELECT claims.unclaim_attribute('app.handles', 'path');
DROP SCHEMA app CASCADE;
SELECT t.clean();
DELETE FROM claims.bucket_types WHERE id = 127; DELETE FROM claims.type_names WHERE id = 127;
DROP FUNCTION t.names;
