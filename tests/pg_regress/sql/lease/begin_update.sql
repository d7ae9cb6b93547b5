-- begin_update: the rows it writes, and what readers see of them.
SELECT t.clean();
SELECT t.have(1, 'old', 'kept');
-- begin_update returns the lease's uuid
SET SESSION AUTHORIZATION regress_claims_one;
SELECT claims.begin_update(
    cell_id => 1,
    create_records => '[{"bucket": {"type": "ROUTES", "value": "new"}, "subject": {"type": "GROUP", "id": 9970},
                         "source": {"type": "RAILS_TABLE_ROUTES", "rails_primary_key_id": 7}},
                        {"bucket": {"type": "EMAILS", "value": "a@example.org"}, "subject": {"type": "USER", "id": "u-1"},
                         "source": {"type": "RAILS_TABLE_EMAILS", "rails_primary_key_id": "0b0e6c2e"}}]',
    destroy_records => '[{"bucket": {"type": "ROUTES", "value": "old"}}]',
    lease_uuid => t.u(300));
-- creates are visible at once and can be routed; destroys are still visible
SELECT bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, cell_id, status, lease_uuid,
       cell_name, cell_address FROM claims.get_record('ROUTES', 'new');
SELECT bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, cell_id, status, lease_uuid,
       cell_name, cell_address FROM claims.get_record('EMAILS', 'a@example.org');
SELECT bucket_value, cell_id, status, lease_uuid FROM claims.get_record('ROUTES', 'old');
SELECT bucket_value, cell_id, status, lease_uuid FROM claims.get_record('ROUTES', 'kept');
RESET SESSION AUTHORIZATION;
-- the rows of the lease and its claims
SELECT bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, lease_uuid, status
  FROM claims.claims ORDER BY bucket_type, bucket_value;
SELECT count(DISTINCT uuid) FROM claims.claims;
SELECT bool_and(created_at > now() - interval '1 minute' AND updated_at >= created_at) FROM claims.claims;
SELECT updated_at > created_at FROM claims.claims WHERE bucket_value = 'old';
SELECT uuid, creator_id, jsonb_pretty(payload), created_at > now() - interval '1 minute', updated_at >= created_at
  FROM claims.claim_leases;
SELECT count(*) FROM claims.check();

-- a destroyed claim keeps its subject and source
SELECT t.call($$SELECT claims.begin_update(1, '[]', '[{"bucket": {"type": "ROUTES", "value": "kept"},
    "subject": {"type": "GROUP", "id": 1}}]', t.u(301))$$);
SELECT subject_type, subject_id, source_type, source_id, status FROM claims.claims WHERE bucket_value = 'kept';
SELECT payload FROM claims.claim_leases WHERE uuid = t.u(301);
SELECT t.call($$SELECT claims.rollback_update(1, t.u(301))$$);

