-- The end of a lease that a cell's session sends after its transaction.
CREATE FUNCTION claims."commit_unflushed"("cell_id" bigint, "lease_uuid" uuid) RETURNS bool
    SECURITY DEFINER SET search_path TO 'pg_catalog', 'pg_temp'
    LANGUAGE c AS 'MODULE_PATHNAME', 'commit_unflushed_wrapper';
INSERT INTO claims.audiences (function_name, audience) VALUES ('commit_unflushed', 'cell');

-- Records as texts.
CREATE FUNCTION claims."begin_update_text"("cell_id" bigint, "create_records" TEXT, "destroy_records" TEXT, "lease_uuid" uuid DEFAULT NULL, "cell_xid" xid8 DEFAULT NULL) RETURNS uuid
    SECURITY DEFINER SET search_path TO pg_catalog, pg_temp
    LANGUAGE c AS 'MODULE_PATHNAME', 'begin_update_text_wrapper';
INSERT INTO claims.audiences (function_name, audience) VALUES ('begin_update_text', 'cell');
