-- Capture of tables whose keys are no integers: an id is the key's text, and an integer stays a number.
SELECT t.clean();
SET client_min_messages = error;
CREATE SCHEMA app;
CREATE EXTENSION citext SCHEMA app;
CREATE TYPE app.mood AS ENUM ('good', 'Bad One');
CREATE DOMAIN app.ref AS uuid; CREATE DOMAIN app.refs AS app.ref NOT NULL;
CREATE DOMAIN app.slug AS varchar(30); CREATE DOMAIN app.number AS smallint;
-- app.table_of() makes a table with keys of one type, and returns what inserts, updates and deletes leave pending
CREATE FUNCTION app.table_of(kind text, VARIADIC keys text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE app.rows (id %s PRIMARY KEY, path text UNIQUE, owner %1$s)', kind);
    PERFORM claims.claim_attribute('app.rows', 'path', 'ROUTES', 'GROUP', 'owner', 'RAILS_TABLE_ROUTES');
    EXECUTE format('INSERT INTO app.rows VALUES (%L, ''one'', %1$L), (%L, ''two'', %L)', keys[1], keys[2], keys[3]);
    RETURN QUERY SELECT * FROM t.pending();
    RETURN NEXT (SELECT format('%s, %s', jsonb_typeof(create_records #> '{0,subject,id}'),
            jsonb_typeof(create_records #> '{0,source,rails_primary_key_id}')) FROM claims.pending_batch());
    -- the key alone: the same bucket of another row, which is left to verification; with the value: the new key
    EXECUTE format('UPDATE app.rows SET id = %L WHERE path = ''two''', keys[3]);
    RETURN NEXT (SELECT count(*) FROM t.pending()) || ' pending';
    UPDATE app.rows SET path = 'three' WHERE path = 'two';
    RETURN QUERY SELECT * FROM t.pending();
    DELETE FROM app.rows;
    RETURN NEXT (SELECT count(*) FROM t.pending()) || ' pending';
    PERFORM claims.unclaim_attribute('app.rows', 'path');
    DROP TABLE app.rows;
END $$;
-- uuid, text, citext and domains
SELECT app.table_of('uuid', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '{00000000000000000000000000000002}', 'ffffffff-ffff-ffff-ffff-ffffffffffff');
SELECT app.table_of('app.refs', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '00000000-0000-0000-0000-000000000002',
      'ffffffff-ffff-ffff-ffff-ffffffffffff');
SELECT app.table_of('text', '42', E'it''s "quoted" \\ $1', U&'\+01F980é');
SELECT app.table_of('varchar(20)', 'Gitlab-Org ', '', '007');
SELECT app.table_of('app.slug', 'a', 'b', 'c');
SELECT app.table_of('app.citext', 'CamelCase', 'lower', 'UPPER');
-- char(n) without its padding, numeric, and a domain over smallint
SELECT app.table_of('char(8)', 'a', ' b ', 'longer');
SELECT app.table_of('numeric', '1.50', '-2', '1e3');
SELECT app.table_of('app.number', '1', '-2', '3');
-- integers of every width, also negative ones
SELECT app.table_of('smallint', '1', '-2', '-32768');
SELECT app.table_of('integer', '1', '-2', '-2147483648');
SELECT app.table_of('bigint', '1', '-2', '-9223372036854775808');
-- the type name and an enum
SELECT app.table_of('name', 'a', 'B', 'c');
CREATE TABLE app.moods (id app.mood PRIMARY KEY, path text UNIQUE);
SELECT claims.claim_attribute('app.moods', 'path', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES');
BEGIN; INSERT INTO app.moods VALUES ('Bad One', 'x'), ('good', 'y'); SELECT * FROM t.pending(); ROLLBACK;
SELECT claims.unclaim_attribute('app.moods', 'path');
-- subject and source keys of different types
CREATE TABLE app.mixed (id bigint PRIMARY KEY, path text UNIQUE, owner uuid, ref uuid, nr int);
SELECT claims.claim_attribute('app.mixed', 'path', 'ROUTES', 'GROUP', 'owner', 'RAILS_TABLE_ROUTES');
BEGIN;
INSERT INTO app.mixed VALUES (9223372036854775807, 'x', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11');
SELECT create_records FROM claims.pending_batch();
ROLLBACK;
SELECT claims.claim_attribute('app.mixed', 'path', 'ROUTES', 'GROUP', 'nr', 'RAILS_TABLE_ROUTES', 'ref');
BEGIN;
INSERT INTO app.mixed VALUES (1, 'x', NULL, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', -3);
SELECT create_records FROM claims.pending_batch();
ROLLBACK;
-- the type of a key changes to text, to an integer, and to a type without a fixed text
BEGIN;
ALTER TABLE app.mixed ALTER nr TYPE text;
INSERT INTO app.mixed VALUES (1, 'x', NULL, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '3');
SELECT create_records FROM claims.pending_batch();
DELETE FROM app.mixed;
ALTER TABLE app.mixed ALTER ref TYPE bigint USING 5;
INSERT INTO app.mixed VALUES (1, 'x', NULL, 5, '3');
SELECT create_records FROM claims.pending_batch();
ROLLBACK;
ALTER TABLE app.mixed ALTER ref TYPE timestamptz USING now();
SELECT t.call($$INSERT INTO app.mixed VALUES (1, 'x', NULL, now(), 3) RETURNING 1$$);
ALTER TABLE app.mixed ALTER ref TYPE uuid USING NULL, ALTER nr TYPE float8;
SELECT t.call($$INSERT INTO app.mixed VALUES (1, 'x', NULL, gen_random_uuid(), 3) RETURNING 1$$);
SELECT claims.unclaim_attribute('app.mixed', 'path');
-- NULL, empty and too long keys fail the save
SELECT t.keep_caches_of_service();
DO $$ BEGIN
    EXECUTE format('CREATE SERVER regress_claims_keys FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
                   current_setting('unix_socket_directories'), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR postgres SERVER regress_claims_keys OPTIONS (user 'postgres');
SET claims.service_timeout = '10s';
CREATE TABLE app.texts (n serial PRIMARY KEY, id text, path text UNIQUE, owner text);
SELECT claims.claim_attribute('app.texts', 'path', 'ROUTES', 'GROUP', 'owner', 'RAILS_TABLE_ROUTES', 'id');
CREATE FUNCTION app.save(id text, owner text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(format($s$WITH saved AS (INSERT INTO app.texts (id, path, owner) VALUES (%L, 'path', %L) RETURNING 1)
          SELECT 1 FROM saved$s$, id, owner))
    UNION ALL SELECT t.call($s$SELECT claims.begin_pending(1, 'regress_claims_keys') IS NOT NULL$s$) $$;
BEGIN; SELECT app.save('', 'x'); ROLLBACK;
BEGIN; SELECT app.save(repeat('é', 129), 'x'); ROLLBACK;
BEGIN; SELECT app.save(NULL, 'x'); ROLLBACK;
BEGIN; SELECT app.save('x', ''); ROLLBACK;
BEGIN; SELECT app.save('x', repeat('é', 129)); ROLLBACK;
BEGIN; SELECT app.save('x', NULL); ROLLBACK;
BEGIN; SELECT app.save(repeat('é', 128), repeat('🦀', 128)); SELECT bucket_value, length(source_id), length(subject_id) FROM claims.claims; ROLLBACK;
-- text keys in automatic mode, from the save to the claim
SELECT claims.automatic(1, 'regress_claims_keys');
INSERT INTO app.texts (id, path, owner) VALUES ('a key', 'saved', '007');
SELECT committed, pending, orphaned FROM claims.reconcile(1, 'regress_claims_keys');
SELECT bucket_value, source_id, subject_id, status FROM claims.claims;
INSERT INTO app.texts (id, path, owner) VALUES ('', 'not saved', '1');
SELECT claims.automatic(NULL, NULL);
SELECT count(*) FROM app.texts;
SELECT claims.unclaim_attribute('app.texts', 'path');
DROP SERVER regress_claims_keys CASCADE; DROP SCHEMA app CASCADE;
RESET claims.service_timeout;
RESET client_min_messages;
SELECT t.clean();
