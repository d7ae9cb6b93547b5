-- Verification of both cells during a transfer: nothing is corrected, and claims at their cell are in order. Transfers 63xx.
SELECT t.clean();
CREATE FUNCTION t.groups(VARIADIC ids bigint[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_array(jsonb_build_object('type', 'GROUP', 'ids', ids))
$$;
-- t.verified() lists the discrepancies of three claims if the cell has their rows, none of them, or others
CREATE FUNCTION t.verified(cell bigint) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('cell %s, %s: %s', cell, what, coalesce(
        (SELECT string_agg(format('%s %s %s', discrepancy, bucket_value, coalesce(outcome, 'open')), ', ' ORDER BY bucket_value)
           FROM claims.verify_records(cell, 'RAILS_TABLE_ROUTES', '0', '9', records, '0')), 'in order'))
      FROM (VALUES (1, 'has the rows', t.creates('a', 'b')), (2, 'has none', '[]'),
                   (3, 'has others', (SELECT jsonb_agg(jsonb_set(r, '{source,rails_primary_key_id}', '2'))
                         FROM jsonb_array_elements(t.creates('a', 'b')) r))) AS w (n, what, records) ORDER BY n $$;
CREATE FUNCTION t.corrected(cell bigint) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s %s %s', discrepancy, bucket_value, outcome), ', ' ORDER BY bucket_value)
      FROM claims.verify_records(cell, 'RAILS_TABLE_ROUTES', '0', '9',
        (SELECT jsonb_agg(jsonb_set(r, '{source,rails_primary_key_id}', '2')) FROM jsonb_array_elements(t.creates('a', 'b')) r), '0', true) $$;
SELECT t.have(1, 'a', 'b');
-- both cells before the transfer
SELECT t.verified(1); SELECT t.verified(2);
SELECT * FROM claims.prepare_transfer(t.u(6300), 1, 2, t.groups(1), 'x');
-- both cells while the transfer is prepared
SELECT t.verified(1); SELECT t.verified(2);
SELECT t.corrected(1), t.corrected(2);
SELECT claims.switch_transfer(t.u(6300), 'x');
-- both cells after the switch
SELECT t.verified(1); SELECT t.verified(2);
SELECT t.corrected(1), t.corrected(2);
SELECT * FROM t.state();
-- a third cell that has nothing to do with the transfer
BEGIN;
SELECT claims.register_cell(3, 'regress_claims_two');
SELECT t.verified(3);
ROLLBACK;
SELECT * FROM claims.finish_transfer(t.u(6300));
-- both cells after the finish
SELECT t.verified(1); SELECT t.verified(2);
-- transferred claims are recent, so missing rows are left alone
SELECT discrepancy, outcome FROM claims.verify_records(2, 'RAILS_TABLE_ROUTES', '0', '9', '[]');
SELECT t.corrected(2);
SELECT * FROM t.state();
SELECT count(*) FROM claims.check();
SELECT t.clean();
DELETE FROM claims.cell_transfers;
DELETE FROM claims.transfer_subjects;
DROP FUNCTION t.groups, t.verified, t.corrected;
