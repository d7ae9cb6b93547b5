-- The service's tables, and the functions that read them.

-- The plain unique index: the primary key (bucket_value, bucket_type).
-- While it is built cells can read, but not write. An administrator can avoid that by CREATE UNIQUE INDEX CONCURRENTLY before: the upgrade uses an
-- index that fits. Statements that block readers come last, and take no time.
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
DROP FUNCTION claims.bucket_key(text);
