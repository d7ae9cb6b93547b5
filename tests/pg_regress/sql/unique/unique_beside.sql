-- Uniques beside other uniques, claimed columns and hostile objects, and what check() finds of them.
SET client_min_messages = error;
SET lock_timeout = '10s';
SELECT t.clean();
CREATE TABLE people (id bigint PRIMARY KEY, name text, email text);
CREATE TABLE guests (id bigint PRIMARY KEY, name text, email text);
CREATE TABLE events (id int, day date, key text) PARTITION BY RANGE (day);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
GRANT ALL ON people, guests, events TO PUBLIC;
-- t.claimed() returns the values, each with its unique and its table
CREATE FUNCTION t.claimed() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT coalesce(string_agg(format('%s %s in %s', n.name, c.bucket_value, coalesce(u.table_name::text, 'none')), ', '
                               ORDER BY n.name::text COLLATE "C", c.bucket_value COLLATE "C"), 'none')
      FROM claims.claims c JOIN claims.unique_tables u ON u.generation::text = c.source_id
      JOIN claims.unique_constraints n ON n.type_id = c.bucket_type $$;
CREATE FUNCTION t.found() RETURNS SETOF text LANGUAGE sql AS $$ SELECT problem || ': ' || detail FROM claims.check() ORDER BY 1 $$;

-- the first unique turns automatic mode on: it is refused where names are sent by hand
SELECT claims.claim_attribute('people', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES');
SELECT t.call($$SELECT claims.add_unique('names', '{people}', 'name')$$);
SELECT claims.unclaim_attribute('people', 'name');
-- two uniques on one table are two sets of values, and each is refused by its own name
SELECT claims.add_unique('names', '{people, guests}', 'name'), claims.add_unique('emails', '{people, guests}', 'email', 'casefold');
INSERT INTO people VALUES (1, 'a', 'b'); INSERT INTO guests VALUES (1, 'b', 'a'); SELECT t.claimed();
INSERT INTO guests VALUES (2, 'a', 'c');
INSERT INTO guests VALUES (2, 'c', 'B');
-- their values go to no service, and their claims follow the rows only
CREATE SERVER elsewhere FOREIGN DATA WRAPPER claims_service OPTIONS (host 'localhost', dbname 'elsewhere');
SELECT t.call(format($$SELECT claims.automatic(%s, 'elsewhere', '{emails}')$$, (SELECT cell_id FROM claims.automatic_service)));
SELECT t.call(format($$SELECT claims.begin_update(%s, '[]', '[{"bucket": {"type": "emails", "value": "b"}}]')$$,
                     (SELECT cell_id FROM claims.automatic_service)));
SELECT t.call(format($$SELECT claims.begin_first(%s, '[{"create_records": [{"bucket": {"type": "emails", "value": "z"},
                                                                            "subject": {"type": 1, "id": 1},
                                                                            "source": {"type": 1, "id": 1}}]}]')$$,
                     (SELECT cell_id FROM claims.automatic_service)));
BEGIN; INSERT INTO people VALUES (2, 'sent by hand', 'by hand'); SELECT * FROM claims.pending_batch(); ROLLBACK; DROP SERVER elsewhere;
SELECT claims.drop_unique('names', 'test');
INSERT INTO guests VALUES (2, 'a', 'c'); SELECT t.claimed();
INSERT INTO guests VALUES (3, 'a', 'C');

