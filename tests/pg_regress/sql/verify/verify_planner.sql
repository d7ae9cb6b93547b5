-- Verification of a range reads only that range: an index leads to its start in the cell and at the service.
SELECT t.clean();
SET client_min_messages = warning;
CREATE SCHEMA plans;
SELECT t.keep_caches_of_service();
DO $$ BEGIN
    EXECUTE format('CREATE SERVER regress_claims_plans FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
                   current_setting('unix_socket_directories'), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR postgres SERVER regress_claims_plans OPTIONS (user 'postgres');
-- Pages of indexes and scans of the table that a statement reads, at most twice, for ANALYZE adds some. A whole index has over 50.
CREATE FUNCTION plans.reads(of_table regclass, statement text, attempts int DEFAULT 2) RETURNS text LANGUAGE plpgsql AS $$
DECLARE pages bigint; scans bigint; result text;
    pages_read CONSTANT text := 'SELECT sum(pg_stat_get_xact_blocks_fetched(i.indexrelid)) FROM pg_index i WHERE i.indrelid = $1';
BEGIN
    FOR attempt IN 1..attempts LOOP
        EXECUTE pages_read INTO pages USING of_table;
        scans := pg_stat_get_xact_numscans(of_table);
        EXECUTE statement INTO result;
        EXECUTE replace(pages_read, 'SELECT sum', 'SELECT - $2 + sum') INTO pages USING of_table, pages;
        EXIT WHEN pages <= 30;
    END LOOP;
    RETURN format('%s; %s pages of indexes, %s scans of the table', result,
                  CASE WHEN pages = 0 THEN 'no' WHEN pages <= 30 THEN 'few' ELSE pages::text END, pg_stat_get_xact_numscans(of_table) - scans);
END $$;
-- at the service: 20,000 claims; ranges of 200 at the start, in the middle and at the end, and one without end
INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
    SELECT 1, 'b' || n, 2, '1', 3, n, 1, 1 FROM generate_series(100000, 119999) n;
VACUUM ANALYZE claims.claims;
SELECT plans.reads('claims.claims', format('SELECT records FROM claims.digest_records(1, %L, %L, %L)', 'RAILS_TABLE_ROUTES', gt, lte)),
       plans.reads('claims.claims', format('SELECT count(*) FROM claims.verify_records(1, %L, %L, %L, %L)', 'RAILS_TABLE_ROUTES', gt, lte, '[]')),
       plans.reads('claims.claims',
         format('SELECT count(*) FROM claims.list_records(1, %L, source_id_gt => %L, source_id_lte => %L)', 'RAILS_TABLE_ROUTES', gt, lte))
  FROM (VALUES ('100000', '100200'), ('110000', '110200'), ('119800', '119999'), ('119800', NULL), (NULL, '100200'), ('99800', '100200'),
    ('119800', '1000000')) r (gt, lte);
SELECT t.clean();
-- in the cell: 20,000 rows with keys of several types; the guide describes the index for texts
CREATE TABLE plans.ints (id bigint PRIMARY KEY, path text UNIQUE, grp int);
CREATE TABLE plans.uuids (id uuid PRIMARY KEY, path text UNIQUE, grp int);
CREATE TABLE plans.texts (id text COLLATE "tr-x-icu" PRIMARY KEY, path text UNIQUE, grp int);
CREATE TABLE plans.chars (id varchar(40) PRIMARY KEY, path text UNIQUE, grp int);
CREATE EXTENSION citext SCHEMA plans; CREATE DOMAIN plans.slug AS text CHECK (length(VALUE) > 2);
CREATE TABLE plans.folds (id plans.citext PRIMARY KEY, path text UNIQUE, grp int);
CREATE TABLE plans.slugs (id plans.slug PRIMARY KEY, path text UNIQUE, grp int);
CREATE INDEX ON plans.folds (length(id::text), (id::text) COLLATE "C");
CREATE INDEX ON plans.slugs (length(id::text), (id::text) COLLATE "C");
CREATE INDEX ON plans.texts (length(id::text), (id::text) COLLATE "C");
CREATE INDEX ON plans.chars (length(id::text), (id::text) COLLATE "C");
SET debug_discard_caches = 0; INSERT INTO plans.ints SELECT n, 'i' || n, 1 FROM generate_series(100000, 119999) n; RESET debug_discard_caches;
SET debug_discard_caches = 0;
INSERT INTO plans.uuids SELECT lpad(n::text, 32, '0')::uuid, 'u' || n, 1 FROM generate_series(100000, 119999) n;
RESET debug_discard_caches;
SET debug_discard_caches = 0;
INSERT INTO plans.texts SELECT 'Key ' || n, 't' || n, 1 FROM generate_series(100000, 119999) n;
RESET debug_discard_caches;
SET debug_discard_caches = 0;
INSERT INTO plans.chars SELECT 'Key ' || n, 'c' || n, 1 FROM generate_series(100000, 119999) n;
RESET debug_discard_caches;
SET debug_discard_caches = 0;
INSERT INTO plans.folds SELECT 'Key ' || n, 'f' || n, 1 FROM generate_series(100000, 119999) n;
RESET debug_discard_caches;
SET debug_discard_caches = 0;
INSERT INTO plans.slugs SELECT 'Key ' || n, 's' || n, 1 FROM generate_series(100000, 119999) n;
RESET debug_discard_caches;
VACUUM ANALYZE plans.folds;
VACUUM ANALYZE plans.slugs;
VACUUM ANALYZE plans.ints;
VACUUM ANALYZE plans.uuids;
VACUUM ANALYZE plans.texts;
VACUUM ANALYZE plans.chars;
INSERT INTO claims.claimed_attributes VALUES ('plans.ints', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_USERS', 'id', NULL),
    ('plans.uuids', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_EMAILS', 'id', NULL),
    ('plans.texts', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', 'id', NULL),
    ('plans.chars', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_PROJECTS', 'id', NULL),
    ('plans.folds', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_GROUPS', 'id', NULL),
    ('plans.slugs', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ORGANIZATIONS', 'id', NULL);
CREATE VIEW plans.sources (source, of_table, id) AS VALUES ('RAILS_TABLE_USERS', 'plans.ints'::regclass, '%s'),
    ('RAILS_TABLE_EMAILS', 'plans.uuids', '00000000-0000-0000-0000-000000%s'),
    ('RAILS_TABLE_ROUTES', 'plans.texts', 'Key %s'), ('RAILS_TABLE_PROJECTS', 'plans.chars', 'Key %s'),
    ('RAILS_TABLE_GROUPS', 'plans.folds', 'Key %s'), ('RAILS_TABLE_ORGANIZATIONS', 'plans.slugs', 'Key %s');
SELECT of_table, plans.reads(of_table, format('SELECT records FROM claims.digest_expected(%L, %L, %L)', source, format(id, gt), format(id, lte)))
  FROM plans.sources, (VALUES ('100000', '100200'), ('110000', '110200'), ('119800', '119999')) r (gt, lte) ORDER BY of_table::text, gt;
SELECT of_table, plans.reads(of_table, format('SELECT records FROM claims.digest_expected(%L, %L)', source, format(id, '119800')))
  FROM plans.sources ORDER BY of_table::text;
-- a whole verification: bounds, middles of ranges, the second comparison, and rows with claims held elsewhere
DO $$ BEGIN
    EXECUTE (SELECT string_agg(format('INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type,
              source_id, creator_id, status)
        SELECT 1, path, 2, grp, y.id, r.id::text, 1, 1 FROM %s r, claims.source_types y WHERE y.name = %L', of_table, source), '; ')
              FROM plans.sources);
END $$;
UPDATE claims.claims SET subject_id = '2' WHERE bucket_value ~ '^.1(00000|12345|19999)$';
SELECT of_table,
    regexp_replace(plans.reads(of_table, format('SELECT format(''checked %%s, different %%s, corrected %%s'', checked, different, corrected)
          FROM claims.verify(1, %L, %L, 20, %L, %L)', 'regress_claims_plans', source, '0', correct), 1), '[0-9]+ pages of indexes, ', '')
  FROM plans.sources, unnest('{f,t}'::boolean[]) correct ORDER BY of_table::text, correct;
DELETE FROM claims.claimed_attributes;
DROP SCHEMA plans CASCADE; DROP SERVER regress_claims_plans CASCADE;
RESET client_min_messages;
SELECT t.clean();
VACUUM claims.claims;
