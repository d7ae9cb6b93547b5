CREATE TABLE claims.claimed_attributes (
    table_name   regclass NOT NULL,
    attribute    name     NOT NULL,
    bucket_type  text     NOT NULL,
    subject_type text     NOT NULL,
    subject_key  name     NOT NULL,
    source_type  text     NOT NULL,
    source_key   name     NOT NULL,
    condition    text,
    declaration     name NOT NULL,
    constraint_name name NOT NULL,
    enforcement     text NOT NULL DEFAULT 'enforce' CHECK (enforcement IN ('off', 'observe', 'enforce')),
    share           numeric NOT NULL DEFAULT 100 CHECK (share >= 0 AND share <= 100),
    approved_owner  regrole,
    approved_cell   bigint,
    PRIMARY KEY (table_name, attribute, declaration)
);
COMMENT ON TABLE claims.claimed_attributes IS
    'In a cell: the columns whose values are claimed. Written by claims.claim_attribute() and claims.unclaim_attribute().';
COMMENT ON COLUMN claims.claimed_attributes.table_name IS 'The table.';
COMMENT ON COLUMN claims.claimed_attributes.attribute IS 'The column whose values, as text, are bucket values.';
COMMENT ON COLUMN claims.claimed_attributes.bucket_type IS 'Name of the bucket type.';
COMMENT ON COLUMN claims.claimed_attributes.subject_type IS 'Name of the subject type.';
COMMENT ON COLUMN claims.claimed_attributes.subject_key IS 'The column that holds the subject''s id.';
COMMENT ON COLUMN claims.claimed_attributes.source_type IS 'Name of the source type: the table''s name at the service.';
COMMENT ON COLUMN claims.claimed_attributes.source_key IS 'The column that holds the source''s id.';
COMMENT ON COLUMN claims.claimed_attributes.condition IS 'Condition for rows that are claimed, with qualified names; NULL: all rows.';
COMMENT ON COLUMN claims.claimed_attributes.declaration IS 'Name of the declaration. A column can have several, each with its condition.';
COMMENT ON COLUMN claims.claimed_attributes.enforcement IS 'Mode of the declaration: off, observe or enforce.';
COMMENT ON COLUMN claims.claimed_attributes.share IS 'Percentage of names for which the mode holds; the others are observed.';
COMMENT ON COLUMN claims.claimed_attributes.approved_owner IS
    'Owner of the table when a role that may act for the cell, or an administrator, declared the column; NULL: neither did.';
COMMENT ON COLUMN claims.claimed_attributes.approved_cell IS 'The cell that this role could act for; NULL: an administrator declared the column.';
COMMENT ON COLUMN claims.claimed_attributes.constraint_name IS 'Name of the constraint in errors of a save that cannot have its name.';

CREATE TABLE claims.automatic_service (
    single  boolean PRIMARY KEY DEFAULT true CHECK (single),
    cell_id bigint  NOT NULL,
    service text
);
COMMENT ON TABLE claims.automatic_service IS
    'In a cell: the service of automatic mode, one row, or none if it is off. Written by claims.automatic() and claims.automatic_here().';
COMMENT ON COLUMN claims.automatic_service.single IS 'Always true: there is at most one row.';
COMMENT ON COLUMN claims.automatic_service.cell_id IS 'The cell that owns the claims.';
COMMENT ON COLUMN claims.automatic_service.service IS
    'Name of the foreign server that leads to the shared database; NULL: this database is the shared one, and transactions claim in themselves.';

-- One row for each transaction that changed claimed columns in automatic mode and called SET CONSTRAINTS, deleted before the
-- transaction ends. Only its deferred trigger needs the row, so the table needs no WAL.
CREATE UNLOGGED TABLE claims.automatic_queue (
    changes bigint NOT NULL
) WITH (vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000);
COMMENT ON TABLE claims.automatic_queue IS
    'Internal: makes PostgreSQL call a deferred trigger for SET CONSTRAINTS. Its rows are deleted in the same transaction.';
COMMENT ON COLUMN claims.automatic_queue.changes IS
    '0: queued at the first change. Otherwise the number of changes after which it was queued again, behind all other deferred triggers.';

-- Counts of claims that capture left out or adopted since the extension was installed. Sequences count without a lock, also if the transaction rolls
-- back.
CREATE SEQUENCE claims.capture_left_out_missing MINVALUE 0;
CREATE SEQUENCE claims.capture_left_out_not_owner MINVALUE 0;
CREATE SEQUENCE claims.capture_left_out_other_source MINVALUE 0;
CREATE SEQUENCE claims.capture_adopted MINVALUE 0;
COMMENT ON SEQUENCE claims.capture_left_out_missing IS 'In a cell: counts names that rows gave up although they were not claimed.';
COMMENT ON SEQUENCE claims.capture_left_out_not_owner IS 'In a cell: counts names that rows gave up although another cell owns them.';
COMMENT ON SEQUENCE claims.capture_left_out_other_source IS
    'In a cell: counts names that rows gave up although they were claimed for other rows or subjects.';
