-- The view records shows names instead of numbers.
SELECT t.clean();
SELECT t.have(1, 'a', 'b'); SELECT t.have(2, 'c');
SELECT claims.begin_update(1, jsonb_build_array(t.claim('d', 'EMAILS')), t.destroys('b'), t.u(1700));
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'claims.records'::regclass AND attnum > 0 ORDER BY attnum;
SELECT bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, status, lease_uuid
  FROM claims.records ORDER BY bucket_type, bucket_value;
-- records has the rows of get_record
SELECT count(*) FROM claims.records r JOIN claims.get_record(r.bucket_type, r.bucket_value) g
  USING (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, status, created_at, updated_at)
 WHERE r.lease_uuid IS NOT DISTINCT FROM g.lease_uuid;
-- nobody but the owner can write to the view
SET SESSION AUTHORIZATION regress_claims_router;
SELECT t.call($$INSERT INTO claims.records (bucket_value) VALUES ('x')$$);
SELECT t.call($$DELETE FROM claims.records$$);
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT * FROM claims.records$$);
RESET SESSION AUTHORIZATION;
