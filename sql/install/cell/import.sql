-- Import: claims the names that rows had before their columns were declared.

CREATE TABLE claims.import_runs (
    cell_id       bigint      NOT NULL,
    source_type   text        COLLATE "C" NOT NULL,
    service       text        NOT NULL,
    source_id     text        COLLATE "C",
    is_read       boolean     NOT NULL DEFAULT false,
    estimated     bigint      NOT NULL DEFAULT 0,
    rows_done     bigint      NOT NULL DEFAULT 0,
    collisions    bigint      NOT NULL DEFAULT 0,
    skipped       bigint      NOT NULL DEFAULT 0,
    rate          bigint,
    started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at   timestamptz,
    pid           int,
    call_began_at timestamptz,
    PRIMARY KEY (cell_id, source_type, service)
);
COMMENT ON TABLE claims.import_runs IS
    'In a cell: the last import of each source type at each service, and the position at which it continues. claims.imports shows it. Not dumped.';
COMMENT ON COLUMN claims.import_runs.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.import_runs.source_type IS 'Name of the source type.';
COMMENT ON COLUMN claims.import_runs.service IS 'The service at which the names are claimed. Empty: this database, for claims.import_unique().';
COMMENT ON COLUMN claims.import_runs.source_id IS
    'The source id up to which all rows are done, but those of claims.import_leftovers. Of a unique: the generation of a table, and its first block that is not read.';
COMMENT ON COLUMN claims.import_runs.is_read IS 'Whether all rows were read.';
COMMENT ON COLUMN claims.import_runs.estimated IS 'Estimated number of rows that need a claim, from the last ANALYZE.';
COMMENT ON COLUMN claims.import_runs.rows_done IS 'Rows that were read and sent.';
COMMENT ON COLUMN claims.import_runs.collisions IS 'Rows whose names could not be claimed.';
COMMENT ON COLUMN claims.import_runs.skipped IS 'Rows that can have no claim.';
COMMENT ON COLUMN claims.import_runs.rate IS 'Rows a second in the last call.';
COMMENT ON COLUMN claims.import_runs.started_at IS 'When the import began (clock time).';
COMMENT ON COLUMN claims.import_runs.updated_at IS 'When the last batch was done (clock time).';
COMMENT ON COLUMN claims.import_runs.finished_at IS 'When it finished; NULL: it has not.';
COMMENT ON COLUMN claims.import_runs.pid IS 'Process of the last call.';
COMMENT ON COLUMN claims.import_runs.call_began_at IS 'When the last call began, as pg_stat_activity.query_start has it.';

CREATE TABLE claims.import_leftovers (
    cell_id     bigint NOT NULL,
    source_type text   COLLATE "C" NOT NULL,
    service     text   NOT NULL,
    source_id   text   COLLATE "C" NOT NULL,
    PRIMARY KEY (cell_id, source_type, service, source_id)
);
COMMENT ON TABLE claims.import_leftovers IS
    'In a cell: rows that an import has passed, because another transaction had locked them or was changing their claims. It tries them again. '
    'Not dumped.';
COMMENT ON COLUMN claims.import_leftovers.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.import_leftovers.source_type IS 'Name of the source type.';
COMMENT ON COLUMN claims.import_leftovers.service IS 'The service at which its names are claimed.';
COMMENT ON COLUMN claims.import_leftovers.source_id IS 'Source id of the row.';

CREATE TABLE claims.imported_collisions (
    id             bigint      NOT NULL,
    cell_id        bigint      NOT NULL,
    source_type    text        COLLATE "C" NOT NULL,
    service        text        NOT NULL,
    bucket_type    text        COLLATE "C" NOT NULL,
    bucket_value   text        COLLATE "C" NOT NULL,
    source_id      text        COLLATE "C" NOT NULL,
    reason         text        COLLATE "C" NOT NULL,
    holder_cell_id bigint,
    found_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (cell_id, source_type, id, service)
);
CREATE UNIQUE INDEX imported_collisions_row
    ON claims.imported_collisions (cell_id, source_type, source_id, bucket_type, md5(bucket_value));
COMMENT ON TABLE claims.imported_collisions IS
    'In a cell: names that the last import of a source type could not claim; claims.import_collisions() lists them. Not dumped.';
