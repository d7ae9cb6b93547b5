-- The progress of verifications has source ids, which only roles see that may read the rows.

CREATE FUNCTION claims."may_read_sources"(
	"cell_id" bigint, /* Option < i64 > */
	"source_type" TEXT /* Option < & str > */
) RETURNS bool /* Result < bool, ErrorReport > */
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'may_read_sources_wrapper';

-- include sql/install/cell/progress.sql

CREATE OR REPLACE VIEW claims.passes AS
    SELECT p.kind, p.cell_id, p.source_type, p.started_at, p.ended_at, p.counts, p.sqlstate,
           -- The error of a verification may be that of an expression of the table's owner, and have a value of a row. Monitoring roles
           -- may read claims.leases.
           CASE WHEN p.kind <> 'verify' OR has_table_privilege('claims.leases', 'SELECT') OR claims.may_read_sources(p.cell_id, p.source_type) THEN p.message END AS message,
           p.service
      FROM claims.pass_log p;