COMMENT ON SEQUENCE claims.capture_adopted IS 'In a cell: counts claims of this cell without a row that rows adopted.';
-- PostgreSQL records these privileges as the initial ones, also if there are default privileges.
REVOKE ALL ON SEQUENCE claims.capture_left_out_missing, claims.capture_left_out_not_owner, claims.capture_left_out_other_source,
    claims.capture_adopted FROM PUBLIC;
SELECT pg_catalog.setval(s, 0) FROM pg_catalog.unnest(ARRAY['claims.capture_left_out_missing', 'claims.capture_left_out_not_owner',
    'claims.capture_left_out_other_source', 'claims.capture_adopted']::regclass[]) AS s;
SELECT pg_catalog.pg_extension_config_dump('claims.capture_left_out_missing', '');
SELECT pg_catalog.pg_extension_config_dump('claims.capture_left_out_not_owner', '');
SELECT pg_catalog.pg_extension_config_dump('claims.capture_left_out_other_source', '');
SELECT pg_catalog.pg_extension_config_dump('claims.capture_adopted', '');

SELECT pg_catalog.pg_extension_config_dump('claims.claimed_attributes', '');
SELECT pg_catalog.pg_extension_config_dump('claims.automatic_service', '');
SELECT pg_catalog.pg_extension_config_dump('claims.automatic_queue', 'WHERE false');

-- Not SECURITY DEFINER: it takes its owner's rights and a search_path only when it executes a statement, and most rows need none.
CREATE FUNCTION claims.capture_row() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'capture_row_wrapper';
CREATE FUNCTION claims.send_automatically() RETURNS trigger
    LANGUAGE c SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'send_automatically_wrapper';
CREATE FUNCTION claims.refuse_truncate() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- A partition that was detached still has the trigger.
    IF NOT EXISTS (SELECT FROM claims.claimed_attributes a
                    WHERE a.table_name = TG_RELID OR a.table_name IN (SELECT p.relid FROM pg_partition_ancestors(TG_RELID) p))
    THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('cannot truncate table "%s": its columns are claimed', TG_TABLE_NAME),
        DETAIL = 'TRUNCATE does not say which rows go, so their claims could not be given back.',
        HINT = 'Use DELETE, or call claims.unclaim_attribute() first.';
END $$;

CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.claimed_attributes
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.automatic_service
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
CREATE CONSTRAINT TRIGGER automatic AFTER INSERT OR UPDATE ON claims.automatic_queue
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION claims.send_automatically();

-- Event triggers run with the rights of the role that executes the command, which may be a superuser: only a superuser may replace them.
CREATE FUNCTION claims.complete_triggers() RETURNS event_trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'claims_complete_triggers';
CREATE FUNCTION claims.forget_dropped_tables() RETURNS event_trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'claims_forget_dropped_tables';
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION claims.complete_triggers() OWNER TO %I', pg_catalog.pg_get_userbyid(10));
    EXECUTE format('ALTER FUNCTION claims.forget_dropped_tables() OWNER TO %I', pg_catalog.pg_get_userbyid(10));
END $$;

-- Returns whether the text of a value is the same in every session: for enums without a cast of their own, and types whose
-- conversion to text is immutable, except those whose function is declared so and still depends on settings.
CREATE FUNCTION claims.has_fixed_text(value_type oid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE base AS (
        SELECT y.oid, y.typtype, y.typbasetype, y.typoutput FROM pg_type y WHERE y.oid = value_type
        UNION ALL SELECT y.oid, y.typtype, y.typbasetype, y.typoutput FROM base JOIN pg_type y ON base.typtype = 'd' AND y.oid = base.typbasetype)
    SELECT b.typtype = 'e' AND c.castsource IS NULL
           OR b.oid NOT IN ('float4'::regtype, 'float8'::regtype, 'bytea'::regtype, 'interval'::regtype, 'point'::regtype, 'lseg'::regtype,
                            'path'::regtype, 'box'::regtype, 'polygon'::regtype, 'line'::regtype, 'circle'::regtype)
           AND (c.castmethod IS NOT DISTINCT FROM 'b' OR p.provolatile = 'i')
      FROM base b LEFT JOIN pg_cast c ON c.castsource = b.oid AND c.casttarget = 'text'::regtype
      LEFT JOIN pg_proc p ON p.oid = coalesce(nullif(c.castfunc, 0), b.typoutput)
     WHERE b.typtype <> 'd'
$$;
