-- Lists of types and cells, for readers.

CREATE FUNCTION claims.list_types() RETURNS TABLE (kind text, id int, name text, aliases text[], profile text, confusables text)
    LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT claims.require_own_tables();
    SELECT t.kind, t.id, t.name, ARRAY(SELECT n.name FROM claims.type_names n
                                      WHERE n.kind = t.kind AND n.id = t.id AND n.name <> t.name ORDER BY n.name),
           t.profile, t.confusables
      FROM (SELECT 1, 'bucket', y.id, y.name, y.profile, y.confusables FROM claims.bucket_types y
            UNION ALL SELECT 2, 'subject', y.id, y.name, NULL, NULL FROM claims.subject_types y
            UNION ALL SELECT 3, 'source', y.id, y.name, NULL, NULL FROM claims.source_types y) AS t (position, kind, id, name, profile, confusables)
     ORDER BY t.position, t.id
$$;
COMMENT ON FUNCTION claims.list_types() IS
    'All types: kind (bucket, subject, source), number, the name that is shown, and the other names that are accepted; for bucket types also '
    'profile and confusables. Locks nothing, works on a hot standby.';

CREATE FUNCTION claims.list_cells() RETURNS TABLE (cell_id bigint, name text, address text, attributes jsonb)
    LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT claims.require_own_tables();
    SELECT c.cell_id, c.name, c.address, c.attributes FROM claims.cells c ORDER BY c.cell_id
$$;
COMMENT ON FUNCTION claims.list_cells() IS 'All cells, with name, address and attributes, for routers. Locks nothing, works on a hot standby.';
