-- Plans made for empty tables find claims by the primary key in full ones, whatever the statistics say.
SELECT t.clean();
-- dead rows of earlier tests are removed, for they would count as reads
VACUUM (ANALYZE, INDEX_CLEANUP on) claims.claims, claims.claim_leases;
\c
-- t.every_call() makes every call in this session, so that all plans are made now
CREATE FUNCTION t.every_call(lease int, VARIADIC vals text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE n bigint := 0; answer text := '';
BEGIN
    PERFORM claims.begin_update(1, t.creates(VARIADIC vals), '[]', t.u(lease));
    PERFORM claims.rollback_update(1, t.u(lease));
    PERFORM claims.begin_update(1, t.creates(VARIADIC vals), '[]', t.u(lease + 1));
    PERFORM claims.commit_update(1, t.u(lease + 1));
    SELECT count(*) INTO n FROM claims.get_records((SELECT jsonb_agg(jsonb_build_object('type', 1, 'value', v)) FROM unnest(vals) v));
    answer := answer || n || ' found';
    SELECT jsonb_array_length(b.conflicts) INTO n FROM claims.try_begin_update(2, t.creates(VARIADIC vals)) b;
    answer := answer || ', ' || n || ' taken';
    PERFORM claims.begin_update(1, '[]', t.destroys(VARIADIC vals), t.u(lease + 2));
    PERFORM claims.rollback_update(1, t.u(lease + 2));
    PERFORM claims.begin_update(1, '[]', t.creates(VARIADIC vals), t.u(lease + 4));
    PERFORM claims.rollback_update(1, t.u(lease + 4));
    PERFORM claims.begin_update(1, '[]', t.destroys(VARIADIC vals), t.u(lease + 3));
    PERFORM claims.settle_leases(1, ARRAY[t.u(lease + 3)]);
    SELECT count(*) INTO n FROM claims.get_records((SELECT jsonb_agg(jsonb_build_object('type', 1, 'value', v)) FROM unnest(vals) v));
    RETURN answer || ', ' || n || ' left';
END $$;
SELECT t.every_call(7000, 'a'), t.every_call(7010, 'a', 'b', 'c');
-- with 20,000 claims of others each call reads its own rows a few times
INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
    SELECT 1, 'other ' || n, 2, n, 3, n, 1, 1 FROM generate_series(1, 20000) n;
CREATE FUNCTION t.claim_reads() RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid))::bigint + pg_stat_get_xact_tuples_returned('claims.claims'::regclass)
      FROM pg_index i WHERE i.indrelid = 'claims.claims'::regclass $$;
CREATE FUNCTION t.reads_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE was bigint := t.claim_reads(); answer text;
BEGIN
    EXECUTE statement INTO answer;
    RETURN answer || CASE WHEN t.claim_reads() - was <= 300 THEN ', few reads' ELSE format(', %s reads', t.claim_reads() - was) END;
END $$;
BEGIN;
SELECT t.reads_of($$SELECT t.every_call(7020, 'a')$$);
SELECT t.reads_of($$SELECT t.every_call(7030, 'a', 'b', 'c')$$);
SELECT t.reads_of($$SELECT count(*) FROM claims.verify_records(1, 'RAILS_TABLE_USERS', NULL, NULL, t.creates('other 7', 'other 8'))$$);
COMMIT;
-- planner settings of the session change nothing
\c
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET plan_cache_mode = force_custom_plan;
BEGIN;
SELECT t.reads_of($$SELECT t.every_call(7040, 'a', 'b', 'c')$$);
COMMIT;
\c
SELECT t.clean();
-- dead rows of this test are removed, for later tests would read them
VACUUM claims.claims, claims.claim_leases;
DROP FUNCTION t.every_call, t.claim_reads, t.reads_of;
SELECT count(*) FROM claims.check();
