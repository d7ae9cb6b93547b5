-- Virtual generated columns, of which triggers get no values: refused where a value would be missed.
SET client_min_messages = error;
SELECT current_setting('server_version_num')::int < 180000 AS has_none \gset
\if :has_none
\quit
\endif
CREATE SCHEMA app;
CREATE TABLE app.users (id int PRIMARY KEY, name text, folded text GENERATED ALWAYS AS (lower(name)),
      stored text GENERATED ALWAYS AS (lower(name)) STORED, owner int GENERATED ALWAYS AS (id + 1), gone text GENERATED ALWAYS AS ('') VIRTUAL);
ALTER TABLE app.users DROP gone;
CREATE FUNCTION t.claims(attribute text, subject text DEFAULT 'id', condition text DEFAULT NULL, source text DEFAULT NULL)
  RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.call(format('SELECT claims.claim_attribute(%L, %L, %L, %L, %L, %L, %L, %L)', 'app.users', attribute, 'USERNAMES', 'USER',
            subject, 'RAILS_TABLE_USERS', source, condition)) $$;
SELECT t.claims('folded');
SELECT t.claims('name', 'owner');
SELECT t.claims('name', source => 'owner');
-- virtual columns in conditions: alone, nested, and through the whole row
SELECT t.claims('name', condition => $$ folded <> 'x' $$);
SELECT t.claims('name', condition => $$ CASE WHEN id > 1 THEN coalesce(length(users.folded), 0) > 0 END $$);
SELECT t.claims('name', condition => 'users IS NOT NULL');
SELECT count(*) FROM claims.claimed_attributes;
-- stored generated columns can be claimed and used in conditions
SELECT t.claims('stored', condition => $$ stored <> 'x' AND id > 0 $$);
BEGIN; INSERT INTO app.users VALUES (1, 'Name'), (2, 'X'); SELECT * FROM t.pending(); COMMIT;
BEGIN; UPDATE app.users SET name = 'NAME'; SELECT * FROM t.pending(); ROLLBACK;
-- other columns of such a table can be claimed
SELECT t.claims('name');
SELECT claims.unclaim_attribute('app.users', 'stored');
BEGIN; UPDATE app.users SET name = 'Other' WHERE id = 1; SELECT * FROM t.pending(); ROLLBACK;
BEGIN; UPDATE app.users SET id = 7 WHERE id = 1; SELECT count(*) FROM t.pending(); ROLLBACK;
-- a claimed column that becomes a virtual one fails the write
ALTER TABLE app.users DROP folded, DROP stored, DROP name;
ALTER TABLE app.users ADD name text GENERATED ALWAYS AS ('x' || id);
SELECT t.call('INSERT INTO app.users VALUES (3)');
-- a virtual column cannot be the entity of requests
SELECT t.call($$SELECT claims.capture_requests('app.users', 'virtual', 'name')$$);
SELECT claims.capture_requests('app.users', 'virtual', 'id');
SELECT claims.unclaim_attribute('app.users', 'name');
INSERT INTO app.users VALUES (3);
SELECT entity, payload FROM claims.requests WHERE queue = 'virtual';
DROP SCHEMA app CASCADE;
DELETE FROM claims.requests;
DROP FUNCTION t.claims;
