-- check() lists the tables that calls read and write with statements because they were altered.

CREATE FUNCTION claims."find_altered_tables"() RETURNS TABLE (
	"table_name" TEXT,
	"difference" TEXT
)
STRICT STABLE
LANGUAGE c
AS 'MODULE_PATHNAME', 'find_altered_tables_wrapper';

-- include sql/install/service/check.sql
