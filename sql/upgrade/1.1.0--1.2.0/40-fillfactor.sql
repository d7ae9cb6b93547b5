-- New pages of claims have room for a second version of each claim. No page is rewritten, and saves go on. Distributed tables keep their setting, as
-- does a table for which an administrator has chosen another one.
DO $$
DECLARE
    is_distributed boolean := false;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE $sql$SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_partition p WHERE p.logicalrelid = 'claims.claims'::regclass)$sql$ INTO is_distributed;
    END IF;
    IF NOT is_distributed
       AND EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = 'claims.claims'::regclass AND 'fillfactor=70' = ANY (c.reloptions)) THEN
        ALTER TABLE claims.claims SET (fillfactor = 50);
    END IF;
END $$;
