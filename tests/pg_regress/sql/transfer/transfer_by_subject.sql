-- With an index by subject a transfer reads the claims of its subjects, and not all of the cell. Transfers 67xx.
SELECT t.clean();
CREATE FUNCTION t.groups(VARIADIC ids bigint[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_array(jsonb_build_object('type', 'GROUP', 'ids', ids))
$$;
SELECT claims.register_cell(3, 'regress_claims_two');
-- cell 1 has 40,000 claims of others, 12,000 of group 64, 200 of group 65; cell 3 has 11,000 of group 64, which come first in the index
INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
    SELECT 1, 'others ' || n, 2, 70 + n % 9, 3, n, 1, 1 FROM generate_series(1, 40000) n
    UNION ALL SELECT 1 + n % 2, 'own ' || n, 2, 64, 3, n, 1, 1 FROM generate_series(1, 12000) n
    UNION ALL SELECT 1, 'more ' || n, 2, 65, 3, n, 1, 1 FROM generate_series(1, 200) n
    UNION ALL SELECT 1, 'elsewhere ' || n, 2, 64, 3, n, 3, 1 FROM generate_series(1, 11000) n;
CREATE FUNCTION t.claim_reads() RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid))::bigint + pg_stat_get_xact_tuples_returned('claims.claims'::regclass)
      FROM pg_index i WHERE i.indrelid = 'claims.claims'::regclass $$;
CREATE FUNCTION t.reads_of(statement text, most bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE was bigint := t.claim_reads(); answer text;
BEGIN
    EXECUTE statement INTO answer;
    RETURN answer || CASE WHEN t.claim_reads() - was <= most THEN ', few reads' ELSE format(', %s reads', t.claim_reads() - was) END;
END $$;
CREATE FUNCTION t.held() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s of %s in cell %s: %s', status, subject_id, creator_id, n), ', ' ORDER BY subject_id, creator_id, status)
      FROM (SELECT status, subject_id, creator_id, count(*) AS n FROM claims.claims WHERE subject_id IN ('64', '65') GROUP BY 1, 2, 3) x
$$;
-- without the index the claims of the cell are read, for 200 names
BEGIN;
SELECT t.reads_of($$SELECT p FROM claims.prepare_transfer(t.u(6700), 1, 2, t.groups(65), 'x') p$$, 3000)
       ~ '^\(200,0,t\), \d{5} reads$' AS reads_the_cell;
ROLLBACK;
-- an index that is not the one
CREATE INDEX claims_subject ON claims.claims (subject_type, subject_id);
BEGIN;
SELECT t.reads_of($$SELECT p FROM claims.prepare_transfer(t.u(6700), 1, 2, t.groups(65), 'x') p$$, 3000)
       ~ '^\(200,0,t\), \d{5} reads$' AS reads_the_cell;
ROLLBACK;
DROP INDEX claims.claims_subject;
CREATE INDEX claims_subject ON claims.claims (subject_type, subject_id, bucket_type, bucket_value);
ANALYZE claims.claims;
\c
-- each step reads what it moves; a lease's claim is skipped, and marked by the next pass
SELECT claims.begin_update(1, '[]', lease_uuid => t.u(6710), destroy_records =>
    '[{"bucket": {"type": 1, "value": "more 7"}, "subject": {"type": 2, "id": 65}, "source": {"type": 3, "id": 7}}]') = t.u(6710);
BEGIN;
SELECT t.reads_of($$SELECT p FROM claims.prepare_transfer(t.u(6701), 1, 2, t.groups(65), 'x') p$$, 3000);
COMMIT;
SELECT t.held();
SELECT claims.rollback_update(1, t.u(6710));
BEGIN;
SELECT t.reads_of($$SELECT p FROM claims.prepare_transfer(t.u(6701), 1, 2, t.groups(65), 'x') p$$, 3000);
SELECT t.reads_of($$SELECT claims.switch_transfer(t.u(6701), 'x')$$, 3000);
SELECT t.reads_of($$SELECT p FROM claims.finish_transfer(t.u(6701)) p$$, 3000);
COMMIT;
SELECT t.held();
-- each call is a step; the second one continues within a subject
SELECT * FROM claims.prepare_transfer(t.u(6702), 1, 3, t.groups(64, 66, 9999999999), 'x', '0 s');
SELECT left(marking_after, 1) AS by_subject FROM claims.cell_transfers WHERE transfer_uuid = t.u(6702);
SELECT t.held();
BEGIN;
SELECT t.reads_of($$SELECT p FROM claims.prepare_transfer(t.u(6702), 1, 3, t.groups(64, 66, 9999999999), 'x', '0 s') p$$, 30000);
COMMIT;
SELECT claims.switch_transfer(t.u(6702), 'x');
SELECT * FROM claims.finish_transfer(t.u(6702), '0 s');
SELECT t.held();
-- a pass keeps its order when the index is gone, and the next one has the other order
DROP INDEX claims.claims_subject;
SELECT * FROM claims.finish_transfer(t.u(6702), '0 s');
SELECT t.held();
SELECT count(*) FROM claims.check();
SELECT * FROM claims.prepare_transfer(t.u(6703), 3, 1, t.groups(64), 'x', '0 s');
SELECT left(marking_after, 1) AS by_source FROM claims.cell_transfers WHERE transfer_uuid = t.u(6703);
SELECT * FROM claims.prepare_transfer(t.u(6703), 3, 1, t.groups(64), 'x');
SELECT * FROM claims.cancel_transfer(t.u(6703), 'x');
SELECT t.held();
SELECT t.clean();
DELETE FROM claims.cell_transfers;
DELETE FROM claims.transfer_subjects;
DELETE FROM claims.cells WHERE cell_id = 3;
VACUUM claims.claims, claims.claim_leases;
DROP FUNCTION t.groups, t.claim_reads, t.reads_of, t.held;
