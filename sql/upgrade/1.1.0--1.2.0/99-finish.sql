-- The end of every upgrade: owners, privileges and comments as after CREATE EXTENSION.

DROP FUNCTION claims.seed_types(text, int[], text[]), claims.table_here(text);

-- The shards of this node get what the tables have got: columns, constraints, indexes and storage options.
DO $$
DECLARE
    change text;
    visibility text := current_setting('citus.override_table_visibility', true);
BEGIN
    IF to_regclass('pg_catalog.pg_dist_shard') IS NULL THEN
        RETURN;
    END IF;
    -- Citus hides shards from psql and other programs.
    PERFORM set_config('citus.override_table_visibility', 'off', true);
    FOR change IN EXECUTE $sql$
        WITH shards AS (
            SELECT w.oid AS whole, c.oid AS shard, s.shardid
              FROM pg_catalog.pg_dist_shard s JOIN pg_catalog.pg_class w ON w.oid = s.logicalrelid AND w.relnamespace = 'claims'::regnamespace
              JOIN pg_catalog.pg_class c ON c.relnamespace = w.relnamespace AND c.relname = w.relname || '_' || s.shardid
        ), columns AS (
            SELECT s.whole, s.shard, a.attrelid = s.whole AS of_whole, a.attname, a.attnum, a.attnotnull,
                   pg_catalog.format_type(a.atttypid, a.atttypmod) || coalesce(' COLLATE ' || CASE WHEN a.attcollation <> t.typcollation THEN a.attcollation::regcollation::text END, '') AS type,
                   pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS preset
              FROM shards s JOIN pg_catalog.pg_attribute a ON a.attrelid IN (s.whole, s.shard) AND a.attnum > 0 AND NOT a.attisdropped
              JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
              LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        ), checks AS (
            SELECT s.*, k.conrelid = s.whole AS of_whole, k.conname, pg_catalog.pg_get_constraintdef(k.oid) AS definition
              FROM shards s JOIN pg_catalog.pg_constraint k ON k.conrelid IN (s.whole, s.shard) AND k.contype = 'c'
        ), indexes AS (
            SELECT s.*, i.indrelid = s.whole AS of_whole, c.relname, i.indexrelid, i.indisunique,
                   regexp_replace(pg_catalog.pg_get_indexdef(i.indexrelid), '^.*? USING ', '') AS definition
              FROM shards s JOIN pg_catalog.pg_index i ON i.indrelid IN (s.whole, s.shard) JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
             WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conindid = i.indexrelid)
        )
        SELECT format('ALTER TABLE %s %s', shard::regclass, change) FROM (
            SELECT s.shard, 1 AS step, w.attnum AS nth, format('ADD COLUMN %I %s', w.attname, w.type) || coalesce(' DEFAULT ' || w.preset, '') || CASE WHEN w.attnotnull THEN ' NOT NULL' ELSE '' END AS change
              FROM shards s JOIN columns w ON w.shard = s.shard AND w.of_whole
             WHERE NOT EXISTS (SELECT FROM columns o WHERE o.shard = s.shard AND NOT o.of_whole AND o.attname = w.attname)
            UNION ALL
            SELECT w.shard, 2, w.attnum, format('ALTER COLUMN %I %s NOT NULL', w.attname, CASE WHEN w.attnotnull THEN 'SET' ELSE 'DROP' END)
              FROM columns w JOIN columns o ON o.shard = w.shard AND NOT o.of_whole AND o.attname = w.attname
             WHERE w.of_whole AND w.attnotnull <> o.attnotnull
            UNION ALL
            SELECT w.shard, 2, w.attnum, format('ALTER COLUMN %I ', w.attname) || coalesce('SET DEFAULT ' || w.preset, 'DROP DEFAULT')
              FROM columns w JOIN columns o ON o.shard = w.shard AND NOT o.of_whole AND o.attname = w.attname
             WHERE w.of_whole AND w.preset IS DISTINCT FROM o.preset
            UNION ALL
            SELECT o.shard, 3, 0, format('DROP CONSTRAINT %I', o.conname) FROM checks o
             WHERE NOT o.of_whole AND NOT EXISTS (SELECT FROM checks w WHERE w.shard = o.shard AND w.of_whole AND w.definition = o.definition)
            UNION ALL
            SELECT w.shard, 4, 0, format('ADD CONSTRAINT %I %s', w.conname, w.definition) FROM checks w
             WHERE w.of_whole AND NOT EXISTS (SELECT FROM checks o WHERE o.shard = w.shard AND NOT o.of_whole AND o.definition = w.definition)
            UNION ALL
            SELECT o.shard, 5, o.attnum, format('DROP COLUMN %I', o.attname) FROM columns o
             WHERE NOT o.of_whole AND NOT EXISTS (SELECT FROM columns w WHERE w.shard = o.shard AND w.of_whole AND w.attname = o.attname)
            UNION ALL
            SELECT s.shard, 6, 0, format('SET (%s)', array_to_string(w.reloptions, ', '))
              FROM shards s JOIN pg_catalog.pg_class w ON w.oid = s.whole JOIN pg_catalog.pg_class o ON o.oid = s.shard
             WHERE NOT coalesce(w.reloptions, '{}') <@ coalesce(o.reloptions, '{}')
            ORDER BY 1, 2, 3) c
        UNION ALL
        SELECT format('DROP INDEX %s', o.indexrelid::regclass) FROM indexes o
         WHERE NOT o.of_whole AND NOT EXISTS (SELECT FROM indexes w WHERE w.shard = o.shard AND w.of_whole AND (w.definition, w.indisunique) = (o.definition, o.indisunique))
        UNION ALL
        SELECT format('CREATE %s %I ON %s USING %s', CASE WHEN w.indisunique THEN 'UNIQUE INDEX' ELSE 'INDEX' END,
                      left(w.relname, 50) || '_' || w.shardid, w.shard::regclass, w.definition) FROM indexes w
         WHERE w.of_whole AND NOT EXISTS (SELECT FROM indexes o WHERE o.shard = w.shard AND NOT o.of_whole AND (o.definition, o.indisunique) = (w.definition, w.indisunique))
    $sql$
    LOOP
        EXECUTE change;
    END LOOP;
    PERFORM set_config('citus.override_table_visibility', visibility, true);
