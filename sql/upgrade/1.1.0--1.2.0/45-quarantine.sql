-- Names are kept back after their owners gave them up.

-- Columns without a default, or with a constant one, rewrite no row.
ALTER TABLE claims.claims ADD COLUMN given_up_by bigint, ADD COLUMN available_at timestamptz;
ALTER TABLE claims.bucket_types
    ADD COLUMN keep_for interval NOT NULL DEFAULT '0' CHECK (keep_for >= '0'),
    ADD COLUMN reclaim text COLLATE "C" NOT NULL DEFAULT 'subject' CHECK (reclaim IN ('subject', 'cell', 'nobody'));

CREATE  FUNCTION claims."set_quarantine"(
	"bucket_type" TEXT, /* Option < String > */
	"keep_for" interval, /* Option < Interval > */
	"reason" TEXT, /* Option < String > */
	"reclaim" TEXT DEFAULT 'subject' /* Option < String > */
) RETURNS VOID
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'set_quarantine_wrapper';

CREATE  FUNCTION claims."release_quarantine"(
	"bucket_type" TEXT, /* Option < String > */
	"bucket_values" TEXT[], /* Option < Vec < Option < String > > > */
	"reason" TEXT /* Option < String > */
) RETURNS bigint /* Result < i64, ErrorReport > */
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'release_quarantine_wrapper';

CREATE  FUNCTION claims."purge_quarantine"() RETURNS bigint /* Result < i64, ErrorReport > */
STRICT SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'purge_quarantine_wrapper';

DROP FUNCTION claims.release_records(bigint, text, int, boolean);
CREATE  FUNCTION claims."release_records"(
	"cell_id" bigint, /* Option < i64 > */
	"reason" TEXT, /* Option < String > */
	"max_results" INT DEFAULT 10000, /* Option < i32 > */
	"dry_run" bool DEFAULT false, /* Option < bool > */
	"quarantine" bool DEFAULT true /* Option < bool > */
) RETURNS bigint /* Result < i64, ErrorReport > */
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'release_records_2_wrapper';

CREATE  FUNCTION claims."hand_over"(
	"bucket_type" TEXT, /* Option < String > */
	"bucket_value" TEXT, /* Option < String > */
	"to_cell" bigint, /* Option < i64 > */
	"subject_type" TEXT, /* Option < String > */
	"subject_id" TEXT, /* Option < String > */
	"source_type" TEXT, /* Option < String > */
	"source_id" TEXT, /* Option < String > */
	"reason" TEXT /* Option < String > */
) RETURNS TEXT /* Result < & '_ str, ErrorReport > */
SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'hand_over_wrapper';

-- include sql/install/service/quarantine.sql
-- include sql/install/service/metrics_distributed.sql
