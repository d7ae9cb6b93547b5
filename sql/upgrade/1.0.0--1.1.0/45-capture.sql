-- Capture: counts of claims that it left out or adopted since the extension was installed. Sequences count without a lock, also if the transaction
-- rolls back.
CREATE SEQUENCE claims.capture_left_out_missing MINVALUE 0;
CREATE SEQUENCE claims.capture_left_out_not_owner MINVALUE 0;
CREATE SEQUENCE claims.capture_left_out_other_source MINVALUE 0;
CREATE SEQUENCE claims.capture_adopted MINVALUE 0;
-- PostgreSQL records these privileges as the initial ones, also if there are default privileges, and with them the owner, which must be the schema's
-- by then, whichever role runs this.
DO $$
DECLARE
    counter regclass;
BEGIN
    FOREACH counter IN ARRAY ARRAY['claims.capture_left_out_missing', 'claims.capture_left_out_not_owner',
                                   'claims.capture_left_out_other_source', 'claims.capture_adopted']::regclass[]
    LOOP
        EXECUTE format('ALTER SEQUENCE %s OWNER TO %I', counter,
                       (SELECT pg_catalog.pg_get_userbyid(n.nspowner) FROM pg_catalog.pg_namespace n WHERE n.nspname = 'claims'));
    END LOOP;
END $$;
REVOKE ALL ON SEQUENCE claims.capture_left_out_missing, claims.capture_left_out_not_owner, claims.capture_left_out_other_source,
    claims.capture_adopted FROM PUBLIC;
SELECT pg_catalog.setval(s, 0) FROM pg_catalog.unnest(ARRAY['claims.capture_left_out_missing', 'claims.capture_left_out_not_owner',
    'claims.capture_left_out_other_source', 'claims.capture_adopted']::regclass[]) AS s;
SELECT pg_catalog.pg_extension_config_dump('claims.capture_left_out_missing', '');
SELECT pg_catalog.pg_extension_config_dump('claims.capture_left_out_not_owner', '');
SELECT pg_catalog.pg_extension_config_dump('claims.capture_left_out_other_source', '');
SELECT pg_catalog.pg_extension_config_dump('claims.capture_adopted', '');

-- Not SECURITY DEFINER: it takes its owner's rights and a search_path only when it executes a statement, and most rows need none.
CREATE OR REPLACE FUNCTION claims.capture_row() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'capture_row_wrapper';
