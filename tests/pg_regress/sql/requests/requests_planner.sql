-- Planner settings and stale statistics do not change the results of take_requests or the rows it reads.
SET claims.notify_requests = off;
DELETE FROM claims.requests;
VACUUM (ANALYZE) claims.requests;
CREATE PROCEDURE t.story(settings text[]) LANGUAGE plpgsql AS $$
DECLARE setting text; got text; first bigint;
BEGIN
    FOREACH setting IN ARRAY settings LOOP PERFORM set_config(setting, 'off', false); END LOOP;
    DELETE FROM claims.requests;
    DELETE FROM t.told;
    ALTER TABLE claims.requests ALTER id RESTART;
    -- 60 entities: every third without a create, every fifth with two updates before it
    PERFORM claims.enqueue_request('q', 'e' || n % 60, CASE WHEN n BETWEEN 60 AND 119 AND n % 3 > 0 THEN 'create' ELSE 'update' END)
       FROM generate_series(1, 300) n WHERE n >= 60 OR n % 5 = 0;
    COMMIT;
    FOR round IN 1..1000 LOOP
        got := t.take('q', 1);
        EXIT WHEN got IS NULL;
        INSERT INTO t.told (what) VALUES (got);
        PERFORM claims.settle_requests(t.u(1), CASE WHEN got LIKE '%create e7' THEN 'no' END);
        COMMIT;
        IF got LIKE '% e20' THEN
            INSERT INTO t.told (what) VALUES (t.take('q', 2, hold => '1 microsecond'));
            COMMIT;
        END IF;
        IF round = 1000 THEN RAISE 'work without end'; END IF;
    END LOOP;
    INSERT INTO t.told (what) SELECT t.requests('q');
END $$;
CREATE TABLE t.told (n int GENERATED ALWAYS AS IDENTITY, what text);
SET debug_discard_caches = 0; CALL t.story('{}'); RESET debug_discard_caches;
CREATE TABLE t.first_told AS SELECT what FROM t.told ORDER BY n;
SELECT what FROM t.told ORDER BY n LIMIT 12;
SELECT count(*), count(*) FILTER (WHERE what LIKE '%complete%'), count(*) FILTER (WHERE what LIKE '% new %') FROM t.told;
-- the story again under other settings, each in a new session without plans
\c
SET claims.notify_requests = off;
SET debug_discard_caches = 0;
CALL t.story('{enable_hashjoin,enable_mergejoin,enable_sort,enable_material,enable_hashagg,enable_incremental_sort}');
RESET debug_discard_caches;
SELECT count(*) FROM (SELECT what FROM t.told EXCEPT ALL SELECT what FROM t.first_told) s;
\c
SET claims.notify_requests = off;
SET debug_discard_caches = 0;
CALL t.story('{enable_nestloop,enable_indexscan,enable_indexonlyscan,enable_sort,enable_material}');
RESET debug_discard_caches;
SELECT count(*) FROM (SELECT what FROM t.told EXCEPT ALL SELECT what FROM t.first_told) s;
\c
SET claims.notify_requests = off;
SET plan_cache_mode = force_custom_plan;
SET debug_discard_caches = 0; CALL t.story('{enable_seqscan,enable_bitmapscan,enable_material}'); RESET debug_discard_caches;
SELECT count(*) FROM (SELECT what FROM t.told EXCEPT ALL SELECT what FROM t.first_told) s;

-- t.read() counts the rows and index entries that a call reads
CREATE FUNCTION t.read() RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid)) + max(pg_stat_get_xact_tuples_returned(i.indrelid))
      FROM pg_index i WHERE i.indrelid = 'claims.requests'::regclass $$;
CREATE FUNCTION t.row_reads(what text, OUT answer text) LANGUAGE plpgsql AS $$
DECLARE was bigint := t.read();
BEGIN
    EXECUTE 'SELECT ' || what INTO answer;
    was := t.read() - was;
    answer := coalesce(answer, 'nothing') || CASE WHEN was < 60 THEN '' ELSE format(' after %s reads', was) END;
END $$;
CREATE FUNCTION t.one_round(queue text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT t.row_reads(q) FROM unnest(ARRAY[
        format('count(*) FROM claims.take_requests(%L, t.u(1))', queue), 'claims.settle_requests(t.u(1))',
        format('count(*) FROM claims.take_requests(%L, t.u(1), 0, ''1 min'')', queue), 'claims.extend_requests(t.u(1), ''2 min'')',
        'claims.settle_requests(t.u(1), ''no'')',
        format('claims.enqueue_request(%L, ''late'', ''update'') > 0', queue), format('claims.retry_requests(%L, ''second'')', queue)]) q $$;
-- plans for an empty table; then 20,000 settled, 20,000 blocked and 20,000 waiting requests
DELETE FROM claims.requests;
VACUUM (ANALYZE) claims.requests;
\c
SET claims.notify_requests = off;
BEGIN;
SET debug_discard_caches = 0;
SELECT count(claims.enqueue_request('q', e, 'update')) FROM unnest('{first,second}'::text[]) e;
RESET debug_discard_caches;
SELECT t.one_round('q');
ROLLBACK;
SET debug_discard_caches = 0;
SELECT count(claims.enqueue_request('q', 'settled', 'update')) FROM generate_series(1, 20000);
RESET debug_discard_caches;
BEGIN; SELECT count(*) FROM claims.take_requests('q', t.u(1)); SELECT claims.settle_requests(t.u(1)); COMMIT;
SELECT claims.enqueue_request('q', 'blocked', 'create') > 0;
BEGIN; SELECT count(*) FROM claims.take_requests('q', t.u(1)); SELECT claims.settle_requests(t.u(1), 'no'); COMMIT;
SET debug_discard_caches = 0;
SELECT count(claims.enqueue_request('q', 'blocked', 'update')) FROM generate_series(1, 20000);
RESET debug_discard_caches;
SELECT claims.enqueue_request('q', 'first', 'update') > 0, claims.enqueue_request('q', 'second', 'update') > 0;
SET debug_discard_caches = 0;
SELECT count(claims.enqueue_request('q', 'e' || n, 'update')) FROM generate_series(1, 20000) n;
RESET debug_discard_caches;
-- a session that has not taken for long reads past the settled rows once
BEGIN; SELECT count(*) FROM claims.take_requests('q', t.u(1)); ROLLBACK;
BEGIN; SELECT t.one_round('q'); ROLLBACK;
-- a new session reads past rows that VACUUM has not removed, in its first take
VACUUM claims.requests;
\c
SET claims.notify_requests = off;
BEGIN; SELECT t.one_round('q'); ROLLBACK;
-- a session that planned with index scans switched off
\c
SET claims.notify_requests = off;
SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_nestloop = off;
BEGIN; SELECT t.one_round('q'); ROLLBACK;
\c
SET claims.notify_requests = off;
BEGIN; SELECT count(*) FROM claims.take_requests('q', t.u(1)); ROLLBACK;
-- statistics of all requests waiting, and of all settled
ANALYZE claims.requests;
BEGIN; SELECT t.one_round('q'); ROLLBACK;
UPDATE claims.requests SET status = 'complete', settled_at = now() WHERE status = 'new' AND entity NOT IN ('blocked', 'first', 'second');
ANALYZE claims.requests;
BEGIN; SELECT count(*) FROM claims.take_requests('q', t.u(1)); ROLLBACK;
BEGIN; SELECT t.one_round('q'); ROLLBACK;
DELETE FROM claims.requests;
VACUUM (ANALYZE) claims.requests;
