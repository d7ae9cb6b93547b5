-- Limits of one answer, however many rows there are.
SELECT t.clean();
-- leases with payloads of 3 MiB each
BEGIN;
CREATE FUNCTION pg_temp.large(megabytes int) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('create_records', jsonb_agg(t.claim(n || repeat('x', 1000))), 'destroy_records', '[]'::jsonb)
      FROM generate_series(1, 1000 * megabytes) n $$;
INSERT INTO claims.claim_leases (uuid, creator_id, payload, created_at)
    SELECT t.u(1400 + n), 1 + n / 8, pg_temp.large(3), '2026-01-01'::timestamptz + n * interval '1 s' FROM generate_series(1, 8) n;
-- pages of one cell's leases and of all cells' leases together return all of them
CREATE FUNCTION pg_temp.pages(cell bigint, max_results int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    page record;
    position text;
BEGIN
    LOOP
        SELECT string_agg(ltrim(right(lease_uuid::text, 12), '0'), ' ' ORDER BY created_at) AS leases,
            sum(pg_column_size(payload)) AS bytes, max(cursor) AS cursor INTO page
          FROM claims.list_leases(cell, position, max_results);
        EXIT WHEN page.leases IS NULL;
        RETURN NEXT page.leases || CASE WHEN page.bytes > 16777216 THEN ' TOO MUCH' ELSE '' END;
        position := page.cursor;
    END LOOP;
END $$;
SELECT pg_temp.pages(1, 100);
SELECT pg_temp.pages(NULL, 100000);
SELECT pg_temp.pages(NULL, 2);
-- a lease larger than a page makes a page of its own
INSERT INTO claims.claim_leases (uuid, creator_id, payload, created_at) VALUES (t.u(1409), 1, pg_temp.large(17), '2026-01-01');
SELECT pg_temp.pages(NULL, 100);
SELECT pg_temp.pages(1, 100);
-- created_after includes leases of that moment
SELECT lease_uuid, created_at = '2026-01-01 00:00:08' FROM claims.list_leases(2, created_after => '2026-01-01 00:00:08');
SELECT count(*) FROM claims.list_leases(2, created_after => '2026-01-01 00:00:08.000001');
SELECT count(*) FROM claims.list_leases(NULL, created_after => '2026-01-01 00:00:08');
ROLLBACK;

-- a page of claims whose cells have long names
BEGIN;
SELECT claims.register_cell(3, 'regress_claims_nobody', repeat('😀', 1024), repeat('😀', 1024));
SELECT t.have(3, 'a');
SELECT count(*) FROM claims.get_records((SELECT jsonb_agg('{"type": 1, "value": "a"}'::jsonb) FROM generate_series(1, 1000)));
SELECT t.call($$SELECT count(*) FROM claims.get_records((SELECT jsonb_agg('{"type": 1, "value": "a"}'::jsonb) FROM generate_series(1, 10000)))$$);
ROLLBACK;

-- NULL for an array argument is an empty array
SELECT claims.forget_leases((SELECT array_agg(uuid) FROM claims.claim_leases));
SELECT claims.add_expiring('kind', NULL), claims.remove_expiring('kind', NULL);

-- list_records: filter by bucket types, and pages with whole sources
BEGIN;
SELECT claims.commit_update(1, claims.begin_update(1,
        (SELECT jsonb_agg(t.claim(type || n, type, n)) FROM generate_series(1, 3) n, unnest(ARRAY['ROUTES', 'EMAILS', 'USERNAMES']) type)));
SELECT string_agg(bucket_value, ' ') FROM claims.list_records(1, bucket_types => '{EMAILS,1}');
SELECT string_agg(bucket_value, ' ') FROM claims.list_records(1, bucket_types => '{}');
SELECT string_agg(bucket_value, ' ') FROM claims.list_records(1, max_results => 4);
SELECT string_agg(bucket_value, ' ') FROM claims.list_records(1, max_results => 4, whole_sources => true);
SELECT string_agg(bucket_value, ' ') FROM claims.list_records(1, max_results => 3, whole_sources => true);
SELECT string_agg(bucket_value, ' ')
  FROM claims.list_records(1, max_results => 1, whole_sources => true, source_id_gt => '1', source_id_lte => '3',
      bucket_types => '{EMAILS,USERNAMES}');
SELECT max(cursor) AS cursor FROM (SELECT cursor FROM claims.list_records(1, max_results => 1, whole_sources => true) OFFSET 2) c \gset
SELECT string_agg(bucket_value, ' ') FROM claims.list_records(1, after => :'cursor', max_results => 1, whole_sources => true);
ROLLBACK;
SELECT t.call($$SELECT * FROM claims.list_records(1, bucket_types => '{ROUTES,NOTHING}')$$);
SELECT t.call($$SELECT * FROM claims.list_records(1, bucket_types => '{NULL}')$$);
SELECT t.call($$SELECT * FROM claims.list_records(1, whole_sources => NULL)$$);
-- list_records: a source with more claims than a page
BEGIN;
INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
    SELECT 1, 'n' || n, 2, '1', 3, '1', 1, 1 FROM generate_series(1, 100002) n;
SELECT t.call($$SELECT count(*) FROM claims.list_records(1, max_results => 1, whole_sources => true)$$);
SELECT t.call($$SELECT count(*) FROM claims.list_records(1, max_results => 2, whole_sources => true)$$);
ROLLBACK;
