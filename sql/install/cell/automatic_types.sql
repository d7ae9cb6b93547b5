-- The services of bucket types that have one of their own.

CREATE TABLE claims.automatic_types (
    bucket_type text   COLLATE "C" NOT NULL PRIMARY KEY,
    cell_id     bigint NOT NULL,
    service     text   NOT NULL
);
COMMENT ON TABLE claims.automatic_types IS
    'In a cell: the bucket types whose names automatic mode claims at a service of their own; claims.automatic_service has that of all others. '
    'Written by claims.automatic().';
COMMENT ON COLUMN claims.automatic_types.bucket_type IS 'First name of the bucket type.';
COMMENT ON COLUMN claims.automatic_types.cell_id IS 'The cell that owns the claims: the same in all rows.';
COMMENT ON COLUMN claims.automatic_types.service IS 'Name of the foreign server that leads to the shared database.';

CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.automatic_types
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
ALTER TABLE claims.automatic_types ENABLE ALWAYS TRIGGER announce_change;
COMMENT ON TRIGGER announce_change ON claims.automatic_types IS 'Sessions cache this table.';

SELECT pg_catalog.pg_extension_config_dump('claims.automatic_types', '');
