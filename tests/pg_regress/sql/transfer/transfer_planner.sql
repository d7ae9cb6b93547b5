-- Plans made for empty tables read no more than a transfer needs when the tables are full. Transfers 64xx.
SELECT t.clean();
VACUUM (ANALYZE, INDEX_CLEANUP on) claims.claims, claims.claim_leases, claims.cell_transfers, claims.transfer_subjects;
\c
CREATE FUNCTION t.groups(VARIADIC ids bigint[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_array(jsonb_build_object('type', 'GROUP', 'ids', ids))
$$;
CREATE FUNCTION t.moves(n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
    answer := (SELECT marked FROM claims.prepare_transfer(t.u(n), 1, 2, t.groups(64), 'x')) || ' marked';
    PERFORM claims.switch_transfer(t.u(n), 'x');
    answer := answer || ', ' || (SELECT moved FROM claims.finish_transfer(t.u(n))) || ' moved';
    PERFORM claims.prepare_transfer(t.u(n + 1), 2, 1, t.groups(64), 'x');
    RETURN answer || ', ' || (SELECT released FROM claims.cancel_transfer(t.u(n + 1), 'x')) || ' released';
END $$;
SELECT t.moves(6400);
SET client_min_messages = warning;
SELECT marked FROM claims.prepare_transfer(t.u(6408), 1, 2, NULL, 'x');
SELECT released FROM claims.cancel_transfer(t.u(6408), 'x');
SELECT count(*) FROM claims.list_records(1);
SELECT count(*) FROM claims.list_records(2, source_id_lte => '500');
SELECT records FROM claims.digest_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL);
SELECT count(*) FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]');
-- 20,000 claims of a third cell and 200 of cell 1: each call reads the rows of its transfer
BEGIN;
SELECT claims.register_cell(3, 'regress_claims_two');
COMMIT;
INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
    SELECT 1, 'other ' || n, 2, 64, 3, n, 3, 1 FROM generate_series(1, 20000) n
    UNION ALL SELECT 1, 'own ' || n, 2, 64 + n % 2, 3, n, 1, 1 FROM generate_series(1, 200) n;
CREATE FUNCTION t.claim_reads() RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid))::bigint + pg_stat_get_xact_tuples_returned('claims.claims'::regclass)
      FROM pg_index i WHERE i.indrelid = 'claims.claims'::regclass $$;
CREATE FUNCTION t.reads_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE was bigint := t.claim_reads(); answer text;
BEGIN
    EXECUTE statement INTO answer;
    RETURN answer || CASE WHEN t.claim_reads() - was <= 3000 THEN ', few reads' ELSE format(', %s reads', t.claim_reads() - was) END;
END $$;
BEGIN;
SELECT t.reads_of('SELECT t.moves(6402)');
SELECT t.reads_of('SELECT marked FROM claims.prepare_transfer(t.u(6409), 1, 2, NULL, ''x'')');
SELECT t.reads_of('SELECT released FROM claims.cancel_transfer(t.u(6409), ''x'')');
SELECT * FROM claims.prepare_transfer(t.u(6410), 2, 1, t.groups(64), 'x');
SELECT claims.switch_transfer(t.u(6410), 'x');
SELECT t.reads_of('SELECT count(*) FROM claims.list_records(1)');
SELECT t.reads_of('SELECT count(*) FROM claims.list_records(2)');
SELECT t.reads_of('SELECT records FROM claims.digest_records(1, ''RAILS_TABLE_ROUTES'', NULL, NULL)');
SELECT t.reads_of('SELECT records FROM claims.digest_records(2, ''RAILS_TABLE_ROUTES'', ''10'', ''20'')');
SELECT t.reads_of('SELECT count(*) FROM claims.verify_records(1, ''RAILS_TABLE_ROUTES'', NULL, NULL, ''[]'')');
ROLLBACK;
-- 20,000 claims switched without new statistics: a page reads little more than it returns
SELECT t.clean();
DELETE FROM claims.cell_transfers;
INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
    SELECT 1, 'moved ' || n, 2, 66, 3, n, 1, 1 FROM generate_series(1, 20000) n;
ANALYZE claims.claims, claims.cell_transfers;
BEGIN;
SELECT marked, finished FROM claims.prepare_transfer(t.u(6420), 1, 2, t.groups(66), 'x');
SELECT claims.switch_transfer(t.u(6420), 'x');
COMMIT;
\c
BEGIN;
SELECT t.reads_of('SELECT count(*) FROM claims.list_records(2, max_results => 100)');
SELECT t.reads_of('SELECT count(*) FROM claims.list_records(2, source_id_gt => ''15000'', max_results => 100)');
SELECT t.reads_of('SELECT count(*) FROM claims.list_records(2, ''RAILS_TABLE_ROUTES'', source_id_gt => ''15000'', source_id_lte => ''15100'')');
SELECT t.reads_of('SELECT records FROM claims.digest_records(2, ''RAILS_TABLE_ROUTES'', ''15000'', ''15100'')');
ROLLBACK;
SELECT moved, finished FROM claims.finish_transfer(t.u(6420));
SELECT t.clean();
DELETE FROM claims.cell_transfers;
DELETE FROM claims.transfer_subjects;
DELETE FROM claims.cells WHERE cell_id = 3;
VACUUM claims.claims, claims.claim_leases;
DROP FUNCTION t.groups, t.moves, t.claim_reads, t.reads_of;
