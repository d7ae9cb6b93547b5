-- What administrators call: types, cells, readers. What they may give is checked in Rust (src/service/admin).

-- Tells every session that cached rows of a table are out of date.
CREATE FUNCTION claims.announce_change() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'announce_change_wrapper';

CREATE FUNCTION claims.list_types() RETURNS TABLE (kind text, id int, name text, aliases text[], profile text, confusables text)
    LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT claims.require_own_tables();
    SELECT t.kind, t.id, t.name, ARRAY(SELECT n.name FROM claims.type_names n WHERE n.kind = t.kind AND n.id = t.id AND n.name <> t.name ORDER BY n.name),
           t.profile, t.confusables
      FROM (SELECT 1, 'bucket', y.id, y.name, y.profile, y.confusables FROM claims.bucket_types y
            UNION ALL SELECT 2, 'subject', y.id, y.name, NULL, NULL FROM claims.subject_types y
            UNION ALL SELECT 3, 'source', y.id, y.name, NULL, NULL FROM claims.source_types y) AS t (position, kind, id, name, profile, confusables)
     ORDER BY t.position, t.id
$$;
COMMENT ON FUNCTION claims.list_types() IS
    'All types: kind (bucket, subject, source), number, the name that is shown, and the other names that are accepted; of bucket types also how their names are compared. Locks nothing, works on a hot standby.';

CREATE FUNCTION claims.list_cells() RETURNS TABLE (cell_id bigint, name text, address text, attributes jsonb)
    LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT claims.require_own_tables();
    SELECT c.cell_id, c.name, c.address, c.attributes FROM claims.cells c ORDER BY c.cell_id
$$;
COMMENT ON FUNCTION claims.list_cells() IS 'All cells, with what routers need to know of them. Locks nothing, works on a hot standby.';

-- Which function is for whom; nobody else may execute anything. One row per function name.
CREATE TABLE claims.audiences (
    function_name text COLLATE "C" PRIMARY KEY,
    audience      text COLLATE "C" NOT NULL CHECK (audience IN ('all', 'reader', 'cell', 'worker', 'monitor'))
);
COMMENT ON TABLE claims.audiences IS 'Which functions claims.register_cell(), grant_read(), grant_worker() and grant_monitor() grant. Readers'' functions are for cells, too.';
COMMENT ON COLUMN claims.audiences.function_name IS 'Name of a function in schema claims, all its variants.';
COMMENT ON COLUMN claims.audiences.audience IS 'reader, cell, worker or monitor; all: for everybody who is one of these.';
INSERT INTO claims.audiences (function_name, audience) VALUES
    ('version', 'all'), ('check', 'monitor'),
    ('canonical', 'reader'), ('canonical_form', 'reader'), ('require_naming', 'cell'),
    ('get_record', 'reader'), ('get_records', 'reader'), ('list_types', 'reader'), ('list_cells', 'reader'),
    ('begin_update', 'cell'), ('try_begin_update', 'cell'), ('begin_first', 'cell'), ('commit_update', 'cell'), ('commit_unflushed', 'cell'), ('rollback_update', 'cell'),
    ('settle_leases', 'cell'), ('lease_outcome', 'cell'), ('list_leases', 'cell'), ('list_records', 'cell'),
    ('lease_details', 'cell');

-- Grants (or revokes) the schema and the functions for some audiences, and to cells what they may read.
CREATE FUNCTION claims.change_grants(role_name name, audiences text[], granting boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    target regprocedure;
    verb text := CASE WHEN granting THEN 'GRANT' ELSE 'REVOKE' END;
    word text := CASE WHEN granting THEN 'TO' ELSE 'FROM' END;
BEGIN
    FOR target IN
        SELECT p.oid FROM pg_proc p JOIN claims.audiences a ON a.function_name = p.proname
         WHERE p.pronamespace = 'claims'::regnamespace AND (a.audience = ANY (change_grants.audiences) OR granting AND a.audience = 'all')
           -- An owner keeps what is its own.
           AND (granting OR p.proowner <> (SELECT r.oid FROM pg_roles r WHERE r.rolname = role_name))
         ORDER BY p.oid::regprocedure::text
    LOOP
        EXECUTE format('%s EXECUTE ON FUNCTION %s %s %I', verb, target, word, role_name);
    END LOOP;
    IF 'cell' = ANY (change_grants.audiences) THEN
        -- What tells a cell about itself: the columns it claims, how far its verification is and in whose hands, the service, the passes.
        EXECUTE format('%s SELECT ON claims.claimed_columns, claims.verification_progress, claims.verification_workers, claims.service_state, claims.passes %s %I', verb, word, role_name);
    END IF;
    IF granting THEN
        EXECUTE format('GRANT USAGE ON SCHEMA claims TO %I', role_name);
    -- A role that keeps the functions of another audience keeps what all have.
    ELSIF NOT EXISTS (SELECT FROM pg_proc p LEFT JOIN claims.audiences f ON f.function_name = p.proname, aclexplode(p.proacl) a
                       WHERE p.pronamespace = 'claims'::regnamespace AND f.audience IS DISTINCT FROM 'all'
                         AND a.grantee = (SELECT r.oid FROM pg_roles r WHERE r.rolname = role_name)) THEN
        FOR target IN
            SELECT p.oid FROM pg_proc p JOIN claims.audiences a ON a.function_name = p.proname
             WHERE p.pronamespace = 'claims'::regnamespace AND a.audience = 'all' ORDER BY p.oid::regprocedure::text
        LOOP
            EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM %I', target, role_name);
        END LOOP;
        EXECUTE format('REVOKE USAGE ON SCHEMA claims FROM %I', role_name);
    END IF;
END $$;