COMMENT ON INDEX claims.imported_collisions_row IS 'A row and its name occur once, also if an import reads the row again.';
COMMENT ON COLUMN claims.imported_collisions.id IS 'The order in which they were found, from 1.';
COMMENT ON COLUMN claims.imported_collisions.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.imported_collisions.source_type IS 'Name of the source type.';
COMMENT ON COLUMN claims.imported_collisions.service IS 'The service that did not claim it.';
COMMENT ON COLUMN claims.imported_collisions.bucket_type IS 'Name of the bucket type.';
COMMENT ON COLUMN claims.imported_collisions.bucket_value IS 'The name in its canonical form.';
COMMENT ON COLUMN claims.imported_collisions.source_id IS 'Source id of the row that has the name.';
COMMENT ON COLUMN claims.imported_collisions.reason IS
    'held_by_other: another cell has the name; other_source: another row of this cell; confusable: one that looks like it; reserved; quarantined: it was given up and is kept back; invalid: its profile refuses it; '
    'leased, locked: held until the end.';
COMMENT ON COLUMN claims.imported_collisions.holder_cell_id IS 'The cell that has the name.';
COMMENT ON COLUMN claims.imported_collisions.found_at IS 'When it was found (clock time).';

-- The call of an import runs as long as its statement does. Where pg_stat_activity does not show that, because the owner of the extension may not
-- read it or track_activities is off, it counts as running while its process lives.
CREATE FUNCTION claims.list_imports()
    RETURNS TABLE (cell_id bigint, source_type text, state text, rows_done bigint, estimated bigint, rate bigint, remaining interval,
                   collisions bigint, skipped bigint, started_at timestamptz, updated_at timestamptz, finished_at timestamptz, pid int, service text)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT r.cell_id, r.source_type,
           CASE WHEN r.finished_at IS NOT NULL THEN 'finished' WHEN a.pid IS NOT NULL THEN 'running' ELSE 'stopped' END,
           r.rows_done, greatest(r.estimated, r.rows_done), r.rate,
           CASE WHEN r.finished_at IS NULL AND a.pid IS NOT NULL AND r.rate > 0
                THEN make_interval(secs => greatest(r.estimated - r.rows_done, 0) / r.rate) END,
           r.collisions, r.skipped, r.started_at, r.updated_at, r.finished_at,
           CASE WHEN r.finished_at IS NULL THEN a.pid END, nullif(r.service, '')
      FROM claims.import_runs r
      LEFT JOIN pg_stat_activity a
        ON a.pid = r.pid AND (a.state = 'active' AND a.query_start = r.call_began_at OR a.state IS NULL OR a.state = 'disabled')
$$;
COMMENT ON FUNCTION claims.list_imports() IS 'Internal: the rows of claims.imports. Locks nothing.';

CREATE VIEW claims.imports AS
    SELECT i.cell_id, i.source_type, i.state, i.rows_done, i.estimated, i.rate, i.remaining, i.collisions, i.skipped, i.started_at, i.updated_at,
           i.finished_at, i.pid, i.service
      FROM claims.list_imports() i;
COMMENT ON VIEW claims.imports IS
    'In a cell: the last import of each source type at each service, and of each unique, its state and its progress. No names.';
COMMENT ON COLUMN claims.imports.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.imports.source_type IS 'Name of the source type, or of the unique.';
COMMENT ON COLUMN claims.imports.state IS 'running, stopped (the next call continues), or finished.';
COMMENT ON COLUMN claims.imports.rows_done IS 'Rows that were read and sent.';
COMMENT ON COLUMN claims.imports.estimated IS 'Estimated number of rows that need a claim, from the last ANALYZE.';
COMMENT ON COLUMN claims.imports.rate IS 'Rows a second in the last call.';
COMMENT ON COLUMN claims.imports.remaining IS 'Estimated remaining time, at this rate; NULL: it is not running.';
COMMENT ON COLUMN claims.imports.collisions IS
    'Rows whose names could not be claimed: claims.import_collisions() lists them; claims.unique_duplicates() those of a unique.';
COMMENT ON COLUMN claims.imports.skipped IS 'Rows that can have no claim.';
COMMENT ON COLUMN claims.imports.started_at IS 'When the import began (clock time).';
COMMENT ON COLUMN claims.imports.updated_at IS 'When its last batch was done (clock time).';
COMMENT ON COLUMN claims.imports.finished_at IS 'When it finished.';
COMMENT ON COLUMN claims.imports.pid IS 'Process that runs it.';
COMMENT ON COLUMN claims.imports.service IS 'The service at which the names are claimed; NULL: this database, for claims.import_unique().';

-- A procedure that commits can neither be SECURITY DEFINER nor set search_path. So it has the rights of its caller, and no operators.
CREATE PROCEDURE claims.import_claims(cell_id bigint, service text, source_type text, rows_per_second int DEFAULT NULL, batch_size int DEFAULT 1000,
                                      max_runtime interval DEFAULT NULL)
    LANGUAGE plpgsql
AS $$
DECLARE
    is_over boolean;
    pause float8;
BEGIN
    PERFORM claims.begin_import($1, $2, $3, $4, $5, $6);
    COMMIT;
    LOOP
        SELECT s.is_over, s.pause INTO is_over, pause FROM claims.import_step($1, $3) s;
        COMMIT;
        EXIT WHEN is_over;
        PERFORM claims.wait_for_import(pause);
        COMMIT;
    END LOOP;
