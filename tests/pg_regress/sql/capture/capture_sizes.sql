-- Texts that are too long for a claim are refused when they are written; stored ones are read only where that is needed.
SET client_min_messages = error;
SELECT t.clean();
CREATE SCHEMA app;
CREATE TABLE app.pages (id bigint PRIMARY KEY, path text, body text, is_listed boolean NOT NULL DEFAULT true, title varchar);
ALTER TABLE app.pages ALTER path SET STORAGE EXTERNAL, ALTER body SET STORAGE EXTERNAL;
-- rows from before the declaration
INSERT INTO app.pages VALUES (1, repeat('old', 100000), repeat('b', 300000)), (2, 'short', repeat('b', 300000));
SELECT claims.claim_attribute('app.pages', 'path', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES');
CREATE FUNCTION app.save(statement text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(format('WITH saved AS (%s RETURNING 1) SELECT count(*) FROM saved', statement)) $$;
-- pending changes, names by their length
CREATE FUNCTION app.pending() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT regexp_replace(p, '\S{40,}', '(long)') FROM t.pending() p $$;
-- blocks of stored texts that were read so far
CREATE FUNCTION app.stored() RETURNS bigint LANGUAGE sql AS $$
    SELECT toast_blks_read + toast_blks_hit FROM pg_statio_user_tables WHERE relid = 'app.pages'::regclass $$;
-- too long for a bucket, in characters, in bytes, and at sight
SELECT app.save($$INSERT INTO app.pages VALUES (10, repeat('é', 1025))$$);
SELECT app.save($$INSERT INTO app.pages VALUES (10, repeat('😀', 651))$$);
SELECT app.save($$INSERT INTO app.pages VALUES (10, repeat('x', 4097))$$);
SELECT app.save($$INSERT INTO app.pages VALUES (10, repeat('x', 10000000))$$);
SELECT app.save($$UPDATE app.pages SET path = repeat('x', 200000) WHERE id = 2$$);
BEGIN; SELECT app.save($$INSERT INTO app.pages VALUES (10, repeat('é', 1024))$$); SELECT * FROM app.pending(); ROLLBACK;
-- a row that was too long before
BEGIN;
UPDATE app.pages SET is_listed = false WHERE id = 1;
UPDATE app.pages SET id = 3 WHERE id = 1;
UPDATE app.pages SET path = path || '' WHERE id = 3;
SELECT * FROM app.pending();
SELECT app.save($$UPDATE app.pages SET path = repeat('new', 100000) WHERE id = 3$$);
UPDATE app.pages SET path = 'fits' WHERE id = 3;
SELECT * FROM app.pending();
UPDATE app.pages SET path = NULL WHERE id = 3;
DELETE FROM app.pages WHERE id = 3;
SELECT * FROM app.pending();
ROLLBACK;
BEGIN; DELETE FROM app.pages WHERE id = 1; SELECT count(*) FROM app.pending(); ROLLBACK;
-- keys
CREATE TABLE app.texts (id text PRIMARY KEY, path text, owner varchar);
SELECT claims.claim_attribute('app.texts', 'path', 'ROUTES', 'GROUP', 'owner', 'RAILS_TABLE_ROUTES');
SELECT app.save($$INSERT INTO app.texts VALUES (repeat('k', 129), 'path', 'o')$$);
SELECT app.save($$INSERT INTO app.texts VALUES ('k', 'path', repeat('o', 100000))$$);
SELECT app.save($$INSERT INTO app.texts VALUES ('k', NULL, repeat('o', 100000))$$);
SELECT app.save($$UPDATE app.texts SET path = 'path'$$);
-- what is not captured may have any length
BEGIN; SELECT claims.skip_capture('sizes'); INSERT INTO app.pages VALUES (10, repeat('x', 100000)); ROLLBACK;
-- nothing stored is read, if it does not change
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT app.stored() AS before \gset
UPDATE app.pages SET is_listed = false WHERE id = 1;
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT app.stored() - :before;
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT app.stored() AS before \gset
UPDATE app.pages SET is_listed = false, path = 'other' WHERE id = 2;
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT app.stored() - :before;
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT app.stored() AS before \gset
UPDATE app.pages SET is_listed = true;
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT app.stored() - :before;
-- with a condition
SELECT claims.claim_attribute('app.pages', 'path', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id', 'is_listed');
SELECT app.save($$INSERT INTO app.pages VALUES (10, repeat('x', 100000))$$);
SELECT app.save($$INSERT INTO app.pages VALUES (10, repeat('x', 100000), repeat('b', 300000), false)$$);
SELECT app.save($$UPDATE app.pages SET path = repeat('y', 100000) WHERE id = 10$$);
SELECT app.save($$UPDATE app.pages SET is_listed = true WHERE id = 10$$);
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT app.stored() AS before \gset
UPDATE app.pages SET title = 'x' WHERE id = 10;
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT app.stored() - :before;
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT app.stored() AS before \gset
UPDATE app.pages SET title = 'x' WHERE id = 1;
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT app.stored() - :before;
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT app.stored() AS before \gset
UPDATE app.pages SET title = 'x', path = 'new' WHERE id = 2;
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT app.stored() - :before;
BEGIN; UPDATE app.pages SET path = 'fits', is_listed = true WHERE id = 10; SELECT * FROM app.pending(); ROLLBACK;
-- a condition that reads a large column
SELECT claims.claim_attribute('app.pages', 'path', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id', 'body LIKE ''b%''');
BEGIN;
UPDATE app.pages SET path = 'fits' WHERE id = 2;
SELECT * FROM app.pending();
UPDATE app.pages SET body = 'a' WHERE id = 2;
SELECT * FROM app.pending();
ROLLBACK;
-- a condition that keeps the whole row: what it keeps is complete
CREATE TABLE app.kept (page app.pages);
CREATE FUNCTION app.keeps(app.pages) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO app.kept VALUES ($1); RETURN true; END $$;
SELECT claims.claim_attribute('app.pages', 'path', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id', 'app.keeps(pages)');
UPDATE app.pages SET path = 'kept' WHERE id = 2;
UPDATE app.pages SET body = repeat('c', 10);
VACUUM app.pages;
SELECT (page).path, length((page).body), count(*) FROM app.kept WHERE (page).id = 2 GROUP BY 1, 2 ORDER BY 1, 2;
SELECT claims.unclaim_attribute('app.pages', 'path'), claims.unclaim_attribute('app.texts', 'path');
-- the bytes of a transaction
CREATE TABLE app.many (id bigint PRIMARY KEY, path text);
SELECT claims.claim_attribute('app.many', 'path', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES');
BEGIN;
SET LOCAL debug_discard_caches = 0;
INSERT INTO app.many SELECT n, repeat('中', 860) || n FROM generate_series(100001, 103500) n;
SAVEPOINT fits;
INSERT INTO app.many SELECT n, repeat('中', 860) || n FROM generate_series(103501, 205000) n;
SELECT t.call($$SELECT count(*) FROM claims.pending_batch()$$);
ROLLBACK TO SAVEPOINT fits;
SELECT jsonb_array_length(create_records), jsonb_array_length(destroy_records) FROM claims.pending_batch();
ROLLBACK;
SELECT claims.unclaim_attribute('app.many', 'path');
DROP SCHEMA app CASCADE;
SELECT t.clean();
