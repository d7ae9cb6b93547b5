-- Administration in Rust; other names of types, attributes of cells.

ALTER TABLE claims.cells ADD COLUMN attributes jsonb;
COMMENT ON COLUMN claims.cells.attributes IS 'What else routers need to know of the cell: a JSON object.';

DROP FUNCTION claims.add_bucket_type(int, text);
CREATE FUNCTION claims."add_bucket_type"("id" INT, "name" TEXT, "profile" TEXT DEFAULT 'exact', "confusables" TEXT DEFAULT 'allow') RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'add_bucket_type_wrapper';
COMMENT ON FUNCTION claims.add_bucket_type(int, text, text, text) IS
    'Adds a bucket type; administrators only. profile says what counts as the same name (exact, casefold, username, domain, email, path), confusables what becomes of names that look alike (allow, reject). Ids below 100 are reserved. Repeating the same call does nothing; 23505 where id or name is taken, or the type is there with another profile. Locks claims.type_names SHARE ROW EXCLUSIVE: administrators follow each other until COMMIT.';
CREATE OR REPLACE FUNCTION claims."add_subject_type"("id" INT, "name" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'add_subject_type_wrapper';
COMMENT ON FUNCTION claims.add_subject_type(int, text) IS
    'Adds a subject type; administrators only. Ids below 100 are reserved. Repeating the same pair does nothing; 23505 where id or name is taken. Locks claims.type_names SHARE ROW EXCLUSIVE: administrators follow each other until COMMIT.';
CREATE OR REPLACE FUNCTION claims."add_source_type"("id" INT, "name" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'add_source_type_wrapper';
COMMENT ON FUNCTION claims.add_source_type(int, text) IS
    'Adds a source type; administrators only. Ids below 100 are reserved. Repeating the same pair does nothing; 23505 where id or name is taken. Locks claims.type_names SHARE ROW EXCLUSIVE: administrators follow each other until COMMIT.';
DROP FUNCTION claims.add_type(regclass, text, int, text);
CREATE FUNCTION claims."rename_type"("kind" TEXT, "id" INT, "name" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'rename_type_wrapper';
COMMENT ON FUNCTION claims.rename_type(text, int, text) IS
    'Makes a name the one by which a type of a kind (bucket, subject, source) is shown; administrators only. The names that it had are accepted as before, for ever. 23505 where the name is another type''s. Locks claims.type_names SHARE ROW EXCLUSIVE, then the type''s row: administrators follow each other until COMMIT.';

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

DROP FUNCTION claims.register_cell(bigint, name, text, text);
CREATE FUNCTION claims."register_cell"("cell_id" bigint, "role_name" name, "name" TEXT DEFAULT NULL, "address" TEXT DEFAULT NULL, "attributes" jsonb DEFAULT NULL) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'register_cell_wrapper';
COMMENT ON FUNCTION claims.register_cell(bigint, name, text, text, jsonb) IS
    'Registers a cell, or changes its role and what is given of its name, address and attributes, and grants its role what a cell needs; administrators only. A role that lost its last cell loses the grants. Locks claims.audiences SHARE ROW EXCLUSIVE, then the cell''s row: administrators follow each other until COMMIT.';
CREATE OR REPLACE FUNCTION claims."grant_read"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'grant_read_wrapper';
CREATE OR REPLACE FUNCTION claims."grant_worker"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'grant_worker_wrapper';
COMMENT ON FUNCTION claims.grant_read(name) IS
    'Grants a role what a router needs: get_record, get_records, list_types, list_cells and the view records; administrators only. Administrators follow each other until COMMIT.';

INSERT INTO claims.audiences (function_name, audience) VALUES ('list_types', 'reader'), ('list_cells', 'reader');

-- Grants (or revokes) the schema and the functions for some audiences, and to cells what they may read.
CREATE OR REPLACE FUNCTION claims.change_grants(role_name name, audiences text[], granting boolean) RETURNS void
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
