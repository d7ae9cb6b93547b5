-- The end of every upgrade: owners, privileges and comments as after CREATE EXTENSION.

DROP FUNCTION claims.seed_types(text, int[], text[]);

-- The role that runs ALTER EXTENSION owns the new objects. Give them to the extension's owner, but functions that run with the rights of others to
-- the cluster's first superuser. The owner is that of the schema: after pg_upgrade the extension itself belongs to the superuser that ran it.
DO $$
DECLARE
    owner oid := (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'claims');
    other record;
BEGIN
    FOR other IN
        SELECT format('%s %s', replace(i.type, 'foreign-data', 'foreign data'), i.identity) AS what,
               CASE WHEN i.type IN ('event trigger', 'foreign-data wrapper') OR p.prorettype = 'event_trigger'::regtype
                         OR p.proname IN ('refuse_unrecorded_truncate', 'service_validator') THEN 10 ELSE owner END AS owner
          FROM pg_catalog.pg_depend d
          LEFT JOIN pg_catalog.pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
         CROSS JOIN pg_catalog.pg_identify_object(d.classid, d.objid, 0) i
         WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
           AND d.refobjid = (SELECT e.oid FROM pg_catalog.pg_extension e WHERE e.extname = 'claims')
           -- row types, array types and sequences of columns follow what they belong to
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend a WHERE a.classid = d.classid AND a.objid = d.objid AND a.deptype IN ('a', 'i'))
    LOOP
        EXECUTE format('ALTER %s OWNER TO %I', other.what, pg_catalog.pg_get_userbyid(other.owner));
    END LOOP;
END $$;

-- PUBLIC gets no right on new objects, nor do roles that default privileges name.
DO $$
DECLARE
    other record;
BEGIN
    FOR other IN
        SELECT CASE d.classid WHEN 'pg_proc'::regclass THEN 'ALL ON ROUTINE ' || d.objid::regprocedure
                              WHEN 'pg_type'::regclass THEN 'ALL ON TYPE ' || d.objid::regtype
                              ELSE CASE c.relkind WHEN 'S' THEN 'ALL ON SEQUENCE ' ELSE 'ALL ON TABLE ' END || d.objid::regclass END AS what,
               coalesce(quote_ident(r.rolname), 'PUBLIC') AS grantee
          FROM pg_catalog.pg_depend d
          LEFT JOIN pg_catalog.pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
          LEFT JOIN pg_catalog.pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
          LEFT JOIN pg_catalog.pg_type y ON d.classid = 'pg_type'::regclass AND y.oid = d.objid
         -- PUBLIC always: so PostgreSQL records these privileges as the initial ones
         CROSS JOIN LATERAL (SELECT 0::oid AS grantee WHERE y.oid IS NULL AND c.relkind IS DISTINCT FROM 'S'
                             UNION SELECT a.grantee FROM pg_catalog.aclexplode(coalesce(c.relacl, p.proacl, y.typacl)) a
                                    WHERE a.grantee NOT IN (0, coalesce(c.relowner, p.proowner, y.typowner))) a
          LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
         WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
           AND d.refobjid = (SELECT e.oid FROM pg_catalog.pg_extension e WHERE e.extname = 'claims')
           AND d.classid IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass)
           AND NOT EXISTS (SELECT FROM claims.known_before k WHERE k.classid = d.classid AND k.objid = d.objid)
    LOOP
        EXECUTE format('REVOKE %s FROM %s', other.what, other.grantee);
    END LOOP;
END $$;
DROP TABLE claims.known_before;

-- Every object has a comment: keys, constraints and the columns of views get a generated one.
DO $$
DECLARE
    silent record;
BEGIN
    FOR silent IN
        SELECT format('CONSTRAINT %I ON %s', k.conname, k.conrelid::regclass) AS what,
               CASE k.contype WHEN 'p' THEN 'Primary key' WHEN 'u' THEN 'No two rows alike' WHEN 'f' THEN 'Foreign key' ELSE 'What a row must be' END
               || ': ' || pg_catalog.pg_get_constraintdef(k.oid) AS text
          FROM pg_catalog.pg_constraint k
         WHERE k.connamespace = 'claims'::regnamespace AND k.conrelid <> 0 AND pg_catalog.obj_description(k.oid, 'pg_constraint') IS NULL
        UNION ALL
        SELECT format('INDEX %s', i.indexrelid::regclass), format('Enforces constraint %s of %s.', k.conname, i.indrelid::regclass)
          FROM pg_catalog.pg_index i JOIN pg_catalog.pg_constraint k ON k.conindid = i.indexrelid
         WHERE k.connamespace = 'claims'::regnamespace AND pg_catalog.obj_description(i.indexrelid, 'pg_class') IS NULL
        UNION ALL
        SELECT format('COLUMN %s.%I', a.attrelid::regclass, a.attname),
               coalesce((SELECT min(pg_catalog.col_description(t.attrelid, t.attnum)) FROM pg_catalog.pg_attribute t
                           JOIN pg_catalog.pg_class b ON b.oid = t.attrelid
                          WHERE b.relnamespace = 'claims'::regnamespace AND b.relkind = 'r' AND t.attname = a.attname
                            AND b.oid IN (SELECT d.refobjid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_rewrite w ON w.oid = d.objid
                                           WHERE d.classid = 'pg_catalog.pg_rewrite'::regclass AND w.ev_class = v.oid)),
                        'Column ' || a.attname || '.')
          FROM pg_catalog.pg_class v JOIN pg_catalog.pg_attribute a ON a.attrelid = v.oid
         WHERE v.relnamespace = 'claims'::regnamespace AND v.relkind = 'v' AND pg_catalog.col_description(a.attrelid, a.attnum) IS NULL
    LOOP
        EXECUTE format('COMMENT ON %s IS %L', silent.what, silent.text);
    END LOOP;
END $$;

-- While library and tables were of different versions, the event triggers did not handle dropped tables and new partitions.
DELETE FROM claims.claimed_attributes a WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = a.table_name);
DELETE FROM claims.captured_tables t WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = t.table_name);
SELECT claims.change_capture_triggers(a.table_name, true)
  FROM (SELECT DISTINCT table_name FROM claims.claimed_attributes) a
 WHERE EXISTS (SELECT FROM pg_catalog.pg_partition_tree(a.table_name) p JOIN pg_catalog.pg_class c ON c.oid = p.relid AND c.relkind IN ('r', 'p')
                WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = p.relid AND g.tgname = 'claims_truncate'));
SELECT claims.change_request_triggers(t.table_name, t.queue, t.entity_column::text, true)
  FROM claims.captured_tables t
 WHERE EXISTS (SELECT FROM pg_catalog.pg_partition_tree(t.table_name) p JOIN pg_catalog.pg_class c ON c.oid = p.relid AND c.relkind IN ('r', 'p')
                WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g
                                   WHERE g.tgrelid = p.relid AND g.tgname = ('claims_truncate_' || md5(t.queue))::name));

-- Grants roles the new functions of their kind.
SELECT claims.refresh_grants();
