-- A column can have several declarations, each with its enforcement. Errors of a save name the constraint.

DROP FUNCTION claims.claim_attribute(regclass, name, text, text, name, text, name, text);
DROP FUNCTION claims.declare_attribute(regclass, name, text, text, name, text, name, text);
DROP FUNCTION claims.unclaim_attribute(regclass, name);

CREATE FUNCTION claims."declare_attribute"(
	"table_name" regclass, /* Option < Relation > */
	"attribute" name, /* Option < Name > */
	"bucket_type" TEXT, /* Option < String > */
	"subject_type" TEXT, /* Option < String > */
	"subject_key" name, /* Option < Name > */
	"source_type" TEXT, /* Option < String > */
	"source_key" name, /* Option < Name > */
	"condition" TEXT, /* Option < String > */
	"declaration" name, /* Option < Name > */
	"constraint_name" name /* Option < Name > */
) RETURNS VOID /* Result < (), ErrorReport > */
SECURITY DEFINER  
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'declare_attribute_2_wrapper';

CREATE FUNCTION claims."unclaim_attribute"(
	"table_name" regclass, /* Option < Relation > */
	"attribute" name, /* Option < Name > */
	"declaration" name DEFAULT NULL /* Option < Name > */
) RETURNS VOID /* Result < (), ErrorReport > */
SECURITY DEFINER  
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'unclaim_attribute_2_wrapper';

CREATE FUNCTION claims."last_conflicts"() RETURNS TABLE (
	"table_name" regclass,  /* Option < Relation > */
	"attribute" name,  /* Option < Name > */
	"bucket_type" TEXT,  /* String */
	"bucket_value" TEXT,  /* String */
	"source_id" TEXT,  /* Option < String > */
	"reason" TEXT,  /* String */
	"retryable" bool,  /* bool */
	"holder_cell_id" bigint,  /* Option < i64 > */
	"holder_cell_name" TEXT  /* Option < String > */
)
STRICT SECURITY DEFINER 
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'last_conflicts_wrapper';

CREATE FUNCTION claims."acts_for_database"() RETURNS bool /* Result < bool, ErrorReport > */
STABLE STRICT SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c /* Rust */
AS 'MODULE_PATHNAME', 'acts_for_database_wrapper';

ALTER TABLE claims.claimed_attributes ADD COLUMN declaration name, ADD COLUMN constraint_name name,
    ADD COLUMN enforcement text NOT NULL DEFAULT 'enforce' CHECK (enforcement IN ('off', 'observe', 'enforce')),
    ADD COLUMN share numeric NOT NULL DEFAULT 100 CHECK (share >= 0 AND share <= 100),
    ADD COLUMN approved_owner regrole, ADD COLUMN approved_cell bigint;
-- include sql/install/cell/declarations.sql

-- The trigger fills in the names.
UPDATE claims.claimed_attributes SET declaration = NULL;
ALTER TABLE claims.claimed_attributes ALTER COLUMN declaration SET NOT NULL, ALTER COLUMN constraint_name SET NOT NULL,
    DROP CONSTRAINT claimed_attributes_pkey, ADD PRIMARY KEY (table_name, attribute, declaration);
