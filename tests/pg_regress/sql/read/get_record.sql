-- get_record.
SELECT t.clean();
SELECT t.have(1, 'a'); SELECT t.have(2, 'b');
SELECT claims.begin_update(1, t.creates('c'), t.destroys('a'), t.u(1300));
SET SESSION AUTHORIZATION regress_claims_two;
-- every cell can read the claims of all cells
SELECT bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, cell_id, status, lease_uuid, cell_name, cell_address
  FROM claims.get_record('ROUTES', 'a');
SELECT bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, cell_id, status, lease_uuid, cell_name, cell_address
  FROM claims.get_record('ROUTES', 'b');
SELECT bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, cell_id, status, lease_uuid, cell_name, cell_address
  FROM claims.get_record(bucket_type => 'ROUTES', bucket_value => 'c');
SELECT uuid IS NOT NULL, created_at <= updated_at, updated_at <= clock_timestamp() FROM claims.get_record('ROUTES', 'a');
-- no row where there is no claim
SELECT count(*) FROM claims.get_record('ROUTES', 'nothing');
SELECT count(*) FROM claims.get_record('USERNAMES', 'a');
SELECT t.call($$SELECT count(*) FROM claims.get_record('ROUTES', '')$$);
SELECT t.call($$SELECT count(*) FROM claims.get_record('ROUTES', repeat('x', 2000))$$);
-- unknown types and UNSPECIFIED are refused; a type number is accepted
SELECT t.call($$SELECT bucket_value FROM claims.get_record('NO_SUCH', 'a')$$);
SELECT t.call($$SELECT bucket_value FROM claims.get_record('routes', 'a')$$);
SELECT t.call($$SELECT bucket_value FROM claims.get_record('UNSPECIFIED', 'a')$$);
SELECT t.call($$SELECT bucket_value FROM claims.get_record('1', 'a')$$);
SELECT t.call($$SELECT bucket_value FROM claims.get_record('', 'a')$$);
RESET SESSION AUTHORIZATION;
-- the columns of get_record and their types
SELECT a.name, format_type(a.type, NULL) FROM pg_proc p, unnest(proargnames, proallargtypes, proargmodes) WITH ORDINALITY a(name, type, mode, n)
 WHERE p.oid = 'claims.get_record(text, text)'::regprocedure AND a.mode = 't' ORDER BY n;
-- get_record assigns no transaction id, and works in a read-only transaction
BEGIN READ ONLY;
SELECT bucket_value FROM claims.get_record('ROUTES', 'a');
SELECT pg_current_xact_id_if_assigned() IS NULL;
COMMIT;
BEGIN;
SELECT bucket_value FROM claims.get_record('ROUTES', 'a');
SELECT pg_current_xact_id_if_assigned() IS NULL;
COMMIT;
-- get_record in a lateral join and in a prepared statement
SELECT v, r.cell_id FROM unnest(ARRAY['a', 'b', 'nothing', 'c']) WITH ORDINALITY u(v, n)
  LEFT JOIN LATERAL claims.get_record('ROUTES', v) r ON true ORDER BY n;
PREPARE g(text) AS SELECT bucket_value, cell_id FROM claims.get_record('ROUTES', $1);
EXECUTE g('a'); EXECUTE g('b'); EXECUTE g('a'); EXECUTE g('b'); EXECUTE g('a'); EXECUTE g('b'); EXECUTE g('a');
DEALLOCATE g;
-- get_record sees changes of its own transaction
BEGIN;
SELECT claims.commit_update(1, t.u(1300));
SELECT count(*) FROM claims.get_record('ROUTES', 'a');
SELECT status FROM claims.get_record('ROUTES', 'c');
ROLLBACK;
SELECT status FROM claims.get_record('ROUTES', 'a');
-- get_record returns the cell's current name and address
BEGIN;
SELECT t.call($$SELECT claims.register_cell(1, 'regress_claims_one', 'New Name', 'https://new.example')$$);
SELECT cell_name, cell_address FROM claims.get_record('ROUTES', 'a');
ROLLBACK;
