-- Verification of both cells while a transfer holds claims: nothing is corrected, and what is where it says is in order. Transfers 63xx.
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
SELECT t.clean();
CREATE FUNCTION t.groups(VARIADIC ids bigint[]) RETURNS jsonb LANGUAGE sql AS $$ SELECT jsonb_build_array(jsonb_build_object('type', 'GROUP', 'ids', ids)) $$;
-- What both cells are told, whether they have the rows, have none, or have others: discrepancies of a, b and c.
CREATE FUNCTION t.verified(cell bigint) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('cell %s, %s: %s', cell, what, coalesce(
        (SELECT string_agg(format('%s %s %s', discrepancy, bucket_value, coalesce(outcome, 'open')), ', ' ORDER BY bucket_value)
           FROM claims.verify_records(cell, 'RAILS_TABLE_ROUTES', '0', '9', records, '0')), 'in order'))
      FROM (VALUES (1, 'has the rows', t.creates('a', 'b')), (2, 'has none', '[]'),
                   (3, 'has others', (SELECT jsonb_agg(jsonb_set(r, '{source,rails_primary_key_id}', '2')) FROM jsonb_array_elements(t.creates('a', 'b')) r))) AS w (n, what, records) ORDER BY n $$;
CREATE FUNCTION t.corrected(cell bigint) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s %s %s', discrepancy, bucket_value, outcome), ', ' ORDER BY bucket_value)
      FROM claims.verify_records(cell, 'RAILS_TABLE_ROUTES', '0', '9', (SELECT jsonb_agg(jsonb_set(r, '{source,rails_primary_key_id}', '2')) FROM jsonb_array_elements(t.creates('a', 'b')) r), '0', true) $$;
SELECT t.have(1, 'a', 'b');
\echo before
SELECT t.verified(1); SELECT t.verified(2);
SELECT * FROM claims.prepare_transfer(t.u(6300), 1, 2, t.groups(1), 'x');
\echo prepared
SELECT t.verified(1); SELECT t.verified(2);
SELECT t.corrected(1), t.corrected(2);
SELECT claims.switch_transfer(t.u(6300), 'x');
\echo switched
SELECT t.verified(1); SELECT t.verified(2);
SELECT t.corrected(1), t.corrected(2);
SELECT * FROM t.state();
-- a third cell, which never had anything to do with it
BEGIN;
SELECT claims.register_cell(3, 'regress_claims_two');
SELECT t.verified(3);
ROLLBACK;
SELECT * FROM claims.finish_transfer(t.u(6300));
\echo finished
SELECT t.verified(1); SELECT t.verified(2);
-- young, so that rows have time to arrive
SELECT discrepancy, outcome FROM claims.verify_records(2, 'RAILS_TABLE_ROUTES', '0', '9', '[]');
SELECT t.corrected(2);
SELECT * FROM t.state();
SELECT count(*) FROM claims.check();
SELECT t.clean();
DELETE FROM claims.cell_transfers;
DELETE FROM claims.transfer_subjects;
DROP FUNCTION t.groups, t.verified, t.corrected;
