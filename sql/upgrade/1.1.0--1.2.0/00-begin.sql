-- Helpers of the other parts; 99-finish.sql drops them.

-- The objects that the extension had before: grants on them stay.
CREATE TABLE claims.known_before AS
    SELECT d.classid, d.objid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
     WHERE e.extname = 'claims' AND d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.deptype = 'e';

-- Where Citus distributes the tables, it runs ALTER EXTENSION on every node. So each script changes only its own node. 99-finish.sql changes the shards.
CREATE TABLE claims.propagation_before AS
    SELECT pg_catalog.current_setting('citus.enable_ddl_propagation', true) AS value,
           pg_catalog.current_setting('citus.enable_manual_changes_to_shards', true) AS of_shards;
SELECT pg_catalog.set_config('citus.enable_ddl_propagation', 'off', true), pg_catalog.set_config('citus.enable_manual_changes_to_shards', 'on', true)
  FROM claims.propagation_before b WHERE b.value IS NOT NULL;

-- Returns the table of the extension whose rows this node may change. Where it is a reference table of Citus, that is this node's own copy.
CREATE FUNCTION claims.table_here(name text) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    shard text;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_shard') IS NOT NULL THEN
        EXECUTE $sql$SELECT format('claims.%I', $1 || '_' || s.shardid) FROM pg_catalog.pg_dist_shard s WHERE s.logicalrelid = format('claims.%I', $1)::regclass$sql$
           INTO shard USING name;
    END IF;
    RETURN coalesce(shard, format('claims.%I', name));
END $$;

-- Adds types that come with this version. A type that was added with the id of one of them stays, and its name becomes another name of the seeded type.
-- If another type has the name of one of them, it changes nothing.
CREATE FUNCTION claims.seed_types(kind text, ids int[], names text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    type_table text := claims.table_here(kind || '_types');
    name_table text := claims.table_here('type_names');
    taken record;
BEGIN
    -- Waits for transactions that are adding types.
    EXECUTE format('LOCK TABLE %s, %s IN SHARE ROW EXCLUSIVE MODE', name_table, type_table);
    -- Names of types that somebody has deleted by hand.
    EXECUTE format('DELETE FROM %s n WHERE n.kind = $1 AND (n.id = ANY ($2) OR n.name = ANY ($3)) AND NOT EXISTS (SELECT FROM %s t WHERE t.id = n.id)',
                   name_table, type_table)
      USING kind, ids, names;
    -- Types that were inserted by hand, or that came from a dump of 1.0.0, have no row with their name.
    EXECUTE format('INSERT INTO %s (kind, name, id) SELECT $1, t.name, t.id FROM %s t WHERE t.id = ANY ($2) OR t.name = ANY ($3) ON CONFLICT (kind, name) DO NOTHING',
                   name_table, type_table)
      USING kind, ids, names;
    EXECUTE format('SELECT string_agg(format(''%%s "%%s"'', n.id, n.name), '', '' ORDER BY s.id) AS found,
                           string_agg(format(''%%s "%%s"'', s.id, s.name), '', '' ORDER BY s.id) AS wanted
                      FROM %s n JOIN unnest($1, $2) s (id, name) ON n.name = s.name AND n.id <> s.id WHERE n.kind = $3', name_table)
       INTO taken USING ids, names, kind;
    IF taken.found IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('extension claims cannot be updated: it brings %s types whose names are taken', kind),
            DETAIL = format('It brings %s. There is %s.', taken.wanted, taken.found),
            HINT = 'Give the types that were added other names, as the chapter "Upgrading" of docs/operations.md says. Nothing has been changed.';
    END IF;
    -- A type that rename_type() has renamed is still shown by that name.
    EXECUTE format('UPDATE %s t SET name = s.name FROM unnest($1, $2) s (id, name)
                     WHERE t.id = s.id AND t.name <> s.name
                       AND NOT EXISTS (SELECT FROM %s n WHERE n.kind = $3 AND n.id = t.id AND n.first AND n.name <> t.name)', type_table, name_table)
      USING ids, names, kind;
    EXECUTE format('INSERT INTO %s (id, name) SELECT s.id, s.name FROM unnest($1, $2) s (id, name) ON CONFLICT (id) DO NOTHING', type_table)
      USING ids, names;
    -- The first name of a seeded type is the same in every database, so that digests agree.
    EXECUTE format('UPDATE %s n SET first = false FROM unnest($1, $2) s (id, name) WHERE n.kind = $3 AND n.id = s.id AND n.first AND n.name <> s.name', name_table)
      USING ids, names, kind;
    EXECUTE format('INSERT INTO %s AS n (kind, name, id, first, seeded) SELECT $3, s.name, s.id, true, true FROM unnest($1, $2) s (id, name)
                    ON CONFLICT (kind, name) DO UPDATE SET first = true, seeded = true', name_table)
      USING ids, names, kind;
END $$;
