-- What administrators call: types, cells, readers.

-- Tells every session that cached rows of a table are out of date.
CREATE FUNCTION claims.announce_change() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'announce_change_wrapper';

CREATE FUNCTION claims.add_type(type_table regclass, kind text, new_id int, new_name text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known record;
    is_known boolean;
BEGIN
    PERFORM claims.require_admin();
    IF new_id IS NULL OR new_name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s type needs an id and a name', kind),
            DETAIL = 'One of them is null.', HINT = 'Give both.';
    END IF;
    -- What is there already needs no look at its form: the seeds may be added again, UNSPECIFIED with them.
    EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE id = $1 OR name = $2)', type_table) INTO is_known USING new_id, new_name;
    IF NOT is_known AND (new_id < 1 OR new_name = '' OR new_name ~ '^[0-9]+$') THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('invalid %s type', kind),
            DETAIL = format('Id %s, name "%s".', new_id, left(new_name, 64)),
            HINT = 'Ids begin at 1, and a name has 1 to 63 characters, not all of them digits.';
    END IF;
    IF NOT is_known AND length(new_name) > 63 THEN
        RAISE EXCEPTION USING ERRCODE = '22001', MESSAGE = format('name of %s type is too long', kind),
            DETAIL = 'At most 63 characters are allowed.', HINT = 'Shorten it.';
    END IF;
    EXECUTE format('INSERT INTO %s (id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING', type_table) USING new_id, new_name;
    FOR known IN EXECUTE format('SELECT id, name FROM %s WHERE (id = $1) <> (name = $2) ORDER BY id', type_table)
                 USING new_id, new_name
    LOOP
        RAISE EXCEPTION USING ERRCODE = '23505', MESSAGE = format('%s type %s "%s" is taken', kind, new_id, left(new_name, 64)),
            DETAIL = format('There is %s type %s "%s".', kind, known.id, known.name),
            HINT = 'Choose an id and a name that are both free.';
    END LOOP;
END $$;

CREATE FUNCTION claims.add_bucket_type(id int, name text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT claims.add_type('claims.bucket_types'::regclass, 'bucket', $1, $2) $$;
CREATE FUNCTION claims.add_subject_type(id int, name text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT claims.add_type('claims.subject_types'::regclass, 'subject', $1, $2) $$;
CREATE FUNCTION claims.add_source_type(id int, name text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT claims.add_type('claims.source_types'::regclass, 'source', $1, $2) $$;

-- Which function is for whom; nobody else may execute anything. One row per function name.
CREATE TABLE claims.audiences (
    function_name text COLLATE "C" PRIMARY KEY,
    audience      text COLLATE "C" NOT NULL CHECK (audience IN ('reader', 'cell', 'worker'))
);
COMMENT ON TABLE claims.audiences IS 'Which functions claims.register_cell(), grant_read() and grant_worker() grant. Readers'' functions are for cells, too.';
COMMENT ON COLUMN claims.audiences.function_name IS 'Name of a function in schema claims, all its variants.';
COMMENT ON COLUMN claims.audiences.audience IS 'reader, cell or worker.';
INSERT INTO claims.audiences (function_name, audience) VALUES
    ('get_record', 'reader'), ('get_records', 'reader'),
    ('begin_update', 'cell'), ('try_begin_update', 'cell'), ('commit_update', 'cell'), ('rollback_update', 'cell'),
    ('settle_leases', 'cell'), ('lease_outcome', 'cell'), ('list_leases', 'cell'), ('list_records', 'cell');

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
         WHERE p.pronamespace = 'claims'::regnamespace AND a.audience = ANY (change_grants.audiences) ORDER BY p.oid::regprocedure::text
    LOOP
        EXECUTE format('%s EXECUTE ON FUNCTION %s %s %I', verb, target, word, role_name);
    END LOOP;
    IF 'cell' = ANY (change_grants.audiences) THEN
        -- What tells a cell about itself: the columns it claims, and how far its verification is and in whose hands.
        EXECUTE format('%s SELECT ON claims.claimed_columns, claims.verification_progress, claims.verification_workers %s %I', verb, word, role_name);
    END IF;
    -- A role that keeps the functions of another audience keeps the schema.
    IF granting OR NOT EXISTS (SELECT FROM pg_proc p, aclexplode(p.proacl) a
                                WHERE p.pronamespace = 'claims'::regnamespace
                                  AND a.grantee = (SELECT r.oid FROM pg_roles r WHERE r.rolname = role_name)) THEN
        EXECUTE format('%s USAGE ON SCHEMA claims %s %I', verb, word, role_name);
    END IF;
END $$;

CREATE FUNCTION claims.register_cell(cell_id bigint, role_name name, name text DEFAULT NULL, address text DEFAULT NULL)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    new_role oid;
    old_role oid;
BEGIN
    PERFORM claims.require_admin();
    IF register_cell.cell_id IS NULL OR register_cell.role_name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'cell_id and role_name must not be null', HINT = 'Give both.';
    END IF;
    SELECT r.oid INTO new_role FROM pg_roles r WHERE r.rolname = register_cell.role_name;
    IF new_role IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role "%s" does not exist', register_cell.role_name),
            HINT = 'Create the role with CREATE ROLE first.';
    END IF;
    -- Administrators follow each other: two that grant on one function at the same time get "tuple concurrently updated",
    -- and two that register one cell would not see whose it was.
    LOCK TABLE claims.audiences IN SHARE ROW EXCLUSIVE MODE;
    SELECT c.role::oid INTO old_role FROM claims.cells c WHERE c.cell_id = register_cell.cell_id;
    INSERT INTO claims.cells AS c (cell_id, role, name, address)
        VALUES (register_cell.cell_id, new_role::regrole, register_cell.name, register_cell.address)
        ON CONFLICT (cell_id) DO UPDATE
        SET role = excluded.role, name = coalesce(excluded.name, c.name), address = coalesce(excluded.address, c.address);
    PERFORM claims.change_grants(register_cell.role_name, '{reader,cell}', true);
    IF old_role <> new_role AND NOT EXISTS (SELECT FROM claims.cells c WHERE c.role = old_role::regrole) THEN
        PERFORM claims.change_grants(r.rolname, '{cell}', false) FROM pg_roles r WHERE r.oid = old_role;
        -- What grant_read() gave stays; it alone grants the view.
        IF NOT EXISTS (SELECT FROM pg_class v, aclexplode(v.relacl) a WHERE v.oid = 'claims.records'::regclass AND a.grantee = old_role) THEN
            PERFORM claims.change_grants(r.rolname, '{reader}', false) FROM pg_roles r WHERE r.oid = old_role;
        END IF;
    END IF;
END $$;

CREATE FUNCTION claims.grant_read(role_name name) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM claims.require_admin();
    IF grant_read.role_name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'role_name must not be null', HINT = 'Name a role.';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = grant_read.role_name) THEN
        RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role "%s" does not exist', grant_read.role_name),
            HINT = 'Create the role with CREATE ROLE first.';
    END IF;
    LOCK TABLE claims.audiences IN SHARE ROW EXCLUSIVE MODE;
    PERFORM claims.change_grants(grant_read.role_name, '{reader}', true);
    EXECUTE format('GRANT SELECT ON claims.records TO %I', grant_read.role_name);
END $$;
