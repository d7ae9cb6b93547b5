-- Planner settings and stale statistics do not change the results of expiring claims or the rows they read.
DELETE FROM claims.expiring_claims;
ANALYZE claims.expiring_claims;
CREATE FUNCTION t.life(settings text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE setting text; n bigint; m bigint;
BEGIN
    FOREACH setting IN ARRAY settings LOOP PERFORM set_config(setting, 'off', true); END LOOP;
    RETURN NEXT 'add ' || claims.add_expiring('p', (SELECT array_agg('k' || i) FROM generate_series(1, 300) i));
    SELECT count(*), count(DISTINCT token) INTO n, m FROM claims.acquire_expiring('p', 'one', '60 s', 100);
    RETURN NEXT format('acquire %s with %s tokens', n, m);
    RETURN NEXT 'held ' || (SELECT count(*) FROM claims.held_expiring('p', 'one'));
    RETURN NEXT 'acquire the rest ' || (SELECT count(*) FROM claims.acquire_expiring('p', 'two', '60 s'));
    RETURN NEXT 'renew ' || (SELECT count(*) FROM claims.renew_expiring('p', 'one', '70 s'));
    RETURN NEXT 'release ' || claims.release_expiring('p', 'one',
          (SELECT array_agg(key) FROM (SELECT key FROM claims.held_expiring('p', 'one') ORDER BY key LIMIT 40) s));
    RETURN NEXT 'acquire again ' || (SELECT count(*) FROM claims.acquire_expiring('p', 'three', '60 s', 1000));
    RETURN NEXT 'release all ' || claims.release_expiring('p', 'two');
    RETURN NEXT 'holders ' || (SELECT string_agg(claimant || ' ' || c, ', ')
          FROM (SELECT claimant, count(*) c FROM claims.expiring_claims WHERE expires_at > clock_timestamp() GROUP BY 1 ORDER BY 1) s);
    RETURN NEXT 'remove ' || claims.remove_expiring('p', (SELECT array_agg('k' || i) FROM generate_series(0, 400) i));
END $$;
SELECT t.life('{}');
-- every planner setting switched off, with fresh plans in a new session
\c
SELECT t.life('{enable_hashjoin,enable_mergejoin,enable_sort,enable_material,enable_hashagg,enable_incremental_sort}') EXCEPT ALL SELECT t.life('{}');
\c
SELECT t.life('{enable_nestloop,enable_indexscan,enable_indexonlyscan,enable_sort,enable_material}') EXCEPT ALL SELECT t.life('{}');
\c
SET plan_cache_mode = force_custom_plan;
SELECT t.life('{enable_seqscan,enable_bitmapscan}') EXCEPT ALL SELECT t.life('{}');
RESET plan_cache_mode;

-- after statistics of an empty table, statements on 5,000 keys read each row a few times
DELETE FROM claims.expiring_claims;
ANALYZE claims.expiring_claims;
\c
SELECT count(*) FROM claims.acquire_expiring('s', 'one', '60 s'), claims.renew_expiring('s', 'one', '60 s');
SELECT claims.release_expiring('s', 'one'), claims.remove_expiring('s', '{x}'), claims.add_expiring('s', '{x}'), claims.remove_expiring('s', '{x}');
CREATE FUNCTION t.reads(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE was bigint; n bigint; per_row numeric;
    reads CONSTANT text := 'SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid)) + sum(pg_stat_get_xact_tuples_returned(i.indrelid))
        FROM pg_index i WHERE i.indrelid = ''claims.expiring_claims''::regclass';
BEGIN
    EXECUTE reads INTO was;
    EXECUTE statement INTO n;
    EXECUTE reads INTO per_row;
    RETURN format('%s keys, %s', n, CASE WHEN per_row - was <= 40000 THEN 'few reads' ELSE (per_row - was)::text || ' reads' END);
END $$;
BEGIN;
SELECT t.reads('SELECT claims.add_expiring(''s'', (SELECT array_agg(''k'' || i) FROM generate_series(1, 5000) i))');
SELECT t.reads('SELECT count(*) FROM claims.acquire_expiring(''s'', ''one'', ''60 s'')');
SELECT t.reads('SELECT count(*) FROM claims.renew_expiring(''s'', ''one'', ''70 s'')');
SELECT t.reads('SELECT claims.release_expiring(''s'', ''one'', (SELECT array_agg(''k'' || i) FROM generate_series(1, 2500) i))');
SELECT t.reads('SELECT count(*) FROM claims.acquire_expiring(''s'', ''two'', ''60 s'', 10)');
SELECT t.reads('SELECT claims.add_expiring(''s'', (SELECT array_agg(''k'' || i) FROM generate_series(1, 5000) i))');
SELECT t.reads('SELECT claims.remove_expiring(''s'', (SELECT array_agg(''k'' || i) FROM generate_series(1, 5000) i))');
COMMIT;
DELETE FROM claims.expiring_claims;