END $$;
COMMENT ON PROCEDURE claims.import_claims(bigint, text, text, int, int, interval) IS
    'In a cell: claims the names that rows of a source type had before they were claimed, batch_size rows in a transaction of its own, in the order '
    'of the keys; at most rows_per_second, for at most max_runtime. A call continues where the last one stopped, or begins again where that finished. '
    'Names that cannot be claimed do not stop it: claims.import_collisions() lists them. Reports by NOTICE every ten seconds. Locks the rows of a '
    'batch FOR SHARE until it is claimed; rows that another transaction has locked are tried again.';

CREATE FUNCTION claims.import_collisions(cell_id bigint, source_type text, after text DEFAULT NULL, max_results int DEFAULT 100)
    RETURNS TABLE (bucket_type text, bucket_value text, source_id text, reason text, holder_cell_id bigint, found_at timestamptz, "cursor" text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    position bigint := claims.import_cursor(import_collisions.cell_id, import_collisions.after, import_collisions.max_results);
BEGIN
    RETURN QUERY SELECT c.bucket_type, c.bucket_value, c.source_id, c.reason, c.holder_cell_id, c.found_at, c.id::text
                   FROM claims.imported_collisions c
                  WHERE c.cell_id = import_collisions.cell_id AND c.source_type = import_collisions.source_type AND c.id > position
                  ORDER BY c.id LIMIT import_collisions.max_results;
END $$;
COMMENT ON FUNCTION claims.import_collisions(bigint, text, text, int) IS
    'In a cell: the names that the last import of a source type could not claim, and who has them, in the order in which they were found, max_results '
    'at a time; to continue, pass the last row''s cursor as after. For roles that may act for the cell. Locks nothing.';
COMMENT ON FUNCTION claims.begin_import(bigint, text, text, int, int, interval) IS
    'Internal: for claims.import_claims(), begins or continues an import. 55P03 if another session is importing the source type. Locks its row of '
    'claims.import_runs.';
COMMENT ON FUNCTION claims.import_step(bigint, text) IS
    'Internal: for claims.import_claims(), imports a batch. Locks the row of the import, and the rows of the batch FOR SHARE.';
COMMENT ON FUNCTION claims.wait_for_import(float8) IS 'Internal: for claims.import_claims(), waits for a number of seconds.';
COMMENT ON FUNCTION claims.import_cursor(bigint, text, int) IS 'Internal: for claims.import_collisions(), checks its arguments.';
COMMENT ON FUNCTION claims.preview_import(bigint, text, text, text, int, text) IS
    'In a cell: the names of a source type that an import could not claim now, and who has them, in the order of the source ids, max_results at a '
    'time or a few more; to continue, pass the last row''s cursor as after; no row: there are no more. outcome: lists only names with this reason. '
    'Reads all rows once more to find names that several of them have. Changes nothing, here or at the service. For roles that may act for the '
    'cell. Locks nothing.';
COMMENT ON FUNCTION claims.unclaimed_rows(text, bigint, text, text, interval, int) IS
    'In a cell: how many rows of a source type have no claim, with the first names of such rows, one row for each service (NULL: those of automatic '
    'mode). in_progress: transactions, leases and claims that were still open; call again. checked: rows compared. Compares digests first. First '
    'it waits, for at most 5 seconds, for transactions that have written the tables and for leases that none of them tracks. Stops after '
    'max_runtime: if finished is false, pass the service and its cursor as after. Changes nothing. For roles that may act for the cell. Locks nothing.';
COMMENT ON FUNCTION claims.import_records(bigint, text, boolean) IS
    'At the service, called by a cell: claims the records without a lease, as ACTIVE. One row for each that could not be claimed: its place in the '
    'list from 0, why, and who has the name. With preview it claims nothing. The cell holds locks on the rows meanwhile. Locks the names'' keys; waits '
    'for no transaction.';

INSERT INTO claims.audiences (function_name, audience) VALUES
    ('import_claims', 'cell'), ('begin_import', 'cell'), ('import_step', 'cell'), ('wait_for_import', 'cell'), ('import_cursor', 'cell'),
    ('import_collisions', 'cell'), ('preview_import', 'cell'), ('unclaimed_rows', 'cell'), ('list_imports', 'all'), ('import_records', 'cell');

SELECT pg_catalog.pg_extension_config_dump('claims.import_runs', 'WHERE false');
SELECT pg_catalog.pg_extension_config_dump('claims.import_leftovers', 'WHERE false');
SELECT pg_catalog.pg_extension_config_dump('claims.imported_collisions', 'WHERE false');
