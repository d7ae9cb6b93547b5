-- New pages of claims have room for a second version of each claim. New payloads of leases are compressed, with LZ4, and stored out of line only if
-- they do not fit on a page.
-- No row is rewritten, and saves go on. Distributed tables keep their settings, as does a table for which an administrator has chosen another one.
DO $$
DECLARE
    is_distributed boolean := false;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE $sql$SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_partition p WHERE p.logicalrelid = 'claims.claims'::regclass)$sql$ INTO is_distributed;
    END IF;
    IF is_distributed THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = 'claims.claims'::regclass AND 'fillfactor=70' = ANY (c.reloptions)) THEN
        ALTER TABLE claims.claims SET (fillfactor = 50);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_class c, unnest(c.reloptions) o (option)
                    WHERE c.oid = 'claims.claim_leases'::regclass AND o.option LIKE 'toast_tuple_target=%') THEN
        ALTER TABLE claims.claim_leases SET (toast_tuple_target = 8160);
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_attribute a, pg_catalog.pg_settings s
                WHERE a.attrelid = 'claims.claim_leases'::regclass AND a.attname = 'payload' AND a.attstorage = 'e' AND a.attcompression = ''
                  AND s.name = 'default_toast_compression' AND 'lz4' = ANY (s.enumvals)) THEN
        ALTER TABLE claims.claim_leases ALTER COLUMN payload SET STORAGE EXTENDED, ALTER COLUMN payload SET COMPRESSION lz4;
    END IF;
END $$;
