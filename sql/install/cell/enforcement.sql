-- How declarations are enforced, and what was observed.

CREATE TABLE claims.observed (
    id             uuid        NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY,
    table_name     regclass    NOT NULL,
    attribute      name        NOT NULL,
    outcome        text        COLLATE "C" NOT NULL,
    bucket_type    text        COLLATE "C",
    bucket_value   text        COLLATE "C",
    holder_cell_id bigint,
    count          bigint      NOT NULL,
    first_at       timestamptz NOT NULL,
    last_at        timestamptz NOT NULL
);
-- A save never waits for another one: while a row is locked, a second one counts the same.
CREATE INDEX observed_name ON claims.observed (table_name, attribute, outcome, md5(coalesce(bucket_value, '')));
COMMENT ON TABLE claims.observed IS
    'In a cell: what claims.observations shows. Several rows may count the same. Written by saves, emptied by claims.purge_observations().';
COMMENT ON COLUMN claims.observed.id IS 'Key of the row, for replication.';
COMMENT ON COLUMN claims.observed.table_name IS 'The table.';
COMMENT ON COLUMN claims.observed.attribute IS 'The column.';
COMMENT ON COLUMN claims.observed.outcome IS 'Why the name was not claimed.';
COMMENT ON COLUMN claims.observed.bucket_type IS 'Name of the bucket type; NULL if the outcome is not about a name.';
COMMENT ON COLUMN claims.observed.bucket_value IS 'The canonical form of the name; NULL if the outcome is not about a name.';
COMMENT ON COLUMN claims.observed.holder_cell_id IS 'The cell that had the name, as the first conflict said; NULL if none is known.';
COMMENT ON COLUMN claims.observed.count IS 'Number of names that were not claimed in saves that committed.';
COMMENT ON COLUMN claims.observed.first_at IS 'When that happened first (clock time).';
COMMENT ON COLUMN claims.observed.last_at IS 'When that happened last (clock time).';
COMMENT ON INDEX claims.observed_name IS 'Finds the rows that count a name.';
SELECT pg_catalog.pg_extension_config_dump('claims.observed', '');

CREATE VIEW claims.observations AS
    SELECT o.table_name, o.attribute, o.outcome, o.bucket_type, o.bucket_value, o.holder_cell_id, sum(o.count)::bigint AS count,
           min(o.first_at) AS first_at, max(o.last_at) AS last_at
      FROM claims.observed o
     GROUP BY o.table_name, o.attribute, o.outcome, o.bucket_type, o.bucket_value, o.holder_cell_id;
COMMENT ON VIEW claims.observations IS
    'In a cell: the names that observed saves could not claim, and the names without a claim because the service did not answer, counted by '
    'outcome. For administrators.';

CREATE FUNCTION claims.purge_observations(older_than interval) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    purged bigint;
BEGIN
    PERFORM claims.require_admin();
    IF older_than IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'older_than must not be null',
            HINT = 'Give an age: purge_observations(''0 s'') deletes all.';
    ELSIF older_than NOT BETWEEN interval '0' AND interval '366000 days' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'older_than is out of range', DETAIL = 'Allowed is 0 to 366000 days.';
    END IF;
    WITH old AS MATERIALIZED (
        SELECT o.ctid AS row FROM claims.observed o WHERE o.last_at <= clock_timestamp() - purge_observations.older_than FOR UPDATE SKIP LOCKED),
    gone AS (DELETE FROM claims.observed o USING old WHERE o.ctid = old.row RETURNING o.count)
    SELECT count(*) INTO purged FROM gone;
    RETURN purged;
END $$;
COMMENT ON FUNCTION claims.purge_observations(interval) IS
    'In a cell: deletes the observations whose last occurrence is older than an age, and returns the number of rows. Administrators only. Locks the '
    'rows that it deletes, skipping locked ones.';
COMMENT ON FUNCTION claims.set_enforcement(regclass, name, text, text, numeric, name) IS
    'In a cell: sets the mode of a declaration, or, with NULL, of all declarations of a column. off: nothing is captured. observe: names are claimed '
    'where they can be, and no save fails or waits for the service longer than claims.observe_timeout; claims.observations counts the others. '
    'enforce: a save whose names cannot be claimed fails. share: the percentage of names for which the mode holds; the others are observed. For the '
    'table''s owner and administrators, with a reason. Takes effect at COMMIT, for transactions that write the table for the first time then. '
    'Locks the declarations'' rows.';

INSERT INTO claims.audiences (function_name, audience) VALUES ('set_enforcement', 'cell');