-- a claimed column of the same table keeps its own claims
SELECT claims.claim_attribute('people', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES');
INSERT INTO people VALUES (4, 'route', 'd');
SELECT bucket_type, bucket_value, source_id FROM claims.records WHERE bucket_type = 'ROUTES';
UPDATE people SET name = 'road', email = 'e' WHERE id = 4; SELECT t.claimed();
DELETE FROM people WHERE id = 4; SELECT t.claimed(), (SELECT count(*) FROM claims.records WHERE bucket_type = 'ROUTES');
-- begin_pending() sends the claimed name to a service, here in the same database, and leaves the unique value to the COMMIT
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_unique FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_unique OPTIONS (user 'postgres');
BEGIN; INSERT INTO people VALUES (4, 'by hand', 'by hand');
SELECT jsonb_path_query_array(create_records, '$[*].bucket.value') FROM claims.pending_batch();
SELECT claims.begin_pending(1, 'regress_claims_unique') AS lease \gset
COMMIT; SELECT claims.finish(1, 'regress_claims_unique', :'lease');
SELECT t.claimed(), (SELECT string_agg(bucket_value || ' of ' || cell_id, ', ') FROM claims.records WHERE bucket_type = 'ROUTES');
INSERT INTO guests VALUES (4, NULL, 'by hand'); DELETE FROM people WHERE id = 4; DROP SERVER regress_claims_unique CASCADE; SELECT t.claimed();
SELECT claims.commit_update(1, claims.begin_update(1, '[]', '[{"bucket": {"type": "ROUTES", "value": "by hand"}}]'));
SELECT claims.unclaim_attribute('people', 'name');

-- a session that has written a partition follows the owner of the partitioned table, whose code a condition is
CREATE FUNCTION runs_as(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'a condition runs as %', current_user; RETURN true; END $$;
SELECT claims.add_unique('keys', '{events}', 'key', condition => 'runs_as(key)');
SET client_min_messages = warning; INSERT INTO events VALUES (1, '2024-01-05', 'x');
ALTER TABLE events OWNER TO regress_claims_two; INSERT INTO events VALUES (1, '2024-01-05', 'y'); SET client_min_messages = error;
ALTER TABLE events RENAME TO occasions; INSERT INTO occasions VALUES (1, '2024-01-05', 'y'); ALTER TABLE occasions RENAME TO events;
ALTER TABLE events OWNER TO CURRENT_USER; SELECT claims.drop_unique('keys', 'test'); TRUNCATE events;
-- another owner, and a role that may only write
ALTER TABLE guests OWNER TO regress_claims_two;
SET ROLE regress_claims_nobody; INSERT INTO guests VALUES (5, 'x', 'f'); RESET ROLE;
SET ROLE regress_claims_two; INSERT INTO guests VALUES (6, 'x', 'g');
INSERT INTO guests VALUES (7, 'x', 'F');
RESET ROLE; SELECT t.claimed();

-- objects of a hostile schema are not used
CREATE SCHEMA hostile; CREATE TABLE hostile.claims (LIKE people); CREATE TABLE hostile.unique_tables (generation text);
CREATE FUNCTION hostile.lower(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'hostile'::text $$;
CREATE FUNCTION hostile.equal(text, text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT false $$;
CREATE OPERATOR hostile.= (FUNCTION = hostile.equal, LEFTARG = text, RIGHTARG = text); GRANT USAGE ON SCHEMA hostile TO PUBLIC;
SET search_path = hostile, pg_catalog, public;
SET ROLE regress_claims_nobody; INSERT INTO public.guests VALUES (8, 'x', 'h'); INSERT INTO public.people VALUES (8, 'x', 'H'); RESET ROLE;
CREATE TABLE public.more (email text); INSERT INTO public.more VALUES ('i'), ('j');
SELECT claims.add_unique('mores', '{public.more}', 'email', condition => $$email OPERATOR(pg_catalog.<>) 'i'$$);
INSERT INTO public.more VALUES ('i'), ('k');
INSERT INTO public.more VALUES ('j');
SELECT claims.drop_unique('mores', 'test'); RESET search_path; SELECT t.claimed(); DROP SCHEMA hostile CASCADE;

-- check() finds nothing while a dropped partition's values wait for the worker
SELECT claims.add_unique('keys', '{events}', 'key'); INSERT INTO events VALUES (1, '2024-01-05', 'a'); DROP TABLE events_1;
SELECT t.claimed(); SELECT t.found();
-- triggers that do not fire, and a partition that came unnoticed
ALTER TABLE guests DISABLE TRIGGER "!claims_unique"; DROP TRIGGER claims_unique_truncate ON people;
ALTER EVENT TRIGGER claims_complete_triggers DISABLE;
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
CREATE TABLE events_3 (LIKE events); INSERT INTO events_3 VALUES (3, '2024-03-05', 'c');
ALTER TABLE events ATTACH PARTITION events_3 FOR VALUES FROM ('2024-03-01') TO ('2024-04-01');
-- also after their first rows
INSERT INTO events VALUES (4, '2024-03-06', 'd');
SELECT t.found();
ALTER EVENT TRIGGER claims_complete_triggers ENABLE;
-- import_unique mends those of the partitions
CALL claims.import_unique('keys'); SELECT t.found();
SELECT claims.drop_unique(name, 'test') FROM unnest('{keys,emails}'::text[]) name; SELECT t.found();
SELECT claims.add_unique('emails', '{people, guests}', 'email', 'casefold'), claims.add_unique('keys', '{events}', 'key'); SELECT t.found();
-- a partition that is a unique table by itself
CREATE TABLE whole (LIKE people) PARTITION BY RANGE (id); ALTER TABLE whole ATTACH PARTITION guests DEFAULT;
SELECT t.call($$SELECT claims.add_unique('wholes', '{whole}', 'email')$$); ALTER TABLE whole DETACH PARTITION guests; DROP TABLE whole;
-- automatic mode stays on as long as claimed columns need it
SELECT claims.claim_attribute('people', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES');
SELECT claims.drop_unique(name, 'test') FROM unnest('{keys,emails}'::text[]) name;
INSERT INTO people VALUES (30, 'still', NULL); SELECT bucket_value FROM claims.records WHERE bucket_type = 'ROUTES';
DELETE FROM people; SELECT claims.unclaim_attribute('people', 'name');
SELECT claims.add_unique('emails', '{people}', 'email'); SELECT claims.drop_unique('emails', 'test');
SELECT count(*) FROM claims.automatic_service;
DROP TABLE people, guests, events, more;
