-- list_leases: oldest first, by pages.
SELECT t.clean();
SELECT count(claims.begin_update(1, t.creates('l' || n), lease_uuid => t.u(1500 + n))) FROM generate_series(1, 9) n WHERE n % 3 > 0;
SELECT count(claims.begin_update(2, t.creates('l' || n), lease_uuid => t.u(1500 + n))) FROM generate_series(1, 9) n WHERE n % 3 = 0;
-- leases of our own times: 1505 is the oldest, and 1501, 1502 and 1503 have the same time
UPDATE claims.claim_leases SET created_at = '2026-01-02 00:00:00+00', updated_at = '2026-01-02 00:00:00+00'
  WHERE uuid IN (t.u(1501), t.u(1502), t.u(1503));
UPDATE claims.claim_leases SET created_at = '2026-01-01 00:00:00+00' WHERE uuid = t.u(1505);
UPDATE claims.claim_leases SET created_at = '2026-01-03 00:00:00+00'::timestamptz + (right(uuid::text, 1) || ' microseconds')::interval
 WHERE uuid IN (t.u(1504), t.u(1506), t.u(1507), t.u(1508), t.u(1509));
SET SESSION AUTHORIZATION regress_claims_one;
SELECT right(lease_uuid::text, 4), cell_id, payload->'create_records'->0->'bucket'->>'value', cursor IS NOT NULL,
    updated_at >= created_at FROM claims.list_leases(1);
-- pages of every size return the same leases
CREATE FUNCTION pg_temp.pages(cell bigint, size int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text := ''; at text; r record; seen int;
BEGIN
    FOR page IN 1..1000 LOOP
        seen := 0;
        FOR r IN SELECT * FROM claims.list_leases(cell, at, size) LOOP
            result := result || right(r.lease_uuid::text, 1); at := r.cursor; seen := seen + 1;
        END LOOP;
        IF seen = 0 THEN RETURN result; END IF;
        IF seen > size THEN RAISE 'a page of % has %', size, seen; END IF;
        result := result || CASE WHEN seen = size THEN '' ELSE '.' END;
    END LOOP;
    RAISE 'pages of % without end', size;
END $$;
SELECT size, pg_temp.pages(1, size) FROM generate_series(1, 7) size;
RESET SESSION AUTHORIZATION;
SELECT size, pg_temp.pages(NULL, size) FROM generate_series(1, 10) size;
SELECT right(lease_uuid::text, 4), cell_id FROM claims.list_leases(NULL);
SELECT right(lease_uuid::text, 4) FROM claims.list_leases(2);
-- each row's cursor continues behind that row
SELECT count(*) FROM claims.list_leases(NULL) l, LATERAL (SELECT count(*) FROM claims.list_leases(NULL, l.cursor)) n(n)
 WHERE n.n + (SELECT count(*) FROM claims.list_leases(NULL) b WHERE (b.created_at, b.lease_uuid) <= (l.created_at, l.lease_uuid)) <> 9;
-- created_after
SELECT right(lease_uuid::text, 4) FROM claims.list_leases(1, created_after => '2026-01-02 00:00:00+00');
SELECT right(lease_uuid::text, 4) FROM claims.list_leases(1, created_after => '2026-01-01 12:00:00+00', max_results => 2);
SELECT count(*) FROM claims.list_leases(1, created_after => 'infinity');
SELECT count(*) FROM claims.list_leases(1, created_after => '-infinity');
-- leases that stay are returned once while others come and go
CREATE TEMP TABLE seen AS SELECT * FROM claims.list_leases(NULL, max_results => 4);
SELECT claims.rollback_update(2, t.u(1503)), claims.commit_update(1, t.u(1504));
SELECT claims.begin_update(1, t.creates('new'), lease_uuid => t.u(1510));
INSERT INTO seen SELECT * FROM claims.list_leases(NULL, (SELECT cursor FROM seen ORDER BY created_at DESC, lease_uuid DESC LIMIT 1));
SELECT right(lease_uuid::text, 4), count(*) FROM seen GROUP BY lease_uuid ORDER BY 1;
-- limits of max_results
SELECT count(*) FROM claims.list_leases(1, max_results => 1);
SELECT t.call($$SELECT count(*) FROM claims.list_leases(1, max_results => 0)$$);
SELECT t.call($$SELECT count(*) FROM claims.list_leases(1, max_results => -1)$$);
SELECT t.call($$SELECT count(*) FROM claims.list_leases(1, max_results => NULL)$$);
SELECT t.call($$SELECT count(*) FROM claims.list_leases(1, max_results => 2147483647)$$);
SELECT count(claims.begin_update(2, t.creates('many' || n))) FROM generate_series(1, 120) n;
SELECT count(*) FROM claims.list_leases(2);
-- malformed cursors are refused
SELECT t.call($$SELECT * FROM claims.list_leases(1, 'x')$$);
SELECT t.call($$SELECT * FROM claims.list_leases(1, '')$$);
SELECT t.call($$SELECT * FROM claims.list_leases(1, '0')$$);
SELECT t.call($$SELECT * FROM claims.list_leases(1, repeat('A', 100000))$$);
SELECT t.call($$SELECT * FROM claims.list_leases(1, 'é😀')$$);
SELECT t.call($$SELECT count(*) FROM claims.list_leases(1, NULL)$$);
SELECT t.have(1, 'a record');
SELECT c ~ '^22023' FROM t.call(format('SELECT * FROM claims.list_leases(1, %L)', (SELECT cursor FROM claims.list_records(1) LIMIT 1))) c LIMIT 1;
SELECT count(*) FILTER (WHERE answer !~ '^(22023|ok)'), count(*) > 10 FROM claims.list_leases(1, max_results => 1) l,
    generate_series(1, length(l.cursor)) p,
    t.call(format('SELECT count(*) FROM claims.list_leases(1, %L)', overlay(l.cursor PLACING '~' FROM p FOR 1))) answer WHERE answer !~ '^ ';
SELECT count(*) FILTER (WHERE answer !~ '^22023') FROM claims.list_leases(1, max_results => 1) l,
    generate_series(1, length(l.cursor) - 1) p,
    t.call(format('SELECT count(*) FROM claims.list_leases(1, %L)', left(l.cursor, p))) answer WHERE answer !~ '^ ';
-- a cell may list its own leases, administrators all
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT * FROM claims.list_leases(NULL)$$);
SELECT t.call($$SELECT * FROM claims.list_leases(2)$$);
SELECT t.call($$SELECT * FROM claims.list_leases(77)$$);
RESET SESSION AUTHORIZATION;
SELECT t.call($$SELECT * FROM claims.list_leases(77)$$);
SET SESSION AUTHORIZATION regress_claims_admin;
SELECT count(*) > 100 FROM claims.list_leases(NULL, max_results => 1000);
RESET SESSION AUTHORIZATION;
-- list_leases assigns no transaction id
BEGIN READ ONLY;
SELECT count(*) > 0 FROM claims.list_leases(NULL);
SELECT pg_current_xact_id_if_assigned() IS NULL;
COMMIT;
