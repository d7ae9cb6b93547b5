-- The names of types.

-- All names of all types, shown or not. A type keeps every name that it ever had, so that callers can still use an older one.
-- Digests use the first name: it never changes.
CREATE TABLE claims.type_names (
    kind   text    COLLATE "C" NOT NULL CHECK (kind IN ('bucket', 'subject', 'source')),
    name   text    COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
    id     int     NOT NULL CHECK (id >= 0),
    first  boolean NOT NULL DEFAULT false,
    seeded boolean NOT NULL DEFAULT false,
    PRIMARY KEY (kind, name)
);
CREATE UNIQUE INDEX type_names_first ON claims.type_names (kind, id) WHERE first;
COMMENT ON TABLE claims.type_names IS
    'All names of all types, each of them accepted. Written by claims.add_bucket_type() and the like, and claims.rename_type().';
COMMENT ON INDEX claims.type_names_first IS 'A type has one first name.';
COMMENT ON COLUMN claims.type_names.kind IS 'bucket, subject or source.';
COMMENT ON COLUMN claims.type_names.name IS 'The name.';
COMMENT ON COLUMN claims.type_names.id IS 'Number of the type.';
COMMENT ON COLUMN claims.type_names.first IS 'Whether it is the first name of the type, which digests use.';
COMMENT ON COLUMN claims.type_names.seeded IS 'It came with the extension, and not from a dump.';

-- A table of its own, because pg_dump carries whole rows: the row of a seeded type comes with CREATE EXTENSION, its other name does not.
CREATE TABLE claims.type_renames (
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('bucket', 'subject', 'source')),
    id   int  NOT NULL,
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, id)
);
COMMENT ON TABLE claims.type_renames IS
    'The shown names of types that were renamed. A trigger shows every name that is written here, also by a restore. Written by '
    'claims.rename_type().';
COMMENT ON COLUMN claims.type_renames.kind IS 'bucket, subject or source.';
COMMENT ON COLUMN claims.type_renames.id IS 'Number of the type.';
COMMENT ON COLUMN claims.type_renames.name IS 'The name that is shown.';

CREATE FUNCTION claims.show_renamed() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('UPDATE claims.%I SET name = $1 WHERE id = $2', NEW.kind || '_types') USING NEW.name, NEW.id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION claims.show_renamed() IS 'Internal: trigger that shows types by their new names. Locks the type''s row.';
CREATE TRIGGER show_renamed AFTER INSERT OR UPDATE ON claims.type_renames FOR EACH ROW EXECUTE FUNCTION claims.show_renamed();
ALTER TABLE claims.type_renames ENABLE ALWAYS TRIGGER show_renamed;
COMMENT ON TRIGGER show_renamed ON claims.type_renames IS 'Shows types by their new names, also after a restore.';
INSERT INTO claims.type_names (kind, id, name, first, seeded)
    SELECT 'bucket', id, name, true, true FROM claims.bucket_types
    UNION ALL SELECT 'subject', id, name, true, true FROM claims.subject_types
    UNION ALL SELECT 'source', id, name, true, true FROM claims.source_types
    UNION ALL VALUES ('subject', 2, 'NAMESPACE', false, true), ('source', 5, 'RAILS_TABLE_NAMESPACES', false, true);

SELECT pg_catalog.pg_extension_config_dump('claims.type_names', 'WHERE NOT seeded');
SELECT pg_catalog.pg_extension_config_dump('claims.type_renames', '');
