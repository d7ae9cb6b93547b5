-- Columns of many types: a bucket value is the column's value cast to text.
SET client_min_messages = error;
CREATE SCHEMA app;
CREATE SCHEMA "where Citext is";
CREATE EXTENSION citext SCHEMA "where Citext is";
CREATE DOMAIN app.slug AS varchar(30) CHECK (VALUE <> 'bad');
CREATE DOMAIN app.key AS bigint;
CREATE DOMAIN app.keys AS app.key NOT NULL;
CREATE TYPE app.mood AS ENUM ('good', 'Bad One');
CREATE TABLE app.many ("Key" app.keys PRIMARY KEY, subject smallint, "a ""text""" text, b varchar(20), c "where Citext is".citext, d uuid,
      e char(8), f app.slug, g app.mood, h bigint, i numeric(8, 2), k boolean, l text GENERATED ALWAYS AS (lower(b)) STORED, m name,
      no_a date, no_b timestamptz, no_c text[], no_d float8, no_e bytea, no_f interval, no_g jsonb);
SELECT count(claims.claim_attribute('app.many', attname, 'USERNAMES', 'USER', 'subject', 'RAILS_TABLE_USERS')) FROM pg_attribute
 WHERE attrelid = 'app.many'::regclass AND attnum > 2 AND attname NOT LIKE 'no%';
SELECT t.call(format($$SELECT claims.claim_attribute('app.many', %L, 'USERNAMES', 'USER', 'subject', 'RAILS_TABLE_USERS')$$, attname))
  FROM pg_attribute
 WHERE attrelid = 'app.many'::regclass AND attname LIKE 'no%' ORDER BY attnum;
SELECT attribute, source_key FROM claims.claimed_attributes WHERE table_name = 'app.many'::regclass ORDER BY 1;
BEGIN;
INSERT INTO app.many
  VALUES (1, 7, 'text', 'VarChar', 'CiText', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'char', 'slug', 'Bad One', -5, 1.5, true, DEFAULT, 'name');
SELECT * FROM t.pending();
COMMIT;
-- a value that is equal by its type but has another text is another bucket
BEGIN; UPDATE app.many SET c = 'citext', i = 1.50, e = 'char '; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.many SET b = 'other'; SELECT * FROM t.pending(); ROLLBACK;
-- the texts do not depend on the search_path
BEGIN; SET LOCAL search_path = ''; UPDATE app.many SET c = 'x'; SELECT * FROM t.pending(); ROLLBACK;
-- values that need quoting, and long values that are stored out of line
BEGIN;
INSERT INTO app.many ("Key", subject, "a ""text""") VALUES (2, 7, E'it''s "quoted" \\ $1 %s \u0001 \u4e16\U0001F980');
SELECT * FROM t.pending();
SELECT create_records #>> '{0,bucket,value}' = "a ""text""" FROM claims.pending_batch(), app.many WHERE "Key" = 2;
ROLLBACK;
ALTER TABLE app.many ALTER "a ""text""" SET STORAGE EXTERNAL;
BEGIN;
INSERT INTO app.many ("Key", subject, "a ""text""") VALUES (2, 7, repeat('長い', 430)), (3, 7, repeat('x', 1000));
UPDATE app.many SET h = 3 WHERE "Key" = 2;
UPDATE app.many SET "a ""text""" = repeat('長い', 430) || '!' WHERE "Key" = 2;
DELETE FROM app.many WHERE "Key" = 3;
SELECT op, length(c #>> '{bucket,value}') FROM claims.pending_batch() p,
    LATERAL (SELECT '+', jsonb_array_elements(create_records) UNION ALL SELECT '-', jsonb_array_elements(destroy_records)) r (op, c) ORDER BY 2;
ROLLBACK;
-- a column that is added or changes its type is captured; a renamed or dropped one is an error
SELECT claims.unclaim_attribute('app.many', 'l');
ALTER TABLE app.many DROP l;
ALTER TABLE app.many ALTER b TYPE text USING upper(b) || '!', ADD new int DEFAULT 5, DROP m;
SELECT t.call($$UPDATE app.many SET b = 'other', new = 6 RETURNING 1$$);
SELECT claims.unclaim_attribute('app.many', 'm');
BEGIN; UPDATE app.many SET b = 'other', new = 6; SELECT * FROM t.pending(); ROLLBACK;
ALTER TABLE app.many RENAME d TO dd;
SELECT t.call('UPDATE app.many SET new = 7 RETURNING 1');
SELECT claims.unclaim_attribute('app.many', 'd'), claims.claim_attribute('app.many', 'dd', 'USERNAMES', 'USER', 'subject', 'RAILS_TABLE_USERS');
BEGIN; UPDATE app.many SET dd = NULL; SELECT * FROM t.pending(); ROLLBACK;
-- a renamed table stays claimed; a dropped one is forgotten
ALTER TABLE app.many RENAME TO lots;
BEGIN; UPDATE app.lots SET dd = NULL; SELECT * FROM t.pending(); ROLLBACK;
DROP TABLE app.lots;
CREATE TABLE app.other (id int PRIMARY KEY, name text UNIQUE);
SELECT claims.claim_attribute('app.other', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS');
SELECT * FROM claims.claimed_attributes;
-- keys of 32 and of 64 bits
BEGIN; INSERT INTO app.other VALUES (-2147483648, 'low'); SELECT * FROM t.pending(); ROLLBACK;
ALTER TABLE app.other ALTER id TYPE bigint;
BEGIN; INSERT INTO app.other VALUES (9223372036854775807, 'high'), (9007199254740993, 'odd'); SELECT * FROM t.pending(); ROLLBACK;
-- a column that is changed to a type without a fixed text fails the write
ALTER TABLE app.other ALTER name TYPE timestamptz USING now();
SELECT t.call($$INSERT INTO app.other VALUES (2, now()) RETURNING 1$$);
ALTER TABLE app.other ALTER name TYPE varchar(50);
-- a batch of more changes than are kept in memory
BEGIN;
SET debug_discard_caches = 0; INSERT INTO app.other SELECT n, 'n' || n FROM generate_series(1, 200000) n; RESET debug_discard_caches;
SELECT jsonb_array_length(create_records) FROM claims.pending_batch();
SAVEPOINT s; INSERT INTO app.other VALUES (0, 'one too many'); SELECT t.call('SELECT * FROM claims.pending_batch()');
ROLLBACK TO s; SELECT jsonb_array_length(create_records) FROM claims.pending_batch();
ROLLBACK;
SELECT claims.unclaim_attribute('app.other', 'name');
DROP SCHEMA app CASCADE; DROP SCHEMA "where Citext is" CASCADE;
