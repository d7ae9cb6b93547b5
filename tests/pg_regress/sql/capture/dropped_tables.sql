-- A session drops its plans for captured tables when the tables are dropped.
DELETE FROM claims.requests;
CREATE FUNCTION t.plans() RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN count(*) FILTER (WHERE ident LIKE '%to_jsonb($1) OFFSET 0%') <= 2 THEN 'few' ELSE 'many' END || ' of requests, ' ||
           CASE WHEN count(*) FILTER (WHERE ident LIKE 'SELECT CASE WHEN %AS short_lived%') <= 2 THEN 'few' ELSE 'many' END || ' of claims'
      FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource' $$;
DO $$
BEGIN
    FOR n IN 1..40 LOOP
        CREATE TABLE t.short_lived (id int PRIMARY KEY, name text UNIQUE);
        PERFORM claims.capture_requests('t.short_lived', 'q', 'id');
        PERFORM claims.claim_attribute('t.short_lived', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id');
        INSERT INTO t.short_lived VALUES (n, 'n' || n);
        -- Nothing is left that would have to be claimed at the end.
        DELETE FROM t.short_lived;
        DROP TABLE t.short_lived;
    END LOOP;
END $$;
SELECT t.plans();
SELECT count(*) FROM claims.requests WHERE queue = 'q';
DELETE FROM claims.requests;
-- partitions that are created and dropped, of a table that stays
CREATE TABLE t.parted (id int PRIMARY KEY, name text) PARTITION BY RANGE (id);
SELECT claims.capture_requests('t.parted', 'q', 'id');
DO $$
BEGIN
    FOR n IN 1..40 LOOP
        EXECUTE format('CREATE TABLE t.part_%s PARTITION OF t.parted FOR VALUES FROM (%s) TO (%s)', n, n, n + 1);
        INSERT INTO t.parted VALUES (n, 'n' || n);
        EXECUTE format('DROP TABLE t.part_%s', n);
    END LOOP;
END $$;
SELECT t.plans();
SELECT count(*) FROM claims.requests WHERE queue = 'q';
DELETE FROM claims.requests;
DROP TABLE t.parted;
