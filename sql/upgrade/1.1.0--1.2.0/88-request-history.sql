-- Captured requests that carry both versions of a row, and the history of an entity's requests.

ALTER TABLE claims.captured_tables ADD COLUMN payload_form text COLLATE "C" NOT NULL DEFAULT 'row' CHECK (payload_form IN ('row', 'change'));
CREATE INDEX requests_settled ON claims.requests (queue, entity, id) WHERE settled_at IS NOT NULL;

DROP FUNCTION claims.capture_requests(regclass, text, name);
CREATE  FUNCTION claims."capture_requests"(
	"table_name" regclass, /* Option < Relation > */
	"queue" TEXT, /* Option < String > */
	"entity_column" name, /* Option < Name > */
	"payload_form" TEXT DEFAULT 'row' /* Option < String > */
) RETURNS VOID /* Result < (), ErrorReport > */
SECURITY DEFINER  
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'capture_requests_2_wrapper';
