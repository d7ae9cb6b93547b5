-- New payloads of leases are stored out of line only if they do not fit on a page. No row is rewritten, and saves go on. Distributed tables keep
-- their setting, as does a table for which an administrator has chosen another one.
DO $$
DECLARE
    is_distributed boolean := false;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE $sql$SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_partition p WHERE p.logicalrelid = 'claims.claim_leases'::regclass)$sql$
            INTO is_distributed;
    END IF;
    IF NOT is_distributed AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c, unnest(c.reloptions) o (option)
                                           WHERE c.oid = 'claims.claim_leases'::regclass AND o.option LIKE 'toast_tuple_target=%') THEN
        ALTER TABLE claims.claim_leases SET (toast_tuple_target = 8160);
    END IF;
END $$;
