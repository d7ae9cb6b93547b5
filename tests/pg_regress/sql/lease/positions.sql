-- A session that has begun a lease settles its rows where it has written them, without a search of the indexes. Another session searches.
SELECT t.clean();
-- The searches of the two unique indexes since the session has begun.
CREATE FUNCTION t.searches(OUT leases bigint, OUT claims bigint) LANGUAGE sql AS $$
    SELECT pg_stat_get_xact_numscans('claims.claim_leases_pkey'::regclass), pg_stat_get_xact_numscans('claims.claims_bucket'::regclass)
$$;
-- The searches of one settlement.
CREATE FUNCTION t.settled(ending text, lease uuid, OUT leases bigint, OUT claims bigint) LANGUAGE plpgsql AS $$
DECLARE
    before record := t.searches();
BEGIN
    EXECUTE format('SELECT claims.%I(1, $1)', ending) USING lease;
    SELECT s.leases - before.leases, s.claims - before.claims INTO leases, claims FROM t.searches() s;
END $$;
-- in the order of the request or in another one; the second commit is a transaction of its own
SELECT claims.begin_update(1, t.creates('p3', 'p1', 'p2'), lease_uuid => t.u(1)) = t.u(1);
SELECT 'creates', * FROM t.settled('commit_update', t.u(1));
SELECT claims.begin_update(1, '[]', t.destroys('p2', 'p1'), t.u(2)) = t.u(2);
SELECT 'destroys given back', * FROM t.settled('rollback_update', t.u(2));
SELECT claims.begin_update(1, t.creates('q1', 'q2'), t.destroys('p2', 'p1'), t.u(3)) = t.u(3);
SELECT 'both given back', * FROM t.settled('rollback_update', t.u(3));
SELECT claims.begin_update(1, t.creates('q1', 'p1'), t.destroys('p2', 'p1'), t.u(4)) = t.u(4);
SELECT 'a create, a replacement, a destroy', * FROM t.settled('commit_update', t.u(4));
BEGIN;
SELECT claims.begin_update(1, t.creates('r'), lease_uuid => t.u(5)) = t.u(5);
SAVEPOINT s;
SELECT 'in one transaction', * FROM t.settled('commit_update', t.u(5));
ROLLBACK TO s;
SELECT 'once more', * FROM t.settled('commit_update', t.u(5));
COMMIT;
-- more rows than one portion
SELECT claims.begin_update(1, (SELECT jsonb_agg(t.claim('many' || n, id => n)) FROM generate_series(1, 600) n), lease_uuid => t.u(6)) = t.u(6);
SELECT 'many', * FROM t.settled('commit_update', t.u(6));
-- more leases than a session remembers: the earlier ones are found all the same
SELECT count(claims.begin_update(1, t.creates('first'), lease_uuid => t.u(7)));
SELECT count(claims.begin_update(1, (SELECT jsonb_agg(t.claim(part || '.' || n, id => n)) FROM generate_series(1, 1000) n),
    lease_uuid => t.u(7 + part))) FROM generate_series(1, 11) part;
SELECT 'forgotten', * FROM t.settled('commit_update', t.u(7));
SELECT 'remembered', * FROM t.settled('commit_update', t.u(18));
SELECT count(*) FROM claims.settle_leases(1, rollback_leases => ARRAY(SELECT t.u(7 + part) FROM generate_series(1, 10) part));
SELECT claims.begin_update(1, t.creates('s1', 's2'), t.destroys('q1'), t.u(20)) = t.u(20);
\c -
SELECT 'another session', * FROM t.settled('commit_update', t.u(20));
SELECT bucket_value, status, lease_uuid FROM claims.claims WHERE bucket_value !~ '^(many|11)' ORDER BY 1;
SELECT count(*), count(*) FILTER (WHERE status = 1) FROM claims.claims WHERE bucket_value ~ '^(many|11)';
SELECT count(*) FROM claims.claim_leases;
SELECT * FROM claims.check();
-- a payload is in the lease's row, as it is, if it fits on a page; a longer one is compressed with LZ4, if PostgreSQL has it
SELECT format('SELECT count(*) FROM %s', reltoastrelid::regclass) AS chunks FROM pg_class WHERE oid = 'claims.claim_leases'::regclass \gset
:chunks
\g
SELECT claims.begin_update(1, (SELECT jsonb_agg(t.claim('inline' || n, id => n)) FROM generate_series(1, 40) n), lease_uuid => t.u(21)) = t.u(21);
SELECT pg_column_size(payload) > 5000 AND pg_column_compression(payload) IS NULL FROM claims.claim_leases;
:chunks
\g
SELECT claims.rollback_update(1, t.u(21));
SELECT claims.begin_update(1, (SELECT jsonb_agg(t.claim('long' || n, id => n)) FROM generate_series(1, 400) n), lease_uuid => t.u(22)) = t.u(22);
SELECT pg_column_compression(payload) IS NOT DISTINCT FROM
       (SELECT 'lz4' FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) FROM claims.claim_leases;
SELECT * FROM t.settled('commit_update', t.u(22));
DROP FUNCTION t.searches, t.settled;
SELECT t.clean();
