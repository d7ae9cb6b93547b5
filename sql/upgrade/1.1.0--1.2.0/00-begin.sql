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

-- Adds types that come with this version. If the database has types of its own with their ids or names, it changes nothing.
CREATE FUNCTION claims.seed_types(kind text, ids int[], names text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    type_table regclass := format('claims.%I', kind || '_types');
    taken record;
BEGIN
    -- Waits for transactions that are adding types.
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', type_table);
    EXECUTE format('SELECT string_agg(format(''%%s "%%s"'', t.id, t.name), '', '' ORDER BY t.id) AS found,
                           string_agg(format(''%%s "%%s"'', s.id, s.name), '', '' ORDER BY t.id) AS wanted
                      FROM %s t JOIN unnest($1, $2) s (id, name) ON (t.id = s.id) <> (t.name = s.name)', type_table)
       INTO taken USING ids, names;
    IF taken.found IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('extension claims cannot be updated: it brings %s types whose ids or names are taken', kind),
            DETAIL = format('It brings %s. There is %s.', taken.wanted, taken.found),
            HINT = 'Give the types that were added other names, or ids from 100 on, as the chapter "Upgrading" of docs/operations.md says. Nothing has been changed.';
    END IF;
    EXECUTE format('INSERT INTO %s (id, name) SELECT s.id, s.name FROM unnest($1, $2) s (id, name) ON CONFLICT DO NOTHING', type_table)
      USING ids, names;
END $$;