END $$;

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
-- Nobody has had a right on sequences; so PostgreSQL records the privileges of all of them as the initial ones.
REVOKE ALL ON ALL SEQUENCES IN SCHEMA claims FROM PUBLIC;

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

-- Grants roles the new functions of their kind. On distributed tables each node does it for itself, by the names of the roles, and makes the functions
-- PARALLEL UNSAFE again.
DO $$
DECLARE
    is_distributed boolean := false;
    cells text;
    granted text[];
    target text;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE $sql$SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_partition p WHERE p.logicalrelid = 'claims.claims'::regclass)$sql$ INTO is_distributed;
    END IF;
    IF NOT is_distributed THEN
        PERFORM claims.refresh_grants();
        RETURN;
    END IF;
    -- A node that runs this script for another one may read its own copy of the cells, but no distributed table.
    EXECUTE $sql$SELECT format('claims.%I', 'cells_' || s.shardid) FROM pg_catalog.pg_dist_shard s WHERE s.logicalrelid = 'claims.cells'::regclass$sql$ INTO STRICT cells;
    FOR target, granted IN EXECUTE format($sql$
        SELECT DISTINCT r.rolname, a.audiences
          FROM (SELECT c.role_name, '{reader,cell}'::text[] FROM %s c
                UNION ALL
                SELECT pg_catalog.pg_get_userbyid(a.grantee), v.audiences
                  FROM (VALUES ('claims.records'::regclass, '{reader,router}'::text[]), ('claims.leases', '{monitor}'), ('claims.expiring_claims', '{worker}')) v (relation, audiences)
                  JOIN pg_catalog.pg_class t ON t.oid = v.relation CROSS JOIN pg_catalog.aclexplode(t.relacl) a
                 WHERE a.privilege_type = 'SELECT' AND a.grantee NOT IN (0, t.relowner)) a (role_name, audiences)
          JOIN pg_catalog.pg_roles r ON r.rolname = a.role_name $sql$, cells)
    LOOP
        PERFORM claims.change_grants(target::name, granted, true);
    END LOOP;
    FOR target IN
        SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
         WHERE p.pronamespace = 'claims'::regnamespace AND p.proparallel <> 'u' AND p.provolatile <> 'i'
    LOOP
        EXECUTE format('ALTER FUNCTION %s PARALLEL UNSAFE', target);
    END LOOP;
END $$;
SELECT pg_catalog.set_config('citus.enable_ddl_propagation', b.value, true), pg_catalog.set_config('citus.enable_manual_changes_to_shards', b.of_shards, true)
  FROM claims.propagation_before b WHERE b.value IS NOT NULL;
DROP TABLE claims.propagation_before;