-- without a uuid begin_update makes a fresh UUIDv7
CREATE TEMP TABLE made AS SELECT n, claims.begin_update(1, t.creates('v7-' || n)) AS lease FROM generate_series(1, 20) n;
SELECT count(DISTINCT lease), bool_and(substr(lease::text, 15, 1) = '7'), bool_and(substr(lease::text, 20, 1) IN ('8', '9', 'a', 'b')) FROM made;
SELECT bool_and(abs(extract(epoch FROM now()) - ('x' || substr(replace(lease::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) < 60) FROM made;
SELECT bool_and(l.uuid IS NOT NULL) FROM made LEFT JOIN claims.claim_leases l ON l.uuid = lease;
SELECT array_agg(claims.rollback_update(1, lease)) = array_fill(true, ARRAY[20]) FROM made;

-- all forms of types and ids make the same request and the same payload
CREATE TEMP TABLE forms (n int, c jsonb);
INSERT INTO forms VALUES
    (1, '{"bucket": {"type": "ROUTES", "value": "f"}, "subject": {"type": "GROUP", "id": 12}, "source": {"type": "RAILS_TABLE_ROUTES",
      "rails_primary_key_id": 1}}'),
    (2, '{"bucket": {"type": 1, "value": "f"}, "subject": {"type": 2, "id": "12"}, "source": {"type": 3, "rails_primary_key_id": "1"}}'),
    (3, '{"bucket": {"type": 1, "value": "f"}, "subject": {"type": "GROUP", "id": 12}, "source": {"type": 3, "railsPrimaryKeyId": "1"}}'),
    (4, '{"source": {"id": 1, "type": 3}, "bucket": {"value": "f", "type": 1}, "subject": {"type": "GROUP", "id": 12}}');
CREATE TEMP TABLE payloads (n int, payload jsonb);
DO $$
DECLARE f forms;
BEGIN
    FOR f IN SELECT * FROM forms ORDER BY n LOOP
        PERFORM claims.begin_update(1, jsonb_build_array(f.c), '[]', t.u(310 + f.n));
        INSERT INTO payloads SELECT f.n, payload FROM claims.claim_leases WHERE uuid = t.u(310 + f.n);
        PERFORM claims.rollback_update(1, t.u(310 + f.n));
    END LOOP;
END $$;
SELECT count(*), count(DISTINCT payload) FROM payloads;

-- the smallest and the largest 64-bit integers are stored exactly
SELECT t.call($$SELECT claims.begin_update(1, '[
    {"bucket": {"type": 1, "value": "max"}, "subject": {"type": 2, "id": 9223372036854775807}, "source": {"type": 3, "id": 9007199254740993}},
    {"bucket": {"type": 1, "value": "min"}, "subject": {"type": 2, "id": -9223372036854775808}, "source": {"type": 3, "id": -1}},
    {"bucket": {"type": 1, "value": "nil"}, "subject": {"type": 2, "id": 0}, "source": {"type": 3, "id": "007"}},
    {"bucket": {"type": 1, "value": "str"}, "subject": {"type": 2, "id": "9223372036854775808"}, "source": {"type": 3, "id": "x y"}}]',
      lease_uuid => t.u(320))$$);
SELECT bucket_value, subject_id, source_id FROM claims.claims WHERE lease_uuid = t.u(320) ORDER BY bucket_value;
SELECT t.call($$SELECT claims.rollback_update(1, t.u(320))$$);

-- a lease is rolled back with its transaction
BEGIN;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('gone'), lease_uuid => t.u(321))$$);
ROLLBACK;
SELECT count(*) FROM claims.get_record('ROUTES', 'gone');
SELECT claims.lease_outcome(1, t.u(321)) IS NULL;
-- the uuid of a rolled-back transaction can be used again
SELECT t.call($$SELECT claims.begin_update(1, t.creates('gone'), lease_uuid => t.u(321))$$);

-- a batch with a conflict writes nothing
SELECT t.call($$SELECT claims.begin_update(1, t.creates('half', 'new'), lease_uuid => t.u(322))$$);
SELECT count(*) FROM claims.get_record('ROUTES', 'half');
SELECT claims.lease_outcome(1, t.u(322)) IS NULL;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('half'), t.destroys('new'), lease_uuid => t.u(322))$$);
SELECT count(*) FROM claims.get_record('ROUTES', 'half');

-- created_at is the time of the call, not the start of the transaction
BEGIN;
SELECT pg_sleep(0.05);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('late'), t.destroys('kept'), t.u(323))$$);
SELECT created_at >= now() + interval '50 ms', created_at <= clock_timestamp() FROM claims.claim_leases WHERE uuid = t.u(323);
SELECT created_at >= now() + interval '50 ms', created_at <= clock_timestamp() FROM claims.claims WHERE bucket_value = 'late';
SELECT updated_at >= now() + interval '50 ms', created_at < now() FROM claims.claims WHERE bucket_value = 'kept';
ROLLBACK;
SELECT count(*) FROM claims.check();

-- a batch of 300 destroys and no creates
SELECT t.have(1, VARIADIC ARRAY(SELECT 'n' || n FROM generate_series(1, 300) n));
SELECT t.call($$SELECT claims.begin_update(1,
        destroy_records => t.destroys(VARIADIC ARRAY(SELECT 'n' || n FROM generate_series(300, 1, -1) n)), lease_uuid => t.u(324))$$);
SELECT status, count(*) FROM claims.claims WHERE bucket_value ~ '^n\d' GROUP BY 1;
SELECT payload->'destroy_records'->0->'bucket', jsonb_array_length(payload->'create_records'), jsonb_array_length(payload->'destroy_records')
  FROM claims.claim_leases WHERE uuid = t.u(324);
SELECT t.call($$SELECT claims.commit_update(1, t.u(324))$$);
SELECT count(*) FROM claims.claims WHERE bucket_value ~ '^n\d';
SELECT count(*) FROM claims.check();

-- claims are inserted in the order of their buckets, whatever the order of the batch (an empty table shows it)
BEGIN;
TRUNCATE claims.claims;
SELECT claims.begin_update(1, t.creates('b', 'c', 'a'), lease_uuid => t.u(325));
SELECT string_agg(bucket_value, ' ' ORDER BY uuid), string_agg(bucket_value, ' ' ORDER BY ctid) FROM claims.claims;
ROLLBACK;
