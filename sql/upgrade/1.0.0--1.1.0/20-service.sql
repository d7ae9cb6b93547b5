-- The service's tables and what reads them.

-- The plain unique index: the primary key (bucket_value, bucket_type).
--
-- While it is built cells read and do not write. Whoever has it built before, with CREATE UNIQUE INDEX CONCURRENTLY, spares
-- them that: an index that fits is taken as it is. What locks out readers comes last, and takes no time of its own.
LOCK TABLE claims.claims IN SHARE MODE;
DO $$
DECLARE
    too_long bigint := (SELECT count(*) FROM claims.claims c WHERE octet_length(c.bucket_value) > 2600);
BEGIN
    IF too_long > 0 THEN
        RAISE EXCEPTION USING ERRCODE = '22001', MESSAGE = 'extension claims cannot be updated: there are bucket values of more than 2600 bytes',
            DETAIL = format('There are %s of them. From this version on a value has at most 2600 bytes in UTF-8.', too_long),
            HINT = 'Nothing has been changed. Have their cells give them up, or claim something shorter in their place. To find them: '
                   'SELECT creator_id, bucket_type, source_type, source_id, octet_length(bucket_value), left(bucket_value, 40) FROM claims.claims WHERE octet_length(bucket_value) > 2600';
    END IF;
END $$;
DO $$
DECLARE
    made_before regclass := (
        SELECT i.indexrelid FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = c.relam
         WHERE i.indrelid = 'claims.claims'::regclass AND m.amname = 'btree' AND i.indisunique AND i.indimmediate
           AND i.indisvalid AND i.indisready AND i.indislive AND i.indexprs IS NULL AND i.indpred IS NULL
           AND i.indnatts = 2 AND i.indnkeyatts = 2 AND i.indoption::text = '0 0' AND c.reloptions IS NULL AND c.reltablespace = 0
           AND (SELECT array_agg(a.attname::text ORDER BY k.nth) FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, nth)
                  JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum) = '{bucket_value,bucket_type}'
           AND (SELECT bool_and(o.opcdefault) FROM unnest(i.indclass::oid[]) k (opclass) JOIN pg_catalog.pg_opclass o ON o.oid = k.opclass)
           AND i.indcollation::text = format('%s 0', (SELECT a.attcollation FROM pg_catalog.pg_attribute a WHERE a.attrelid = i.indrelid AND a.attname = 'bucket_value'))
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conindid = i.indexrelid)
         ORDER BY i.indexrelid LIMIT 1);
BEGIN
    IF made_before IS NULL THEN
        CREATE UNIQUE INDEX claims_bucket_made ON claims.claims (bucket_value, bucket_type);
    ELSE
        EXECUTE format('ALTER INDEX %s RENAME TO claims_bucket_made', made_before);
    END IF;
END $$;
DROP INDEX claims.claims_bucket;
ALTER TABLE claims.claims ADD CONSTRAINT claims_bucket PRIMARY KEY USING INDEX claims_bucket_made;
COMMENT ON INDEX claims.claims_bucket IS 'The promise itself: every bucket occurs once.';
DROP FUNCTION claims.bucket_key(text);

-- What functions say of themselves.
COMMENT ON FUNCTION claims.begin_update(bigint, jsonb, jsonb, uuid, xid8) IS
    'Leases the claims of a batch for a cell and returns the lease. Arguments: cell_id; create_records and destroy_records, arrays of records; lease_uuid, the client''s own uuid, which makes the call safe to repeat; cell_xid, pg_current_xact_id() of the cell''s local transaction. A bucket that stands in both lists is replaced. Conflicts are errors (42501, P0002, 23505, 55P03) with all of them as JSON in DETAIL. Locks the lease''s key, then the created buckets'' keys, then the destroyed claims'' rows, each in order; waits claims.wait_timeout at most.';
COMMENT ON FUNCTION claims.commit_update(bigint, uuid) IS
    'Makes a lease''s batch permanent: destroys are deleted, creates become ACTIVE, replaced ones are what the batch says. true: this call did it; false: it was done before. 55000 for a lease that was rolled back, P0002 for an unknown one, 55P03 for one that another open transaction is settling. Locks the lease''s row, then its claims in bucket order.';
COMMENT ON FUNCTION claims.rollback_update(bigint, uuid) IS
    'Gives a lease''s claims back: creates are deleted, destroys become ACTIVE again. true: this call did it; false: it was done before. An unknown uuid is fenced, with a NOTICE: no later begin_update can use it. 55000 for a lease that was committed, 55P03 for one that another open transaction is beginning or settling. Locks the lease''s row, then its claims in bucket order.';
COMMENT ON FUNCTION claims.settle_leases(bigint, uuid[], uuid[]) IS
    'Commits and rolls back many leases in one call. One row per lease: its outcome, and whether this call brought it about; fenced is an unknown one among the rollbacks. A lease that another session is settling is busy and not waited for. Locks lease rows in uuid order, passing over locked ones, then claims in bucket order.';
