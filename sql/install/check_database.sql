-- The part of check() that reads no rows of claims: triggers, tables, settings and sequences of this database, and who holds the change feed.

CREATE OR REPLACE FUNCTION claims.find_capture_problems() RETURNS TABLE (problem text, detail text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    WITH captured AS (
        -- Each captured table with its triggers: names, functions, and the kind of the first one, which is for each row and each change.
        SELECT DISTINCT a.table_name::oid AS root, t.name, t.function::regproc, t.kind, 'claims.claim_attribute() restores it' AS restoring
          FROM claims.claimed_attributes a
         CROSS JOIN (VALUES ('claims_capture', 'claims.capture_row', 29), ('claims_truncate', 'claims.refuse_truncate', 34)) t (name, function, kind)
        UNION ALL
        SELECT q.table_name::oid, t.name || md5(q.queue), t.function::regproc, t.kind, 'claims.capture_requests() restores it'
          FROM claims.captured_tables q
         CROSS JOIN (VALUES ('claims_capture_', 'claims.capture_change', 29), ('claims_truncate_', 'claims.refuse_unrecorded_truncate', 34))
                    t (name, function, kind)
        UNION ALL
        SELECT DISTINCT u.table_name::oid, t.name, t.function::regproc, t.kind,
                        'claims.drop_unique() and claims.add_unique() restore it, and claim what was saved meanwhile'
          FROM claims.unique_members u
         CROSS JOIN (VALUES ('!claims_unique', 'claims.unique_row', 29), ('claims_unique_truncate', 'claims.give_up_truncated', 34)) t (name, function, kind)
    ), member AS (
        SELECT DISTINCT k.*, m.oid AS relid
          FROM captured k
         CROSS JOIN LATERAL (SELECT k.root UNION SELECT p.relid FROM pg_partition_tree(k.root) p) m (oid)
          JOIN pg_class c ON c.oid = m.oid AND c.relkind IN ('r', 'p')
    ), present AS (
        SELECT m.*, t.oid AS trigger, t.tgenabled,
               t.tgtype = m.kind AND t.tgqual IS NULL AND t.tgattr = '' AND t.tgfoid = m.function AS as_created
          FROM member m LEFT JOIN pg_trigger t ON t.tgrelid = m.relid AND t.tgname = m.name::name
    )
    SELECT 'capture trigger does not fire',
           format('Trigger %I of table %s %s. %s. %s.', p.name, p.relid::regclass,
                  CASE WHEN p.trigger IS NULL THEN 'is missing' WHEN p.tgenabled = 'D' THEN 'is disabled'
                       WHEN p.tgenabled = 'R' THEN 'fires in replication only' ELSE 'was altered' END,
                  CASE WHEN p.kind = 29 THEN 'Changes are not captured' WHEN p.name = 'claims_unique_truncate' THEN 'TRUNCATE gives no values up'
                       ELSE 'TRUNCATE is not refused' END, p.restoring)
      FROM present p
     WHERE p.trigger IS NULL OR p.tgenabled NOT IN ('O', 'A') OR NOT p.as_created
    UNION ALL
    SELECT 'event trigger does not fire',
           format('Event trigger %s %s. New partitions and dropped tables go unnoticed. claims.%s() restores it.', e.name,
                  CASE WHEN v.oid IS NULL THEN 'is missing' ELSE 'is disabled' END,
                  CASE WHEN EXISTS (SELECT FROM captured k WHERE k.name NOT LIKE '%claims\_unique%') THEN 'claim_attribute' ELSE 'add_unique' END)
      FROM (VALUES ('claims_complete_triggers'), ('claims_forget_dropped_tables')) e (name)
      LEFT JOIN pg_event_trigger v ON v.evtname = e.name
     WHERE EXISTS (SELECT FROM captured) AND (v.oid IS NULL OR v.evtenabled NOT IN ('O', 'A'))
    UNION ALL
    SELECT 'table inherits from a claimed table',
           format('Rows of table %s are rows of table %s, too, and have no claims.', i.inhrelid::regclass, i.inhparent::regclass)
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE NOT c.relispartition AND i.inhparent IN (SELECT a.table_name FROM claims.claimed_attributes a UNION ALL SELECT u.table_name FROM claims.unique_members u)
    UNION ALL
    SELECT 'values of a table are not unique',
           format('Not all of those of table %s stand in claims of unique "%s". claims.import_unique() claims them.', m.relid::regclass, u.name)
      FROM member m JOIN claims.unique_members k ON k.table_name = m.root JOIN claims.unique_constraints u ON u.type_id = k.type_id
      JOIN pg_class c ON c.oid = m.relid AND c.relkind = 'r'
     WHERE m.name = '!claims_unique'
       AND NOT EXISTS (SELECT FROM claims.unique_tables t WHERE t.table_name = m.relid AND t.type_id = k.type_id AND t.is_complete)
    UNION ALL
    SELECT 'values of a table are not unique', format('Table %s of unique "%s" is unlogged. A crash would empty it, and leave its claims.', m.relid::regclass, u.name)
      FROM member m JOIN claims.unique_members k ON k.table_name = m.root JOIN claims.unique_constraints u ON u.type_id = k.type_id
      JOIN pg_class c ON c.oid = m.relid AND c.relkind = 'r' AND c.relpersistence = 'u'
     WHERE m.name = '!claims_unique'
$$;
COMMENT ON FUNCTION claims.find_capture_problems() IS
    'Internal: the triggers of captured tables that do not fire, inheritance children of claimed tables, and tables of constraints of '
    'claims.add_unique() whose values are not all claimed, for claims.check(). Locks nothing.';

CREATE OR REPLACE FUNCTION claims.find_altered_settings() RETURNS TABLE (problem text, detail text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT 'table of the extension is unlogged', format('A crash empties claims.%I. ALTER TABLE claims.%I SET LOGGED restores it.', c.relname, c.relname)
      FROM pg_class c
     WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind IN ('r', 'S') AND c.relpersistence <> 'p' AND c.relname <> 'automatic_queue'
    UNION ALL
    SELECT 'trigger of the extension does not fire',
           format('Trigger %I of table %s is disabled. ALTER TABLE %s ENABLE%s TRIGGER %I restores it.', t.tgname, t.tgrelid::regclass,
                  t.tgrelid::regclass, CASE WHEN t.tgname IN ('announce_change', 'complete_declaration', 'know_column') THEN ' ALWAYS' END, t.tgname)
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
     WHERE c.relnamespace = 'claims'::regnamespace AND p.pronamespace = 'claims'::regnamespace AND NOT t.tgisinternal
       AND t.tgenabled NOT IN ('O', 'A')
    UNION ALL
    SELECT 'setting keeps triggers from firing',
           format('Sessions%s begin with %s. Their changes are not captured.',
                  concat(CASE WHEN s.setrole <> 0 THEN format(' of role %s', pg_get_userbyid(s.setrole)) END,
                         CASE WHEN s.setdatabase <> 0 THEN ' in this database' END), u.setting)
      FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) u (setting)
     WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
       AND (u.setting = 'session_replication_role=replica' OR u.setting ~ '^event_triggers=(off|false|no|0)$')
       AND EXISTS (SELECT FROM claims.claimed_attributes UNION ALL SELECT FROM claims.captured_tables UNION ALL SELECT FROM claims.unique_members)
$$;
COMMENT ON FUNCTION claims.find_altered_settings() IS
    'Internal: tables of the extension that are unlogged, its disabled triggers, and settings of databases and roles under which triggers do not '
    'fire, for claims.check(). Locks nothing.';

-- Not a part of a dump that is loaded, and not copied by logical replication: the value of a sequence. A value that returns does harm long after.
CREATE OR REPLACE FUNCTION claims.find_low_sequences() RETURNS TABLE (problem text, detail text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    used record;
    greatest_value bigint;
    last_change bigint;
BEGIN
    -- On distributed tables each node draws from a range of its own. The last change that was purged counts, too.
    IF NOT (SELECT v.distributed FROM claims.version() v) THEN
        last_change := greatest((SELECT s.id FROM claims.change_sets s ORDER BY s.xid DESC, s.id DESC LIMIT 1),
                                (SELECT max(h.id) FROM claims.change_horizon h));
    END IF;
    FOR used IN
        SELECT 'claims.expiring_tokens' AS sequence, 'token' AS value, (SELECT max(c.token) FROM claims.expiring_claims c) AS used
        UNION ALL
        -- One step through the primary key leads to the next queue.
        SELECT 'claims.requests_id_seq', 'id', (
            WITH RECURSIVE queue AS (
                (SELECT r.queue FROM claims.requests r ORDER BY r.queue LIMIT 1)
                UNION ALL
                SELECT (SELECT r.queue FROM claims.requests r WHERE r.queue > q.queue ORDER BY r.queue LIMIT 1)
                  FROM queue q WHERE q.queue IS NOT NULL)
            SELECT max(l.id) FROM queue q
             CROSS JOIN LATERAL (SELECT r.id FROM claims.requests r WHERE r.queue = q.queue ORDER BY r.id DESC LIMIT 1) l)
        UNION ALL
        SELECT 'claims.lost_holds_id_seq', 'id', (SELECT max(h.id) FROM claims.lost_holds h)
        UNION ALL
        SELECT 'claims.change_sets_id_seq', 'id', last_change
        UNION ALL
        SELECT 'claims.unique_tables_generation_seq', 'generation', (SELECT max(t.generation) FROM claims.unique_tables t)
        UNION ALL
        SELECT 'claims.unique_types', 'type_id', (SELECT max(u.type_id)::bigint FROM claims.unique_constraints u)
    LOOP
        -- Somebody may have given a column another sequence.
        CONTINUE WHEN used.used IS NULL OR used.used < 1 OR to_regclass(used.sequence) IS NULL;
        CONTINUE WHEN used.used <= coalesce(pg_sequence_last_value(used.sequence::regclass), 0);
        problem := 'sequence is behind the values that were drawn';
        detail := format('The last %s is %s. SELECT setval(%L, %s) mends it, if no greater one was drawn.', used.value, used.used, used.sequence,
                         used.used);
        RETURN NEXT;
    END LOOP;
    -- The sequences of an application that draw from its ranges of ids, where an index finds the last value of their column.
    FOR used IN
        SELECT i.sequence_name AS sequence, i.id_range, a.attrelid::regclass AS table_name, a.attname AS column_name
          FROM claims.id_sequences i
          JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = i.sequence_name AND d.refclassid = 'pg_class'::regclass
           AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0
          JOIN pg_class c ON c.oid = d.refobjid JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
         WHERE NOT lower_inf(i.id_range) AND NOT upper_inf(i.id_range) AND NOT isempty(i.id_range)
           -- Policies would run code of the table's owner.
           AND NOT c.relrowsecurity AND a.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)
           AND has_column_privilege(a.attrelid, a.attnum, 'SELECT') AND has_sequence_privilege(i.sequence_name, 'SELECT, USAGE')
           AND EXISTS (SELECT FROM pg_index x JOIN pg_class n ON n.oid = x.indexrelid JOIN pg_am m ON m.oid = n.relam
                        WHERE x.indrelid = a.attrelid AND x.indkey[0] = a.attnum AND x.indisvalid AND x.indpred IS NULL AND m.amname = 'btree')
    LOOP
        EXECUTE format('SELECT max(t.%1$I) FROM %2$s t WHERE t.%1$I >= %3$s AND t.%1$I <= %4$s', used.column_name, used.table_name,
                       lower(used.id_range), upper(used.id_range) - 1)
           INTO greatest_value;
        CONTINUE WHEN greatest_value IS NULL OR greatest_value <= coalesce(pg_sequence_last_value(used.sequence), lower(used.id_range) - 1);
        problem := 'sequence is behind the values that were drawn';
        detail := format('Column %I of table %s has %s. SELECT setval(%L, %s) mends it, if no greater one was drawn.', used.column_name,
                         used.table_name, greatest_value, used.sequence, greatest_value);
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION claims.find_low_sequences() IS
    'Internal: sequences that will draw values that rows have already, for claims.check(). Locks tables of an application whose sequences draw '
    'from ranges of ids ACCESS SHARE until the transaction ends.';

CREATE OR REPLACE FUNCTION claims.find_dump_problems() RETURNS TABLE (problem text, detail text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT 'owner of the database cannot dump it',
           format('Role %s may not read %s of the tables and sequences of claims, which pg_dump locks. GRANT pg_read_all_data TO %s permits it; '
                  'pg_dump --exclude-schema=claims needs no grant.', quote_ident(pg_get_userbyid(d.datdba)), count(*),
                  quote_ident(pg_get_userbyid(d.datdba)))
      FROM pg_database d CROSS JOIN pg_class c
     WHERE d.datname = current_database() AND c.relnamespace = 'claims'::regnamespace AND c.relkind IN ('r', 'S')
       AND NOT CASE c.relkind WHEN 'S' THEN has_sequence_privilege(d.datdba, c.oid, 'SELECT') ELSE has_table_privilege(d.datdba, c.oid, 'SELECT') END
     GROUP BY d.datdba
$$;
COMMENT ON FUNCTION claims.find_dump_problems() IS 'Internal: whether the owner of the database can dump it, for claims.check(). Locks nothing.';

CREATE OR REPLACE FUNCTION claims.find_held_feed() RETURNS TABLE (problem text, detail text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT 'change feed is held',
           format('%s of role %s%s is open since %s. Readers of the change feed get no later change until it ends.',
                  CASE f.holder WHEN 'session' THEN format('The transaction of session %s', f.pid) ELSE format('Prepared transaction %L', f.name) END,
                  quote_ident(f.usename), ', of cell ' || f.cell_id, date_trunc('second', f.since))
      FROM claims.feed_holder() f
     WHERE f.since < clock_timestamp() - current_setting('claims.stale_after')::interval
$$;
COMMENT ON FUNCTION claims.find_held_feed() IS
    'Internal: the transaction that has held back the change feed for longer than claims.stale_after, for claims.check(). Locks nothing.';
