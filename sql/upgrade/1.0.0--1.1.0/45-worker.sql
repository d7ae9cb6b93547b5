-- The log of passes, and the cells that the background worker attends to.

CREATE TABLE claims.pass_log (
    id          uuid        NOT NULL PRIMARY KEY,
    kind        text        COLLATE "C" NOT NULL,
    cell_id     bigint,
    source_type text        COLLATE "C",
    started_at  timestamptz NOT NULL,
    ended_at    timestamptz NOT NULL,
    counts      jsonb,
    sqlstate    text,
    message     text
);
CREATE INDEX pass_log_kind ON claims.pass_log (kind, id);
COMMENT ON TABLE claims.pass_log IS 'The last 1,000 passes of each kind; claims.passes shows them. Not in a dump: in a restored database nothing has been done yet.';
COMMENT ON INDEX claims.pass_log_kind IS 'Finds what is older than the last 1,000 of a kind.';
COMMENT ON COLUMN claims.pass_log.id IS 'A UUIDv7: in the order in which the passes ended.';
COMMENT ON COLUMN claims.pass_log.kind IS 'reconcile, verify, purge, or settle (by the worker, where it failed).';
COMMENT ON COLUMN claims.pass_log.cell_id IS 'The cell, if it was for one.';
COMMENT ON COLUMN claims.pass_log.source_type IS 'Name of the source type, of a verification.';
COMMENT ON COLUMN claims.pass_log.started_at IS 'When it began (clock time).';
COMMENT ON COLUMN claims.pass_log.ended_at IS 'When it ended (clock time).';
COMMENT ON COLUMN claims.pass_log.counts IS 'What it returned, by name.';
COMMENT ON COLUMN claims.pass_log.sqlstate IS 'SQLSTATE of the error that ended it; NULL: it succeeded.';
COMMENT ON COLUMN claims.pass_log.message IS 'Message of that error.';

CREATE VIEW claims.passes AS
    SELECT p.kind, p.cell_id, p.source_type, p.started_at, p.ended_at, p.counts, p.sqlstate, p.message
      FROM claims.pass_log p;
COMMENT ON VIEW claims.passes IS 'One row for each pass of recovery, verification and purging, the last 1,000 of each kind. A pass that failed is there only where the worker ran it: otherwise it has left nothing, and its caller has had the error.';
COMMENT ON COLUMN claims.passes.kind IS 'reconcile, verify, purge, or settle (by the worker, where it failed).';
COMMENT ON COLUMN claims.passes.cell_id IS 'The cell, if it was for one.';
COMMENT ON COLUMN claims.passes.source_type IS 'Name of the source type, of a verification.';
COMMENT ON COLUMN claims.passes.started_at IS 'When it began (clock time).';
COMMENT ON COLUMN claims.passes.ended_at IS 'When it ended (clock time).';
COMMENT ON COLUMN claims.passes.counts IS 'What it returned, by name.';
COMMENT ON COLUMN claims.passes.sqlstate IS 'SQLSTATE of the error that ended it; NULL: it succeeded.';
COMMENT ON COLUMN claims.passes.message IS 'Message of that error.';

SELECT pg_catalog.pg_extension_config_dump('claims.pass_log', 'WHERE false');

CREATE TABLE claims.attended_cells (
    cell_id bigint NOT NULL PRIMARY KEY,
    service text   NOT NULL
);
COMMENT ON TABLE claims.attended_cells IS 'In a cell: the cells that the background worker attends to. Written by claims.attend() and claims.automatic().';
COMMENT ON COLUMN claims.attended_cells.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.attended_cells.service IS 'Name of the foreign server that leads to the shared database.';

INSERT INTO claims.audiences (function_name, audience) VALUES ('attend', 'cell');


SELECT pg_catalog.pg_extension_config_dump('claims.attended_cells', '');
CREATE FUNCTION claims.attend(cell_id bigint, service text) RETURNS void
    LANGUAGE c SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'attend_wrapper';
COMMENT ON FUNCTION claims.attend(bigint, text) IS
    'In a cell: from now on the background worker of this database settles what the cell committed, recovers and verifies through a service, a foreign server; NULL: no more. For who may act for the cell. 42704 where there is no such server. Has an effect only where the library is preloaded and claims.databases names this database. Locks the cell''s row.';
CREATE OR REPLACE FUNCTION claims.automatic(cell_id bigint, service text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    IF (cell_id IS NULL) <> (service IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'cell_id and service must be given both, or be both null',
            HINT = 'automatic(NULL, NULL) turns automatic mode off.';
    END IF;
    -- Both for the cell that it is on for, and for the one that it will be on for.
    IF EXISTS (SELECT FROM claims.automatic_service a JOIN claims.cells c ON c.cell_id = a.cell_id) THEN
        PERFORM claims.require_cell(a.cell_id) FROM claims.automatic_service a;
    ELSIF EXISTS (SELECT FROM claims.automatic_service) THEN
        PERFORM claims.require_admin();
    END IF;
    IF cell_id IS NULL THEN
        DELETE FROM claims.automatic_service;
        RETURN;
    END IF;
    PERFORM claims.require_cell(cell_id);
    PERFORM claims.require_service(service);
    INSERT INTO claims.automatic_service AS a (cell_id, service) VALUES (cell_id, service)
        ON CONFLICT (single) DO UPDATE SET cell_id = excluded.cell_id, service = excluded.service;
    PERFORM claims.attend(cell_id, service);
END $$;
COMMENT ON FUNCTION claims.automatic(bigint, text) IS
    'In a cell: from now on every transaction that changed claimed columns does begin_pending(cell_id, service) by itself when it is about to commit; both NULL: turns that off. The background worker attends to the cell from now on, also when automatic mode is turned off again: claims.attend(cell_id, NULL) ends that. For who may act for the cell. Locks the one row that says so.';
