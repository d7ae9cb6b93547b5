-- A copy waits: the service stores from where a cell acts, and when it did so last.

ALTER TABLE claims.cell_epochs
    ADD COLUMN place bigint,
    ADD COLUMN lineage bigint,
    ADD COLUMN timeline int,
    ADD COLUMN address text,
    ADD COLUMN acted_at timestamptz;

DROP FUNCTION claims.present_epoch(bigint, bigint, bigint, text);
CREATE FUNCTION claims.present_epoch(cell_id bigint, epoch bigint, predecessor bigint DEFAULT NULL, adopt_because text DEFAULT NULL,
    place bigint DEFAULT NULL, lineage bigint DEFAULT NULL, timeline int DEFAULT NULL, address text DEFAULT NULL, is_new boolean DEFAULT true)
RETURNS void
SET search_path TO pg_catalog, pg_temp
SECURITY DEFINER
LANGUAGE c AS 'MODULE_PATHNAME', 'present_epoch_2_wrapper';
