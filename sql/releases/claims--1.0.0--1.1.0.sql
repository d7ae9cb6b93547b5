-- The upgrade from 1.0.0 to 1.1.0, as released.
\echo Use "ALTER EXTENSION claims UPDATE" to load this file. \quit

-- part 00-begin.sql
-- Helpers of the other parts; 99-finish.sql drops them.

-- The objects that the extension had before: grants on them stay.
CREATE TABLE claims.known_before AS
    SELECT d.classid, d.objid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
     WHERE e.extname = 'claims' AND d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.deptype = 'e';

-- Adds types that come with this version. If the database has types of its own with their ids or names, it changes nothing.
CREATE FUNCTION claims.seed_types(kind text, ids int[], names text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    type_table regclass := format('claims.%I', kind || '_types');
    taken record;
BEGIN
    -- Waits for transactions that are adding types.
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', type_table);
    EXECUTE format('SELECT string_agg(format(''%%s "%%s"'', t.id, t.name), '', '' ORDER BY t.id) AS found,
                           string_agg(format(''%%s "%%s"'', s.id, s.name), '', '' ORDER BY t.id) AS wanted
                      FROM %s t JOIN unnest($1, $2) s (id, name) ON (t.id = s.id) <> (t.name = s.name)', type_table)
       INTO taken USING ids, names;
    IF taken.found IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('extension claims cannot be updated: it brings %s types whose ids or names are taken', kind),
            DETAIL = format('It brings %s. There is %s.', taken.wanted, taken.found),
            HINT = 'Give the types that were added other names, or ids from 100 on, as the chapter "Upgrading" of docs/operations.md says. Nothing has been changed.';
    END IF;
    EXECUTE format('INSERT INTO %s (id, name) SELECT s.id, s.name FROM unnest($1, $2) s (id, name) ON CONFLICT DO NOTHING', type_table)
      USING ids, names;
END $$;

-- part 10-grants.sql
CREATE FUNCTION claims."refresh_grants"() RETURNS VOID
    STRICT SECURITY DEFINER SET search_path TO 'pg_catalog', 'pg_temp'
    LANGUAGE c AS 'MODULE_PATHNAME', 'refresh_grants_wrapper';

-- part 12-types.sql
-- More types come with this version, and a type may have several names.

SELECT claims.seed_types('bucket', '{6,7,8,9,10,11,12,13,15,16,17,18}',
    '{PROJECT_IDS,NAMESPACE_IDS,GPG_KEYS,SSH_KEYS,USER_IDS,ORGANIZATION_IDS,SERVICE_DESK_CUSTOM_EMAILS,GPG_KEY_FINGERPRINTS,SSH_KEY_FINGERPRINTS,SNIPPET_IDS,PAGES_DOMAINS,PAGES_UNIQUE_DOMAINS}');
SELECT claims.seed_types('source', '{8,9,10,11,12,13,14}',
    '{RAILS_TABLE_GPG_KEYS,RAILS_TABLE_KEYS,RAILS_TABLE_SERVICE_DESK_SETTINGS,RAILS_TABLE_MEMBERS,RAILS_TABLE_SNIPPETS,RAILS_TABLE_PAGES_DOMAINS,RAILS_TABLE_PROJECT_SETTINGS}');

-- No type is added before this has committed.
LOCK TABLE claims.bucket_types, claims.subject_types, claims.source_types IN SHARE ROW EXCLUSIVE MODE;
DO $$
DECLARE
    taken record;
BEGIN
    SELECT 'subject' AS kind, t.id, t.name INTO taken FROM claims.subject_types t WHERE t.name = 'NAMESPACE'
    UNION ALL SELECT 'source', t.id, t.name FROM claims.source_types t WHERE t.name = 'RAILS_TABLE_NAMESPACES';
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('extension claims cannot be updated: it brings another name of a %s type, which is taken', taken.kind),
            DETAIL = format('There is %s type %s "%s".', taken.kind, taken.id, taken.name),
            HINT = 'Give the types that were added other names, as the chapter "Upgrading" of docs/operations.md says. Nothing has been changed.';
    END IF;
END $$;
-- The names of types.

-- All names of all types, shown or not. A type keeps every name that it ever had, so that callers can still use an older one.
-- Digests use the first name: it never changes.
CREATE TABLE claims.type_names (
    kind   text    COLLATE "C" NOT NULL CHECK (kind IN ('bucket', 'subject', 'source')),
    name   text    COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
    id     int     NOT NULL CHECK (id >= 0),
    first  boolean NOT NULL DEFAULT false,
    seeded boolean NOT NULL DEFAULT false,
    PRIMARY KEY (kind, name)
);
CREATE UNIQUE INDEX type_names_first ON claims.type_names (kind, id) WHERE first;

-- A table of its own, because pg_dump carries whole rows: the row of a seeded type comes with CREATE EXTENSION, its other name does not.
CREATE TABLE claims.type_renames (
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('bucket', 'subject', 'source')),
    id   int  NOT NULL,
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, id)
);

CREATE FUNCTION claims.show_renamed() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format('UPDATE claims.%I SET name = $1 WHERE id = $2', NEW.kind || '_types') USING NEW.name, NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER show_renamed AFTER INSERT OR UPDATE ON claims.type_renames FOR EACH ROW EXECUTE FUNCTION claims.show_renamed();
ALTER TABLE claims.type_renames ENABLE ALWAYS TRIGGER show_renamed;
INSERT INTO claims.type_names (kind, id, name, first, seeded)
    SELECT 'bucket', id, name, true, id BETWEEN 0 AND 13 OR id BETWEEN 15 AND 18 FROM claims.bucket_types
    UNION ALL SELECT 'subject', id, name, true, id <= 4 FROM claims.subject_types
    UNION ALL SELECT 'source', id, name, true, id <= 14 FROM claims.source_types
    UNION ALL VALUES ('subject', 2, 'NAMESPACE', false, true), ('source', 5, 'RAILS_TABLE_NAMESPACES', false, true);

SELECT pg_catalog.pg_extension_config_dump('claims.type_names', 'WHERE NOT seeded');
SELECT pg_catalog.pg_extension_config_dump('claims.type_renames', '');
CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.type_names
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
ALTER TABLE claims.type_names ENABLE ALWAYS TRIGGER announce_change;

SELECT pg_catalog.pg_extension_config_dump('claims.bucket_types', 'WHERE id NOT BETWEEN 0 AND 13 AND id NOT BETWEEN 15 AND 18');
SELECT pg_catalog.pg_extension_config_dump('claims.subject_types', 'WHERE id > 4');
SELECT pg_catalog.pg_extension_config_dump('claims.source_types', 'WHERE id > 14');

-- part 20-service.sql
-- The service's tables, and the functions that read them.

-- The plain unique index: the primary key (bucket_value, bucket_type).
-- While it is built cells can read, but not write. An administrator can avoid that by CREATE UNIQUE INDEX CONCURRENTLY before: the upgrade uses an
-- index that fits. Statements that block readers come last, and take no time.
LOCK TABLE claims.claims IN SHARE MODE;
DO $$
DECLARE
    too_long bigint := (SELECT count(*) FROM claims.claims c WHERE octet_length(c.bucket_value) > 2600);
BEGIN
    IF too_long > 0 THEN
        RAISE EXCEPTION USING ERRCODE = '22001', MESSAGE = 'extension claims cannot be updated: there are bucket values of more than 2600 bytes',
            DETAIL = format('There are %s of them. From this version on a value has at most 2600 bytes in UTF-8.', too_long),
            HINT = 'Nothing has been changed. Have their cells give them up, or claim something shorter in their place. To find them: '
                   'SELECT creator_id, bucket_type, source_type, source_id, octet_length(bucket_value), left(bucket_value, 40) FROM claims.claims WHERE octet_length(bucket_value) > 2600';
    END IF;
END $$;
DO $$
DECLARE
    made_before regclass := (
        SELECT i.indexrelid FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = c.relam
         WHERE i.indrelid = 'claims.claims'::regclass AND m.amname = 'btree' AND i.indisunique AND i.indimmediate
           AND i.indisvalid AND i.indisready AND i.indislive AND i.indexprs IS NULL AND i.indpred IS NULL
           AND i.indnatts = 2 AND i.indnkeyatts = 2 AND i.indoption::text = '0 0' AND c.reloptions IS NULL AND c.reltablespace = 0
           AND (SELECT array_agg(a.attname::text ORDER BY k.nth) FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, nth)
                  JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum) = '{bucket_value,bucket_type}'
           AND (SELECT bool_and(o.opcdefault) FROM unnest(i.indclass::oid[]) k (opclass) JOIN pg_catalog.pg_opclass o ON o.oid = k.opclass)
           AND i.indcollation::text = format('%s 0', (SELECT a.attcollation FROM pg_catalog.pg_attribute a WHERE a.attrelid = i.indrelid AND a.attname = 'bucket_value'))
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conindid = i.indexrelid)
         ORDER BY i.indexrelid LIMIT 1);
BEGIN
    IF made_before IS NULL THEN
        CREATE UNIQUE INDEX claims_bucket_made ON claims.claims (bucket_value, bucket_type);
    ELSE
        EXECUTE format('ALTER INDEX %s RENAME TO claims_bucket_made', made_before);
    END IF;
END $$;
DROP INDEX claims.claims_bucket;
ALTER TABLE claims.claims ADD CONSTRAINT claims_bucket PRIMARY KEY USING INDEX claims_bucket_made;
DROP FUNCTION claims.bucket_key(text);

-- part 25-names.sql
-- How names are compared. Existing types still compare bytes.

ALTER TABLE claims.bucket_types
    ADD COLUMN profile     text COLLATE "C" NOT NULL DEFAULT 'exact' CHECK (profile IN ('exact', 'casefold', 'username', 'domain', 'email', 'path')),
    ADD COLUMN confusables text COLLATE "C" NOT NULL DEFAULT 'allow' CHECK (confusables IN ('allow', 'reject'));
ALTER TABLE claims.claims ADD COLUMN display_value text COLLATE "C";

DROP FUNCTION claims.get_record(text, text);
CREATE FUNCTION claims."get_record"("bucket_type" TEXT, "bucket_value" TEXT) RETURNS TABLE ("uuid" uuid, "bucket_type" TEXT, "bucket_value" TEXT, "subject_type" TEXT, "subject_id" TEXT, "source_type" TEXT, "source_id" TEXT, "cell_id" bigint, "status" TEXT, "lease_uuid" uuid, "created_at" timestamp with time zone, "updated_at" timestamp with time zone, "cell_name" TEXT, "cell_address" TEXT, "display_value" TEXT)
STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'get_record_2_wrapper';
DROP FUNCTION claims.get_records(jsonb);
CREATE FUNCTION claims."get_records"("buckets" jsonb) RETURNS TABLE ("uuid" uuid, "bucket_type" TEXT, "bucket_value" TEXT, "subject_type" TEXT, "subject_id" TEXT, "source_type" TEXT, "source_id" TEXT, "cell_id" bigint, "status" TEXT, "lease_uuid" uuid, "created_at" timestamp with time zone, "updated_at" timestamp with time zone, "cell_name" TEXT, "cell_address" TEXT, "display_value" TEXT)
STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'get_records_2_wrapper';
CREATE FUNCTION claims."canonical"("bucket_type" TEXT, "bucket_value" TEXT) RETURNS TEXT
STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'canonical_wrapper';
CREATE FUNCTION claims."require_naming"("unicode" TEXT, "bucket_types" TEXT[], "profiles" TEXT[]) RETURNS VOID
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'require_naming_wrapper';
CREATE FUNCTION claims."canonical_form"("profile" TEXT, "name" TEXT) RETURNS TEXT
IMMUTABLE STRICT PARALLEL SAFE
LANGUAGE c
COST 20
AS 'MODULE_PATHNAME', 'canonical_form_wrapper';
INSERT INTO claims.audiences (function_name, audience) VALUES ('canonical', 'reader'), ('canonical_form', 'reader'), ('require_naming', 'cell');

-- Look-alikes, and reserved names.

-- For types that refuse look-alikes: the claim and the reserved names of each skeleton. A table of its own, so that it costs the
-- other types nothing, not even the check of an index's predicate. A skeleton has at most one row for a claim, and one for each
-- reserved name, which stays when the claim goes.
CREATE TABLE claims.skeletons (
    skeleton     uuid NOT NULL,
    bucket_type  int  NOT NULL,
    bucket_value text COLLATE "C" NOT NULL,
    successor    text COLLATE "C",
    reserved     text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (skeleton, bucket_type, reserved)
) WITH (vacuum_truncate = off);

-- Reserved names: each row has a claim of nobody (creator_id -1) beside it, by which every begin finds it at no cost.
CREATE TABLE claims.reservations (
    bucket_type   int         NOT NULL,
    bucket_value  text        COLLATE "C" NOT NULL,
    display_value text        COLLATE "C",
    reason        text        NOT NULL,
    reserved_by   text        NOT NULL,
    reserved_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (bucket_value, bucket_type)
);

CREATE VIEW claims.reserved_names AS
    SELECT coalesce(t.name, r.bucket_type::text) AS bucket_type, r.bucket_value, r.display_value, r.reason, r.reserved_by, r.reserved_at
      FROM claims.reservations r LEFT JOIN claims.bucket_types t ON t.id = r.bucket_type;
SELECT pg_catalog.pg_extension_config_dump('claims.skeletons', '');
SELECT pg_catalog.pg_extension_config_dump('claims.reservations', '');
CREATE FUNCTION claims."begin_first"("cell_id" bigint, "alternatives" jsonb, "lease_uuid" uuid DEFAULT NULL, "cell_xid" xid8 DEFAULT NULL) RETURNS TABLE ("lease_uuid" uuid, "chosen" INT, "conflicts" jsonb)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'begin_first_wrapper';
INSERT INTO claims.audiences (function_name, audience) VALUES ('begin_first', 'cell');

CREATE FUNCTION claims."reserve_names"("bucket_type" TEXT, "bucket_values" TEXT[], "reason" TEXT) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'reserve_names_wrapper';
CREATE FUNCTION claims."unreserve_names"("bucket_type" TEXT, "bucket_values" TEXT[], "reason" TEXT) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'unreserve_names_wrapper';
CREATE FUNCTION claims."set_profile"("bucket_type" TEXT, "profile" TEXT, "reason" TEXT, "confusables" TEXT DEFAULT NULL, "dry_run" bool DEFAULT true) RETURNS TABLE ("canonical" TEXT, "bucket_values" TEXT[], "cell_ids" bigint[])
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'set_profile_wrapper';

-- part 28-distribution.sql
-- The checks of SQL functions whether the tables are in this database.

CREATE FUNCTION claims."require_own_tables"() RETURNS VOID
STRICT STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'require_own_tables_wrapper';

CREATE FUNCTION claims."require_tables_here"() RETURNS VOID
STRICT STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'require_tables_here_wrapper';

CREATE FUNCTION claims."distribute"("shards" INT DEFAULT NULL, "reason" TEXT DEFAULT NULL) RETURNS INT
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'distribute_wrapper';
CREATE FUNCTION claims."buckets_in_flight"("shard_name" TEXT, "bucket_values" TEXT[], "bucket_types" INT[]) RETURNS INT[]
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'buckets_in_flight_wrapper';
CREATE FUNCTION claims."is_lease_in_flight"("shard_name" TEXT, "lease_uuid" uuid) RETURNS bool
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'is_lease_in_flight_wrapper';
CREATE FUNCTION claims."is_look_in_flight"("shard_name" TEXT, "skeleton" uuid, "bucket_type" INT) RETURNS bool
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'is_look_in_flight_wrapper';
CREATE FUNCTION claims."is_look_reserved"("shard_name" TEXT, "skeleton" uuid, "bucket_type" INT, "waits" bool) RETURNS bool
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'is_look_reserved_wrapper';

-- part 30-admin.sql
-- Administration in Rust; other names of types, attributes of cells.

ALTER TABLE claims.cells ADD COLUMN attributes jsonb;

DROP FUNCTION claims.add_bucket_type(int, text);
CREATE FUNCTION claims."add_bucket_type"("id" INT, "name" TEXT, "profile" TEXT DEFAULT 'exact', "confusables" TEXT DEFAULT 'allow') RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'add_bucket_type_wrapper';
CREATE OR REPLACE FUNCTION claims."add_subject_type"("id" INT, "name" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'add_subject_type_wrapper';
CREATE OR REPLACE FUNCTION claims."add_source_type"("id" INT, "name" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'add_source_type_wrapper';
DROP FUNCTION claims.add_type(regclass, text, int, text);
CREATE FUNCTION claims."rename_type"("kind" TEXT, "id" INT, "name" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'rename_type_wrapper';

DROP FUNCTION claims.register_cell(bigint, name, text, text);
CREATE FUNCTION claims."register_cell"("cell_id" bigint, "role_name" name, "name" TEXT DEFAULT NULL, "address" TEXT DEFAULT NULL, "attributes" jsonb DEFAULT NULL) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'register_cell_wrapper';
CREATE OR REPLACE FUNCTION claims."grant_read"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'grant_read_wrapper';
CREATE OR REPLACE FUNCTION claims."grant_worker"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'grant_worker_wrapper';

INSERT INTO claims.audiences (function_name, audience) VALUES ('list_types', 'reader'), ('list_cells', 'reader');

-- Lists of types and cells, for readers.

CREATE FUNCTION claims.list_types() RETURNS TABLE (kind text, id int, name text, aliases text[], profile text, confusables text)
    LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT claims.require_own_tables();
    SELECT t.kind, t.id, t.name, ARRAY(SELECT n.name FROM claims.type_names n
                                      WHERE n.kind = t.kind AND n.id = t.id AND n.name <> t.name ORDER BY n.name),
           t.profile, t.confusables
      FROM (SELECT 1, 'bucket', y.id, y.name, y.profile, y.confusables FROM claims.bucket_types y
            UNION ALL SELECT 2, 'subject', y.id, y.name, NULL, NULL FROM claims.subject_types y
            UNION ALL SELECT 3, 'source', y.id, y.name, NULL, NULL FROM claims.source_types y) AS t (position, kind, id, name, profile, confusables)
     ORDER BY t.position, t.id
$$;

CREATE FUNCTION claims.list_cells() RETURNS TABLE (cell_id bigint, name text, address text, attributes jsonb)
    LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT claims.require_own_tables();
    SELECT c.cell_id, c.name, c.address, c.attributes FROM claims.cells c ORDER BY c.cell_id
$$;
-- Grants (or revokes) the schema and the functions for some audiences, and for cells the views that they may read.
CREATE OR REPLACE FUNCTION claims.change_grants(role_name name, audiences text[], granting boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    target regprocedure;
    verb text := CASE WHEN granting THEN 'GRANT' ELSE 'REVOKE' END;
    word text := CASE WHEN granting THEN 'TO' ELSE 'FROM' END;
BEGIN
    FOR target IN
        SELECT p.oid FROM pg_proc p JOIN claims.audiences a ON a.function_name = p.proname
         WHERE p.pronamespace = 'claims'::regnamespace AND (a.audience = ANY (change_grants.audiences) OR granting AND a.audience = 'all')
           -- The owner of a function keeps its right.
           AND (granting OR p.proowner <> (SELECT r.oid FROM pg_roles r WHERE r.rolname = role_name))
         ORDER BY p.oid::regprocedure::text
    LOOP
        EXECUTE format('%s EXECUTE ON FUNCTION %s %s %I', verb, target, word, role_name);
    END LOOP;
    IF 'cell' = ANY (change_grants.audiences) THEN
        -- Views about the cell itself: its claimed columns, the progress and the workers of its verification, the service, the passes.
        EXECUTE format('%s SELECT ON claims.claimed_columns, claims.verification_progress, claims.verification_workers, '
                       'claims.service_state, claims.passes %s %I', verb, word, role_name);
    END IF;
    IF granting THEN
        EXECUTE format('GRANT USAGE ON SCHEMA claims TO %I', role_name);
    -- A role that keeps the functions of another audience keeps the functions of audience all.
    ELSIF NOT EXISTS (SELECT FROM pg_proc p LEFT JOIN claims.audiences f ON f.function_name = p.proname, aclexplode(p.proacl) a
                       WHERE p.pronamespace = 'claims'::regnamespace AND f.audience IS DISTINCT FROM 'all'
                         AND a.grantee = (SELECT r.oid FROM pg_roles r WHERE r.rolname = role_name)) THEN
        FOR target IN
            SELECT p.oid FROM pg_proc p JOIN claims.audiences a ON a.function_name = p.proname
             WHERE p.pronamespace = 'claims'::regnamespace AND a.audience = 'all' ORDER BY p.oid::regprocedure::text
        LOOP
            EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM %I', target, role_name);
        END LOOP;
        EXECUTE format('REVOKE USAGE ON SCHEMA claims FROM %I', role_name);
    END IF;
END $$;

-- part 31-event-triggers.sql
-- The event triggers exist only if a table is claimed or captured, or a service named. They are not members of the extension, and they belong to the
-- cluster's first superuser: so pg_dump includes them with the tables' triggers, and pg_upgrade can recreate them.
DO $$
DECLARE
    is_needed boolean := EXISTS (SELECT FROM pg_catalog.pg_trigger t
                                  WHERE t.tgfoid IN ('claims.capture_row()'::regprocedure, 'claims.capture_change()'::regprocedure))
                      OR EXISTS (SELECT FROM claims.automatic_service);
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['claims_complete_triggers', 'claims_forget_dropped_tables'] LOOP
        IF is_needed THEN
            EXECUTE format('ALTER EXTENSION claims DROP EVENT TRIGGER %I', name);
            EXECUTE format('ALTER EVENT TRIGGER %I OWNER TO %I', name, pg_catalog.pg_get_userbyid(10));
        ELSE
            EXECUTE format('DROP EVENT TRIGGER %I', name);
        END IF;
    END LOOP;
END $$;

-- part 32-declare.sql
-- Columns are claimed in Rust. Claimed columns keep types by names that never change.
CREATE OR REPLACE FUNCTION claims."declare_attribute"("table_name" regclass, "attribute" name, "bucket_type" TEXT, "subject_type" TEXT, "subject_key" name, "source_type" TEXT, "source_key" name, "condition" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'declare_attribute_wrapper';
CREATE OR REPLACE FUNCTION claims."unclaim_attribute"("table_name" regclass, "attribute" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'unclaim_attribute_wrapper';
DROP FUNCTION claims.require_owner(text, oid);

-- part 33-reading.sql
-- Reading: answers of bounded size, lists by bucket types and in whole sources.

DROP FUNCTION claims.list_records(bigint, text, text, int, text, text);
CREATE FUNCTION claims."list_records"("cell_id" bigint, "source_type" TEXT DEFAULT NULL, "after" TEXT DEFAULT NULL, "max_results" INT DEFAULT 1000, "source_id_gt" TEXT DEFAULT NULL, "source_id_lte" TEXT DEFAULT NULL, "bucket_types" TEXT[] DEFAULT NULL, "whole_sources" bool DEFAULT false) RETURNS TABLE ("uuid" uuid, "bucket_type" TEXT, "bucket_value" TEXT, "subject_type" TEXT, "subject_id" TEXT, "source_type" TEXT, "source_id" TEXT, "cell_id" bigint, "status" TEXT, "lease_uuid" uuid, "created_at" timestamp with time zone, "updated_at" timestamp with time zone, "cursor" TEXT, "display_value" TEXT)
STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'list_records_2_wrapper';

-- part 34-monitor.sql
-- Monitoring roles, and the functions that revoke grants.

ALTER TABLE claims.audiences DROP CONSTRAINT audiences_audience_check;
ALTER TABLE claims.audiences ADD CONSTRAINT audiences_audience_check CHECK (audience IN ('all', 'reader', 'router', 'cell', 'worker', 'monitor'));
INSERT INTO claims.audiences (function_name, audience) VALUES ('version', 'all'), ('check', 'monitor');

CREATE VIEW claims.leases AS
    SELECT l.uuid AS lease_uuid, l.creator_id AS cell_id, cell.name AS cell_name, l.created_at, clock_timestamp() - l.created_at AS age,
           CASE jsonb_typeof(l.payload -> 'create_records') WHEN 'array' THEN jsonb_array_length(l.payload -> 'create_records') ELSE 0 END::bigint AS creates,
           CASE jsonb_typeof(l.payload -> 'destroy_records') WHEN 'array' THEN jsonb_array_length(l.payload -> 'destroy_records') ELSE 0 END::bigint AS destroys,
           l.cell_xid
      FROM claims.claim_leases l LEFT JOIN claims.cells cell ON cell.cell_id = l.creator_id;

CREATE FUNCTION claims."grant_monitor"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'grant_monitor_wrapper';
CREATE FUNCTION claims."revoke_read"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'revoke_read_wrapper';
CREATE FUNCTION claims."revoke_worker"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'revoke_worker_wrapper';
CREATE FUNCTION claims."revoke_monitor"("role_name" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'revoke_monitor_wrapper';
CREATE FUNCTION claims."version"() RETURNS TABLE ("library" TEXT, "extension" TEXT, "protocol" INT, "unicode" TEXT, "distributed" bool)
STRICT STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'version_wrapper';
CREATE FUNCTION claims."caller_is_admin"() RETURNS bool
STRICT STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'caller_is_admin_wrapper';

-- part 35-check.sql
-- check().

-- check(): finds violations of the rules that the tables must always keep.

-- The three look-ups below read by an index and never join. They are functions of their own because claims.find_problems() plans all other
-- statements without nested loops.
CREATE FUNCTION claims.find_claims_on(bucket_type int, bucket_value text) RETURNS TABLE (status smallint, lease_uuid uuid)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_indexscan = on SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
    SELECT c.status, c.lease_uuid FROM claims.claims c
     WHERE c.bucket_type = find_claims_on.bucket_type AND c.bucket_value = find_claims_on.bucket_value
$$;

CREATE FUNCTION claims.find_settled_leases() RETURNS TABLE (lease_uuid uuid, outcome text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_indexscan = on SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
    SELECT l.uuid, o.outcome FROM claims.claim_leases l
     CROSS JOIN LATERAL (SELECT o.outcome FROM claims.lease_outcomes o WHERE o.lease_uuid = l.uuid OFFSET 0) o
$$;

CREATE FUNCTION claims.find_unknown_owners() RETURNS TABLE (cell_id bigint, claims bigint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_indexscan = on SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
    -- There may be millions of claims of each cell: one step through the index leads to the next cell.
    WITH RECURSIVE hop AS (
        (SELECT c.creator_id FROM claims.claims c ORDER BY c.creator_id LIMIT 1)
        UNION ALL
        SELECT (SELECT c.creator_id FROM claims.claims c WHERE c.creator_id > hop.creator_id ORDER BY c.creator_id LIMIT 1)
          FROM hop WHERE hop.creator_id IS NOT NULL)
    SELECT h.creator_id, (SELECT count(*) FROM claims.claims c WHERE c.creator_id = h.creator_id)
      FROM hop h
     WHERE h.creator_id <> -1 AND NOT EXISTS (SELECT FROM claims.cells c WHERE c.cell_id = h.creator_id OFFSET 0)
$$;

CREATE FUNCTION claims.find_problems() RETURNS TABLE (problem text, lease_uuid uuid, bucket_type text, bucket_value text, detail text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off
    -- claim_leases is mostly empty when it is analyzed, and may have 100,000 rows a moment later. A nested loop planned for no rows
    -- is quadratic then. A hash join is right for any number, and spills to disk.
    SET enable_nestloop = off SET enable_mergejoin = off SET enable_hashjoin = on SET enable_seqscan = on
AS $$
#variable_conflict use_column
DECLARE
    -- Clocks of servers differ a little.
    future timestamptz := clock_timestamp() + interval '1 minute';
BEGIN
    PERFORM claims.require_tables_here();
    -- jit is off: the planner expects long payloads, and compiling would take longer than the query.
    RETURN QUERY
    WITH types AS MATERIALIZED (
        -- Every name of every type, and the name that is shown.
        SELECT n.kind, n.name, n.id, coalesce(b.name, s.name, o.name) AS shown
          FROM (SELECT n.kind, n.name, n.id FROM claims.type_names n
                UNION SELECT 'bucket', y.name, y.id FROM claims.bucket_types y
                UNION SELECT 'subject', y.name, y.id FROM claims.subject_types y
                UNION SELECT 'source', y.name, y.id FROM claims.source_types y) n
          LEFT JOIN claims.bucket_types b ON n.kind = 'bucket' AND b.id = n.id
          LEFT JOIN claims.subject_types s ON n.kind = 'subject' AND s.id = n.id
          LEFT JOIN claims.source_types o ON n.kind = 'source' AND o.id = n.id
    ), named AS MATERIALIZED (
        -- The records in the payloads of outstanding leases. A bucket may occur once in each list: then it is replaced.
        SELECT r.uuid AS lease_uuid, r.status, t.id AS bucket_type,
               coalesce(t.shown, r.record #>> '{bucket,type}') AS type_name, r.record #>> '{bucket,value}' AS bucket_value,
               coalesce(s.shown, r.record #>> '{subject,type}') || ' ' || (r.record #>> '{subject,id}') AS subject,
               coalesce(o.shown, r.record #>> '{source,type}') || ' ' || (r.record #>> '{source,rails_primary_key_id}') AS source,
               row_number() OVER (PARTITION BY r.uuid, r.status, coalesce(t.shown, r.record #>> '{bucket,type}'), r.record #>> '{bucket,value}')
                   AS nth,
               max(r.status) OVER (PARTITION BY r.uuid, coalesce(t.shown, r.record #>> '{bucket,type}'), r.record #>> '{bucket,value}') AS last_status
          FROM (SELECT l.uuid, part.status, r.record
                  FROM claims.claim_leases l
                 CROSS JOIN (VALUES ('create_records', 2::smallint), ('destroy_records', 3::smallint)) AS part (list, status)
                 CROSS JOIN LATERAL jsonb_array_elements(
                                CASE jsonb_typeof(l.payload -> part.list) WHEN 'array' THEN l.payload -> part.list ELSE '[]' END) AS r (record)
                OFFSET 0) AS r
          LEFT JOIN types t ON t.kind = 'bucket' AND t.name = r.record #>> '{bucket,type}'
          LEFT JOIN types s ON s.kind = 'subject' AND s.name = r.record #>> '{subject,type}'
          LEFT JOIN types o ON o.kind = 'source' AND o.name = r.record #>> '{source,type}'
    ), held AS MATERIALIZED (
        -- The claims that the leases hold, and the status in which they must be.
        SELECT * FROM named n WHERE n.status = n.last_status
    ), leased AS MATERIALIZED (
        SELECT c.*, coalesce(t.name, c.bucket_type::text) AS type_name,
               coalesce(s.name, c.subject_type::text) || ' ' || c.subject_id AS subject,
               coalesce(o.name, c.source_type::text) || ' ' || c.source_id AS source,
               x.transfer_uuid IS NOT NULL AS has_transfer
          FROM claims.claims c LEFT JOIN claims.bucket_types t ON t.id = c.bucket_type
          LEFT JOIN claims.subject_types s ON s.id = c.subject_type LEFT JOIN claims.source_types o ON o.id = c.source_type
          LEFT JOIN claims.cell_transfers x ON x.transfer_uuid = c.lease_uuid AND x.from_cell = c.creator_id AND x.ended_at IS NULL
         WHERE (c.lease_uuid IS NOT NULL OR c.status <> 1 OR c.created_at > future OR c.updated_at > future)
           -- A transfer may hold a million claims: those that are in order are only counted, below.
           AND NOT (c.status = 4 AND c.created_at <= future AND c.updated_at <= future AND x.transfer_uuid IS NOT NULL)
    )
    -- One row for each claim: its first problem.
    SELECT p.problem, c.lease_uuid, c.type_name, c.bucket_value, p.detail
      FROM leased c
      LEFT JOIN claims.claim_leases l ON l.uuid = c.lease_uuid
      LEFT JOIN held h ON h.lease_uuid = c.lease_uuid AND h.bucket_type = c.bucket_type AND h.bucket_value = c.bucket_value AND h.nth = 1
     CROSS JOIN LATERAL (
         SELECT 'status and lease do not agree', format('Status is %s, lease is %s.', c.status, coalesce(c.lease_uuid::text, 'null'))
          WHERE (c.lease_uuid IS NULL) <> (c.status = 1)
         UNION ALL
         SELECT 'claim is held by no outstanding lease of its cell',
                CASE WHEN l.uuid IS NULL THEN 'There is no such lease.'
                     ELSE format('The claim is cell %s''s, the lease cell %s''s.', c.creator_id, l.creator_id) END
          WHERE c.lease_uuid IS NOT NULL AND c.status <> 4 AND l.creator_id IS DISTINCT FROM c.creator_id
         UNION ALL
         SELECT 'claim is held by no open transfer from its cell', format('The claim is cell %s''s.', c.creator_id)
          WHERE c.status = 4 AND c.lease_uuid IS NOT NULL AND NOT c.has_transfer
         UNION ALL
         SELECT 'claim is not in the payload of its lease', format('Status is %s.', c.status)
          WHERE l.uuid IS NOT NULL AND c.status <> 4 AND h.status IS DISTINCT FROM c.status
         UNION ALL
         SELECT 'claim is not what the payload of its lease says',
                format('It is %s of %s; the payload says %s of %s.', c.subject, c.source, coalesce(h.subject, 'any'), coalesce(h.source, 'any'))
          WHERE c.subject <> h.subject OR c.source <> h.source
         UNION ALL
         SELECT 'claim is dated in the future', format('Created at %s, updated at %s.', c.created_at, c.updated_at)
          WHERE c.created_at > future OR c.updated_at > future
         LIMIT 1) AS p (problem, detail)
    UNION ALL
    -- Only existing claims that are not reported above. One index look-up for each claim that its lease does not hold.
    SELECT 'lease does not hold a claim of its payload', h.lease_uuid, h.type_name, h.bucket_value,
           CASE WHEN c.status IS NULL THEN 'There is no such claim.'
                ELSE format('The claim''s status is %s, its lease %s.', c.status, coalesce(c.lease_uuid::text, 'null')) END
      FROM (SELECT h.lease_uuid, h.bucket_type, h.type_name, h.bucket_value FROM held h
             WHERE h.nth = 1
               AND NOT EXISTS (SELECT FROM leased c WHERE c.bucket_type = h.bucket_type AND c.bucket_value = h.bucket_value
                                  AND c.lease_uuid = h.lease_uuid)
            OFFSET 0) AS h
      LEFT JOIN LATERAL claims.find_claims_on(h.bucket_type, h.bucket_value) AS c ON true
     WHERE c.lease_uuid IS DISTINCT FROM h.lease_uuid
       AND (c.status IS NULL OR (c.lease_uuid IS NULL) = (c.status = 1))
    UNION ALL
    SELECT 'payload of a lease names a bucket twice', h.lease_uuid, h.type_name, h.bucket_value, 'It may stand once in each list.'
      FROM named h WHERE h.nth = 2
    UNION ALL
    SELECT 'payload of a lease names no claims', l.uuid, NULL, NULL, left(l.payload::text, 200)
      FROM claims.claim_leases l WHERE NOT EXISTS (SELECT FROM held h WHERE h.lease_uuid = l.uuid)
    UNION ALL
    SELECT 'lease is outstanding and settled', s.lease_uuid, NULL, NULL, format('Its outcome is %s.', s.outcome)
      FROM claims.find_settled_leases() s
    UNION ALL
    SELECT 'lease is dated in the future', l.uuid, NULL, NULL, format('Created at %s, updated at %s.', l.created_at, l.updated_at)
      FROM claims.claim_leases l WHERE l.created_at > future OR l.updated_at > future
    UNION ALL
    SELECT 'outcome is dated in the future', o.lease_uuid, NULL, NULL, format('Settled at %s.', o.settled_at)
      FROM claims.lease_outcomes o WHERE o.settled_at > future
    UNION ALL
    -- One more scan of the claims, if a transfer is open.
    SELECT 'transfer does not hold the claims that it counts', t.transfer_uuid, NULL, NULL,
           format('It counts %s, there are %s.', t.held, coalesce(n.found, 0))
      FROM claims.cell_transfers t
      LEFT JOIN (SELECT c.creator_id, c.lease_uuid, count(*) AS found FROM claims.claims c WHERE c.status = 4
                  GROUP BY c.creator_id, c.lease_uuid) AS n
        ON n.creator_id = t.from_cell AND n.lease_uuid = t.transfer_uuid
     WHERE t.ended_at IS NULL AND coalesce(n.found, 0) <> t.held
    UNION ALL
    SELECT 'transfer and its state do not agree', t.transfer_uuid, NULL, NULL,
           format('It is %s, at cell %s, and counts %s claims.', t.state, t.cell_id, t.held)
      FROM claims.cell_transfers t
     WHERE t.cell_id NOT IN (t.from_cell, t.to_cell)
        OR t.state = 'switched' AND t.cell_id <> t.to_cell
        OR t.state IN ('preparing', 'prepared', 'cancelled') AND t.cell_id <> t.from_cell
        OR (t.state IN ('finished', 'cancelled')) <> (t.ended_at IS NOT NULL)
        OR t.ended_at IS NOT NULL AND t.held <> 0
    UNION ALL
    SELECT 'transfer is dated in the future', t.transfer_uuid, NULL, NULL, format('Created at %s, updated at %s.', t.created_at, t.updated_at)
      FROM claims.cell_transfers t WHERE t.created_at > future OR t.updated_at > future
    UNION ALL
    SELECT 'transfer of a cell that is not registered', t.transfer_uuid, NULL, NULL, format('It is from cell %s to cell %s.', t.from_cell, t.to_cell)
      FROM claims.cell_transfers t
     WHERE t.ended_at IS NULL AND (SELECT count(*) FROM claims.cells c WHERE c.cell_id IN (t.from_cell, t.to_cell)) < 2
    UNION ALL
    SELECT 'lease of a cell that is not registered', l.uuid, NULL, NULL, format('It is cell %s''s.', l.creator_id)
      FROM claims.claim_leases l WHERE NOT EXISTS (SELECT FROM claims.cells c WHERE c.cell_id = l.creator_id)
    UNION ALL
    -- One row for all of a cell's claims: there may be millions.
    SELECT 'claims of a cell that is not registered', NULL, NULL, NULL, format('Cell %s has %s claims.', o.cell_id, o.claims)
      FROM claims.find_unknown_owners() o
    UNION ALL
    -- A reserved name is also a claim of nobody (creator_id -1): the unique index on the bucket keeps cells from claiming it.
    SELECT 'reserved name is not held', NULL, coalesce(t.name, r.bucket_type::text), r.bucket_value, 'There is no such claim of nobody.'
      FROM claims.reservations r LEFT JOIN claims.bucket_types t ON t.id = r.bucket_type
     WHERE NOT EXISTS (SELECT FROM claims.claims c
                        WHERE c.bucket_type = r.bucket_type AND c.bucket_value = r.bucket_value AND c.creator_id = -1)
    UNION ALL
    SELECT 'name is held by nobody and not reserved', NULL, coalesce(t.name, c.bucket_type::text), c.bucket_value, format('Its uuid is %s.', c.uuid)
      FROM claims.claims c LEFT JOIN claims.bucket_types t ON t.id = c.bucket_type
     WHERE c.creator_id = -1 AND NOT EXISTS (SELECT FROM claims.reservations r
                                                WHERE r.bucket_type = c.bucket_type AND r.bucket_value = c.bucket_value)
    UNION ALL
    -- Skeletons of types that refuse look-alikes. A skeleton of a name that nobody has claimed does no harm: the next begin takes it over.
    SELECT 'claim has no look', NULL, t.name, c.bucket_value, 'A name that looks like it could be claimed.'
      FROM claims.bucket_types t JOIN claims.claims c ON c.bucket_type = t.id
     WHERE t.confusables = 'reject' AND c.creator_id <> -1
       AND NOT EXISTS (SELECT FROM claims.skeletons s WHERE s.bucket_type = c.bucket_type AND s.bucket_value = c.bucket_value AND s.reserved = '')
       AND NOT EXISTS (SELECT FROM claims.skeletons s WHERE s.bucket_type = c.bucket_type AND s.successor = c.bucket_value)
    UNION ALL
    SELECT 'reserved name has no look', NULL, t.name, r.bucket_value, 'A name that looks like it could be claimed.'
      FROM claims.bucket_types t JOIN claims.reservations r ON r.bucket_type = t.id
     WHERE t.confusables = 'reject'
       AND NOT EXISTS (SELECT FROM claims.skeletons s WHERE s.bucket_type = r.bucket_type AND s.reserved = r.bucket_value)
    UNION ALL
    SELECT 'look is of a name that is not reserved', NULL, coalesce(t.name, s.bucket_type::text), s.reserved,
           'No name that looks like it can be claimed.'
      FROM claims.skeletons s LEFT JOIN claims.bucket_types t ON t.id = s.bucket_type
     WHERE s.reserved <> ''
       AND NOT EXISTS (SELECT FROM claims.reservations r WHERE r.bucket_type = s.bucket_type AND r.bucket_value = s.reserved)
    UNION ALL
    -- Readers would not get these changes before such a transaction exists. An index look-up, like the next one.
    SELECT 'changes are of a transaction that has not been', NULL, NULL, NULL, format('The transaction is %s.', s.xid)
      FROM (SELECT s.xid FROM claims.change_sets s WHERE s.xid >= pg_snapshot_xmax(pg_current_snapshot()) ORDER BY s.xid DESC, s.id DESC LIMIT 1) s
     WHERE s.xid IS DISTINCT FROM pg_current_xact_id_if_assigned()
    UNION ALL
    SELECT 'changes lie before those that were purged', NULL, NULL, NULL, format('The first one is of transaction %s.', s.xid)
      FROM claims.change_horizon h
     CROSS JOIN LATERAL (SELECT s.xid FROM claims.change_sets s WHERE (s.xid, s.id) <= (h.xid, h.id) ORDER BY s.xid, s.id LIMIT 1) s
    UNION ALL
    SELECT 'role of a cell does not exist', NULL, NULL, NULL, format('Cell %s belongs to role number %s.', c.cell_id, c.role::oid)
      FROM claims.cells c WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = c.role::oid)
    UNION ALL
    -- A later server of that name would be a service at once.
    SELECT 'named service does not exist', NULL, NULL, NULL, format('There is no foreign server "%s".', n.server_name)
      FROM claims.named_services n WHERE NOT EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname = n.server_name);
    -- A valid unique index, whatever its name, guarantees that no bucket occurs twice; without one, count.
    IF NOT EXISTS (SELECT FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam
                    WHERE i.indrelid = 'claims.claims'::regclass AND m.amname = 'btree'
                      AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indisready AND i.indislive
                      AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = 2
                      AND (SELECT array_agg(a.attname::text ORDER BY a.attname) FROM pg_attribute a
                            WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:1])) = '{bucket_type,bucket_value}'
                      AND 'pg_catalog."C"'::regcollation = ANY (i.indcollation)) THEN
        RETURN QUERY
        SELECT 'there is no valid unique index on the bucket', NULL::uuid, NULL::text, NULL::text,
               'It would be on claims.claims (bucket_value, bucket_type).'
        UNION ALL
        SELECT 'bucket occurs more than once', NULL, coalesce(t.name, c.bucket_type::text), c.bucket_value,
               format('It occurs %s times.', count(*))
          FROM claims.claims c LEFT JOIN claims.bucket_types t ON t.id = c.bucket_type
         GROUP BY c.bucket_type, t.name, c.bucket_value HAVING count(*) > 1;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION claims.check() RETURNS TABLE (problem text, lease_uuid uuid, bucket_type text, bucket_value text, detail text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    tells_names boolean := claims.caller_is_admin();
    distributed boolean := (SELECT v.distributed FROM claims.version() v);
    problems bigint := 0;
    future bigint := 0;
    seen jsonb[];
BEGIN
    IF distributed THEN
        -- Report only problems found twice: the first look may have met a transaction that commits on one node after the other.
        seen := ARRAY(SELECT to_jsonb(p) FROM claims.find_distributed_problems() p);
        IF cardinality(seen) > 0 THEN
            PERFORM pg_sleep(0.2);
        END IF;
    END IF;
    FOR problem, lease_uuid, bucket_type, bucket_value, detail IN
        SELECT p.problem, p.lease_uuid, p.bucket_type, CASE WHEN tells_names THEN p.bucket_value END,
               CASE WHEN tells_names OR p.problem NOT IN ('claim is not what the payload of its lease says', 'payload of a lease names no claims')
                    THEN p.detail END
          FROM (SELECT * FROM claims.find_problems() l WHERE NOT distributed
                UNION ALL
                SELECT * FROM claims.find_distributed_problems() d WHERE cardinality(seen) > 0 AND to_jsonb(d) = ANY (seen)) p
    LOOP
        RETURN NEXT;
        -- Rows with the time of a wrong clock break no rule: they are counted separately.
        IF problem LIKE '% is dated in the future' THEN
            future := future + 1;
        ELSE
            problems := problems + 1;
        END IF;
    END LOOP;
    PERFORM claims.note_check(problems, future);
END $$;

-- part 36-operate.sql
-- Operation: the log of admin actions, modes, and admin actions on leases and cells.

-- The log of admin actions.

CREATE TABLE claims.admin_log (
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    session_role name        NOT NULL,
    role         name        NOT NULL,
    action       text        COLLATE "C" NOT NULL,
    arguments    jsonb       NOT NULL,
    reason       text,
    counts       jsonb,
    id           uuid        NOT NULL PRIMARY KEY
);

SELECT pg_catalog.pg_extension_config_dump('claims.admin_log', '');
-- Modes of the service.

CREATE TABLE claims.mode_settings (
    cell_id bigint      NOT NULL PRIMARY KEY,
    mode    text        COLLATE "C" NOT NULL CHECK (mode IN ('open', 'settle_only', 'read_only')),
    reason  text        NOT NULL,
    since   timestamptz NOT NULL DEFAULT clock_timestamp(),
    role    name        NOT NULL
);

CREATE VIEW claims.modes AS
    SELECT s.cell_id, s.cell_name, coalesce(m.mode, 'open') AS mode,
           CASE WHEN 'read_only' IN (m.mode, e.mode) THEN 'read_only'
               WHEN 'settle_only' IN (m.mode, e.mode) THEN 'settle_only' ELSE 'open' END AS in_effect,
           m.reason, m.since, m.role,
           -- Counts sessions and prepared transactions: those have a lock and no process.
           (SELECT count(DISTINCT l.virtualtransaction) FROM pg_catalog.pg_locks l
             WHERE l.locktype = 'relation' AND l.relation = 'claims.claim_leases'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
               AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
               AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()) AS open_writers
      FROM (SELECT NULL::bigint AS cell_id, NULL::text AS cell_name UNION ALL SELECT c.cell_id, c.name FROM claims.cells c) s
      LEFT JOIN claims.mode_settings m ON m.cell_id = coalesce(s.cell_id, -1)
      LEFT JOIN claims.mode_settings e ON e.cell_id = -1;

SELECT pg_catalog.pg_extension_config_dump('claims.mode_settings', '');
CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.mode_settings
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
ALTER TABLE claims.mode_settings ENABLE ALWAYS TRIGGER announce_change;

CREATE FUNCTION claims."set_mode"("mode" TEXT, "reason" TEXT, "cell_id" bigint DEFAULT NULL) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'set_mode_wrapper';
CREATE FUNCTION claims."lease_details"("lease_uuid" uuid DEFAULT NULL, "bucket_type" TEXT DEFAULT NULL, "bucket_value" TEXT DEFAULT NULL) RETURNS TABLE ("lease_uuid" uuid, "cell_id" bigint, "cell_name" TEXT, "role_name" name, "created_at" timestamp with time zone, "age" interval, "cell_xid" xid8, "creates" jsonb, "destroys" jsonb)
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'lease_details_wrapper';
CREATE FUNCTION claims."force_rollback"("cell_id" bigint, "lease_uuid" uuid, "reason" TEXT) RETURNS jsonb
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'force_rollback_wrapper';
CREATE FUNCTION claims."release_records"("cell_id" bigint, "reason" TEXT, "max_results" INT DEFAULT 10000, "dry_run" bool DEFAULT false) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'release_records_wrapper';
CREATE FUNCTION claims."remove_cell"("cell_id" bigint, "reason" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'remove_cell_wrapper';
INSERT INTO claims.audiences (function_name, audience) VALUES ('lease_details', 'cell');

-- Limits, epochs, and details of leases.
-- Limits of cells.

CREATE TABLE claims.limit_settings (
    cell_id           bigint      NOT NULL PRIMARY KEY,
    max_outstanding   int         CHECK (max_outstanding >= 0),
    max_batch_size    int         CHECK (max_batch_size >= 1),
    begins_per_second int         CHECK (begins_per_second >= 1),
    reason            text        NOT NULL,
    since             timestamptz NOT NULL DEFAULT clock_timestamp(),
    role              name        NOT NULL
);

CREATE VIEW claims.cell_limits AS
    SELECT c.cell_id, c.name AS cell_name, l.max_outstanding, l.max_batch_size, l.begins_per_second, l.reason, l.since, l.role
      FROM claims.cells c JOIN claims.limit_settings l ON l.cell_id = c.cell_id
     WHERE num_nonnulls(l.max_outstanding, l.max_batch_size, l.begins_per_second) > 0;

SELECT pg_catalog.pg_extension_config_dump('claims.limit_settings', '');
-- The epoch that the database of each cell has presented last; it decides which database acts as the cell.

CREATE TABLE claims.cell_epochs (
    cell_id      bigint      NOT NULL PRIMARY KEY,
    epoch        bigint      NOT NULL,
    presented_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO claims.audiences (function_name, audience) VALUES ('present_epoch', 'cell');
SELECT pg_catalog.pg_extension_config_dump('claims.cell_epochs', '');
-- In a cell: the epochs by which the service knows this database.

CREATE TABLE claims.own_epochs (
    cell_id     bigint      NOT NULL PRIMARY KEY,
    epoch       bigint      NOT NULL,
    predecessor bigint,
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
SELECT pg_catalog.pg_extension_config_dump('claims.own_epochs', '');
-- In a cell: the orphans that recovery found.

CREATE TABLE claims.seen_orphans (
    lease_uuid uuid        NOT NULL PRIMARY KEY,
    cell_id    bigint      NOT NULL,
    outcome    text        COLLATE "C",
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION claims.orphans(cell_id bigint) RETURNS TABLE (lease_uuid uuid, tracked_at timestamptz, outcome text, seen_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    -- A hash join is right for any number of rows in both tables, whatever the statistics say.
    SET enable_nestloop = off SET enable_hashjoin = on
AS $$
BEGIN
    PERFORM claims.require_cell(orphans.cell_id);
    RETURN QUERY SELECT o.lease_uuid, t.created_at, o.outcome, o.seen_at
                   FROM claims.seen_orphans o JOIN claims.cells_outstanding_leases t ON t.uuid = o.lease_uuid
                  WHERE o.cell_id = orphans.cell_id ORDER BY t.created_at, o.lease_uuid;
END $$;

INSERT INTO claims.audiences (function_name, audience) VALUES ('orphans', 'cell'), ('explain_lease', 'cell');
SELECT pg_catalog.pg_extension_config_dump('claims.seen_orphans', 'WHERE false');
CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.limit_settings
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
ALTER TABLE claims.limit_settings ENABLE ALWAYS TRIGGER announce_change;

CREATE FUNCTION claims."set_cell_limits"("cell_id" bigint, "reason" TEXT, "max_outstanding" INT DEFAULT NULL, "max_batch_size" INT DEFAULT NULL, "begins_per_second" INT DEFAULT NULL) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'set_cell_limits_wrapper';
CREATE FUNCTION claims."present_epoch"("cell_id" bigint, "epoch" bigint, "predecessor" bigint DEFAULT NULL, "adopt_because" TEXT DEFAULT NULL) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'present_epoch_wrapper';
CREATE FUNCTION claims."adopt_cell"("cell_id" bigint, "service" TEXT, "reason" TEXT) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'adopt_cell_wrapper';
CREATE FUNCTION claims."skip_capture"("reason" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'skip_capture_wrapper';
CREATE FUNCTION claims."explain_lease"("cell_id" bigint, "service" TEXT, "lease_uuid" uuid) RETURNS TABLE ("lease_uuid" uuid, "at_service" TEXT, "tracked_at" timestamp with time zone, "fenced_at" timestamp with time zone, "xact_status" TEXT, "pid" INT, "usename" name, "application_name" TEXT, "open_for" interval, "prepared_gid" TEXT, "verdict" TEXT, "advice" TEXT)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'explain_lease_wrapper';

-- part 37-changes.sql
-- The change feed.

-- The change feed: changes of owned claims, in the order in which readers get them.

-- One row has up to 1,000 changes of one kind made by one call: a row for each change would cost a commit a fifth of its time. The
-- n-th change of a row has the number id + n - 1, so ids are 1,024 apart. They are drawn one by one (no CACHE): of two changes of
-- one name the later one has the greater id, also in different sessions.
CREATE TABLE claims.change_sets (
    xid           xid8        NOT NULL DEFAULT pg_catalog.pg_current_xact_id(),
    id            bigint      NOT NULL GENERATED BY DEFAULT AS IDENTITY (INCREMENT 1024 MINVALUE 1024 START 1024),
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    op            text        COLLATE "C" NOT NULL,
    old_cell_id   bigint,
    new_cell_id   bigint,
    lease_uuid    uuid,
    actor         name        NOT NULL,
    bucket_types  int[]       NOT NULL,
    bucket_values text[]      COLLATE "C" NOT NULL,
    era           int,
    two_phase     text        COLLATE "C",
    PRIMARY KEY (xid, id)
) WITH (vacuum_truncate = off);
-- So that PostgreSQL records its privileges as the initial ones, here and after an upgrade.
REVOKE ALL ON SEQUENCE claims.change_sets_id_seq FROM PUBLIC;

CREATE VIEW claims.changes AS
    SELECT s.id + n.nth - 1 AS id, s.xid, s.at, s.op, n.bucket_type, n.bucket_value, s.old_cell_id, s.new_cell_id, s.lease_uuid, s.actor
      FROM claims.change_sets s
     CROSS JOIN LATERAL unnest(s.bucket_types, s.bucket_values) WITH ORDINALITY AS n (bucket_type, bucket_value, nth);

-- The changes of one bucket. Unlike statements of other calls it may use any plan: it reads the whole table, or an index that
-- administrators have made.
CREATE FUNCTION claims.changes_of(bucket_type int, bucket_value text)
    RETURNS TABLE (at timestamptz, op text, old_cell_id bigint, new_cell_id bigint, lease_uuid uuid, actor name)
    LANGUAGE sql STABLE ROWS 10 SET search_path = pg_catalog, pg_temp SET enable_seqscan = on SET enable_bitmapscan = on SET jit = off
AS $$
    SELECT s.at, s.op, s.old_cell_id, s.new_cell_id, s.lease_uuid, s.actor
      FROM claims.change_sets s
     CROSS JOIN LATERAL unnest(s.bucket_types, s.bucket_values) WITH ORDINALITY AS n (bucket_type, bucket_value, nth)
     WHERE s.bucket_values @> ARRAY[$2 COLLATE "C"] AND n.bucket_type = $1 AND n.bucket_value = $2
     ORDER BY s.id + n.nth
$$;

-- One row. A database that a dump was restored into has a feed of its own, with an identity of its own.
CREATE TABLE claims.change_horizon (
    feed uuid        NOT NULL PRIMARY KEY DEFAULT gen_random_uuid(),
    xid  xid8        NOT NULL DEFAULT '0',
    id   bigint      NOT NULL DEFAULT 0,
    at   timestamptz NOT NULL DEFAULT '2000-01-01 00:00:00+00',
    era  int         NOT NULL DEFAULT 0,
    node int,
    has_earlier boolean NOT NULL DEFAULT false
);
INSERT INTO claims.change_horizon DEFAULT VALUES;

INSERT INTO claims.audiences (function_name, audience) VALUES ('list_changes', 'router'), ('change_cursor', 'router');

SELECT pg_catalog.pg_extension_config_dump('claims.change_sets', 'WHERE false');
SELECT pg_catalog.pg_extension_config_dump('claims.change_horizon', 'WHERE false');

CREATE FUNCTION claims."list_changes"("after" TEXT DEFAULT NULL, "max_results" INT DEFAULT 1000, "bucket_type" TEXT DEFAULT NULL) RETURNS TABLE ("id" bigint, "xid" xid8, "at" timestamp with time zone, "op" TEXT, "bucket_type" TEXT, "bucket_value" TEXT, "old_cell_id" bigint, "new_cell_id" bigint, "lease_uuid" uuid, "actor" name, "cursor" TEXT, "old_cell_name" TEXT, "new_cell_name" TEXT)
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'list_changes_wrapper';
CREATE FUNCTION claims."change_cursor"() RETURNS TEXT
STRICT STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'change_cursor_wrapper';
CREATE FUNCTION claims."bucket_history"("bucket_type" TEXT, "bucket_value" TEXT) RETURNS TABLE ("cell_id" bigint, "cell_name" TEXT, "since" timestamp with time zone, "until" timestamp with time zone, "op" TEXT, "lease_uuid" uuid, "actor" name)
STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'bucket_history_wrapper';
CREATE FUNCTION claims."purge_changes"("older_than" interval) RETURNS bigint
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'purge_changes_wrapper';

-- part 38-transfers.sql
-- Transfers between cells, and the view that reads them.

-- Transfers: the claims of some subjects move from one cell to another, for readers all at once.

CREATE TABLE claims.cell_transfers (
    transfer_uuid   uuid        PRIMARY KEY,
    from_cell       bigint      NOT NULL,
    to_cell         bigint      NOT NULL,
    cell_id         bigint      NOT NULL,
    state           text        COLLATE "C" NOT NULL CHECK (state IN ('preparing', 'prepared', 'switched', 'finishing', 'finished', 'cancelled')),
    held            bigint      NOT NULL DEFAULT 0,
    skipped         bigint      NOT NULL DEFAULT 0,
    moved           bigint      NOT NULL DEFAULT 0,
    subjects        bigint      NOT NULL,
    request_digest  bytea       NOT NULL,
    marking_after   text        COLLATE "C",
    releasing_after text        COLLATE "C",
    reason          text        NOT NULL,
    role            name        NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    prepared_at     timestamptz,
    switched_at     timestamptz,
    reversed_at     timestamptz,
    ended_at        timestamptz
);
-- Reads for a cell use it to find the few transfers that have brought it claims which are still stored under another cell.
CREATE INDEX cell_transfers_arrived ON claims.cell_transfers (cell_id) WHERE cell_id <> from_cell AND ended_at IS NULL;

CREATE TABLE claims.transfer_subjects (
    transfer_uuid uuid NOT NULL,
    subject_type  int  NOT NULL,
    subject_id    text COLLATE "C" NOT NULL,
    PRIMARY KEY (transfer_uuid, subject_type, subject_id)
);

CREATE VIEW claims.transfers AS
    SELECT t.transfer_uuid, t.state, t.from_cell, f.name AS from_name, t.to_cell, o.name AS to_name, t.cell_id,
           t.subjects, t.held, t.skipped, t.moved, t.reason, t.role, t.created_at, t.updated_at, t.prepared_at, t.switched_at, t.reversed_at,
           t.ended_at
      FROM claims.cell_transfers t
      LEFT JOIN claims.cells f ON f.cell_id = t.from_cell
      LEFT JOIN claims.cells o ON o.cell_id = t.to_cell;

SELECT pg_catalog.pg_extension_config_dump('claims.cell_transfers', '');
SELECT pg_catalog.pg_extension_config_dump('claims.transfer_subjects', '');
-- The view records: claims with names instead of numbers.

-- Two branches, so that a condition on the cell finds its claims by an index in either.
CREATE OR REPLACE VIEW claims.records AS
    SELECT c.uuid, bt.name AS bucket_type, c.bucket_value, st.name AS subject_type, c.subject_id,
           so.name AS source_type, c.source_id, c.cell_id,
           CASE c.status WHEN 1 THEN 'ACTIVE' WHEN 2 THEN 'LEASE_CREATING' WHEN 3 THEN 'LEASE_DESTROYING' WHEN 4 THEN 'TRANSFERRING'
                         ELSE 'UNSPECIFIED' END AS status,
           c.lease_uuid, c.created_at, c.updated_at, cell.name AS cell_name, cell.address AS cell_address,
           c.display_value
      FROM (SELECT c.uuid, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, c.creator_id AS cell_id,
                   c.status, c.lease_uuid, c.created_at, c.updated_at, c.display_value
              FROM claims.claims c WHERE c.status <> 4 AND c.creator_id <> -1
            UNION ALL
            SELECT c.uuid, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, t.cell_id,
                   c.status, c.lease_uuid, c.created_at, c.updated_at, c.display_value
              FROM claims.cell_transfers t JOIN claims.claims c ON c.lease_uuid = t.transfer_uuid AND c.creator_id = t.from_cell
             WHERE c.status = 4) c
      LEFT JOIN claims.bucket_types bt ON bt.id = c.bucket_type
      LEFT JOIN claims.subject_types st ON st.id = c.subject_type
      LEFT JOIN claims.source_types so ON so.id = c.source_type
      LEFT JOIN claims.cells cell ON cell.cell_id = c.cell_id;

CREATE FUNCTION claims."prepare_transfer"("transfer_uuid" uuid, "from_cell" bigint, "to_cell" bigint, "subjects" jsonb, "reason" TEXT, "max_runtime" interval DEFAULT NULL) RETURNS TABLE ("marked" bigint, "skipped" bigint, "finished" bool)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'prepare_transfer_wrapper';
CREATE FUNCTION claims."switch_transfer"("transfer_uuid" uuid, "reason" TEXT) RETURNS bool
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'switch_transfer_wrapper';
CREATE FUNCTION claims."reverse_transfer"("transfer_uuid" uuid, "reason" TEXT) RETURNS bool
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'reverse_transfer_wrapper';
CREATE FUNCTION claims."finish_transfer"("transfer_uuid" uuid, "max_runtime" interval DEFAULT NULL) RETURNS TABLE ("moved" bigint, "finished" bool)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'finish_transfer_wrapper';
CREATE FUNCTION claims."cancel_transfer"("transfer_uuid" uuid, "reason" TEXT, "max_runtime" interval DEFAULT NULL) RETURNS TABLE ("released" bigint, "finished" bool)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'cancel_transfer_wrapper';

-- part 39-distributed.sql
-- Distributed tables.

ALTER TABLE claims.cells ADD COLUMN role_name name;
-- check() for distributed tables.

-- The queries of claims.find_problems(), without those that do not apply. Citus joins rows of different nodes only after it has
-- fetched them, so each query of a distributed table is a WITH query of its own.
CREATE FUNCTION claims.find_distributed_problems() RETURNS TABLE (problem text, lease_uuid uuid, bucket_type text, bucket_value text, detail text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off
    -- A hash join is right for any number of leases, whatever the statistics say, as in claims.find_problems().
    SET enable_nestloop = off SET enable_mergejoin = off SET enable_hashjoin = on SET enable_seqscan = on
AS $$
#variable_conflict use_column
DECLARE
    cell_ids bigint[];
    roles text[];
BEGIN
    -- EXECUTE plans it anew each time: Citus accepts no generic plan.
    RETURN QUERY EXECUTE $query$
    WITH types AS MATERIALIZED (
        SELECT n.kind, n.name, n.id, coalesce(b.name, s.name, o.name) AS shown
          FROM (SELECT n.kind, n.name, n.id FROM claims.type_names n
                UNION SELECT 'bucket', y.name, y.id FROM claims.bucket_types y
                UNION SELECT 'subject', y.name, y.id FROM claims.subject_types y
                UNION SELECT 'source', y.name, y.id FROM claims.source_types y) n
          LEFT JOIN claims.bucket_types b ON n.kind = 'bucket' AND b.id = n.id
          LEFT JOIN claims.subject_types s ON n.kind = 'subject' AND s.id = n.id
          LEFT JOIN claims.source_types o ON n.kind = 'source' AND o.id = n.id
    ), cells AS MATERIALIZED (
        SELECT c.cell_id FROM claims.cells c
    ), leases AS MATERIALIZED (
        SELECT l.uuid, l.creator_id, l.payload, l.created_at, l.updated_at, o.outcome
          FROM claims.claim_leases l LEFT JOIN claims.lease_outcomes o ON o.lease_uuid = l.uuid
    ), late_outcomes AS MATERIALIZED (
        SELECT o.lease_uuid, o.settled_at FROM claims.lease_outcomes o WHERE o.settled_at > $1
    ), named AS MATERIALIZED (
        SELECT l.uuid AS lease_uuid, part.status, t.id AS bucket_type,
               coalesce(t.shown, r.record #>> '{bucket,type}') AS type_name, r.record #>> '{bucket,value}' AS bucket_value,
               coalesce(s.shown, r.record #>> '{subject,type}') || ' ' || (r.record #>> '{subject,id}') AS subject,
               coalesce(o.shown, r.record #>> '{source,type}') || ' ' || (r.record #>> '{source,rails_primary_key_id}') AS source,
               row_number() OVER (PARTITION BY l.uuid, part.status, coalesce(t.shown, r.record #>> '{bucket,type}'),
                   r.record #>> '{bucket,value}') AS nth,
               max(part.status) OVER (PARTITION BY l.uuid, coalesce(t.shown, r.record #>> '{bucket,type}'), r.record #>> '{bucket,value}')
                   AS last_status
          FROM leases l
         CROSS JOIN (VALUES ('create_records', 2::smallint), ('destroy_records', 3::smallint)) AS part (list, status)
         CROSS JOIN LATERAL jsonb_array_elements(
                        CASE jsonb_typeof(l.payload -> part.list) WHEN 'array' THEN l.payload -> part.list ELSE '[]' END) AS r (record)
          LEFT JOIN types t ON t.kind = 'bucket' AND t.name = r.record #>> '{bucket,type}'
          LEFT JOIN types s ON s.kind = 'subject' AND s.name = r.record #>> '{subject,type}'
          LEFT JOIN types o ON o.kind = 'source' AND o.name = r.record #>> '{source,type}'
    ), held AS MATERIALIZED (
        SELECT * FROM named n WHERE n.status = n.last_status
    ), leased AS MATERIALIZED (
        SELECT c.bucket_type, c.bucket_value, c.lease_uuid, c.status, c.creator_id, c.created_at, c.updated_at,
               coalesce(t.name, c.bucket_type::text) AS type_name,
               coalesce(s.name, c.subject_type::text) || ' ' || c.subject_id AS subject,
               coalesce(o.name, c.source_type::text) || ' ' || c.source_id AS source
          FROM claims.claims c LEFT JOIN claims.bucket_types t ON t.id = c.bucket_type
          LEFT JOIN claims.subject_types s ON s.id = c.subject_type LEFT JOIN claims.source_types o ON o.id = c.source_type
         WHERE (c.lease_uuid IS NOT NULL OR c.status <> 1 OR c.created_at > $1 OR c.updated_at > $1)
           -- A transfer may hold a million claims: those that are in order are only counted, below.
           AND NOT (c.status = 4 AND c.created_at <= $1 AND c.updated_at <= $1
                    AND EXISTS (SELECT FROM claims.cell_transfers x
                                 WHERE x.transfer_uuid = c.lease_uuid AND x.from_cell = c.creator_id AND x.ended_at IS NULL))
    ), transfers AS MATERIALIZED (
        SELECT * FROM claims.cell_transfers x
    ), held_by_transfers AS MATERIALIZED (
        SELECT c.creator_id, c.lease_uuid, count(*) AS found FROM claims.claims c WHERE c.status = 4 GROUP BY c.creator_id, c.lease_uuid
    ), standing AS MATERIALIZED (
        SELECT c.bucket_type, c.bucket_value, c.status, c.lease_uuid
          FROM claims.claims c JOIN (SELECT DISTINCT h.bucket_type, h.bucket_value FROM held h) h
            ON c.bucket_value = h.bucket_value AND c.bucket_type = h.bucket_type
    ), owners AS MATERIALIZED (
        SELECT c.creator_id, count(*) AS claims FROM claims.claims c GROUP BY c.creator_id
    ), reserved AS MATERIALIZED (
        SELECT r.bucket_type, r.bucket_value, c.uuid IS NOT NULL AS is_held
          FROM claims.reservations r
          LEFT JOIN claims.claims c ON c.bucket_value = r.bucket_value AND c.bucket_type = r.bucket_type AND c.creator_id = -1
    ), nobodys AS MATERIALIZED (
        SELECT c.bucket_type, c.bucket_value, c.uuid, r.bucket_value IS NOT NULL AS is_reserved
          FROM claims.claims c
          LEFT JOIN claims.reservations r ON r.bucket_value = c.bucket_value AND r.bucket_type = c.bucket_type
         WHERE c.creator_id = -1
    ), alike AS MATERIALIZED (
        SELECT t.name AS type_name, c.bucket_type, c.bucket_value
          FROM claims.claims c JOIN claims.bucket_types t ON c.bucket_type = t.id
         WHERE t.confusables = 'reject' AND c.creator_id <> -1
    ), alike_reserved AS MATERIALIZED (
        SELECT t.name AS type_name, r.bucket_type, r.bucket_value
          FROM claims.reservations r JOIN claims.bucket_types t ON r.bucket_type = t.id
         WHERE t.confusables = 'reject'
    ), looks AS MATERIALIZED (
        SELECT s.bucket_type, s.bucket_value, s.successor, s.reserved FROM claims.skeletons s
    )
    SELECT p.problem, c.lease_uuid, c.type_name, c.bucket_value, p.detail
      FROM leased c
      LEFT JOIN leases l ON l.uuid = c.lease_uuid
      LEFT JOIN held h ON h.lease_uuid = c.lease_uuid AND h.bucket_type = c.bucket_type AND h.bucket_value = c.bucket_value AND h.nth = 1
     CROSS JOIN LATERAL (
         SELECT 'status and lease do not agree', format('Status is %s, lease is %s.', c.status, coalesce(c.lease_uuid::text, 'null'))
          WHERE (c.lease_uuid IS NULL) <> (c.status = 1)
         UNION ALL
         SELECT 'claim is held by no outstanding lease of its cell',
                CASE WHEN l.uuid IS NULL THEN 'There is no such lease.'
                     ELSE format('The claim is cell %s''s, the lease cell %s''s.', c.creator_id, l.creator_id) END
          WHERE c.lease_uuid IS NOT NULL AND c.status <> 4 AND l.creator_id IS DISTINCT FROM c.creator_id
         UNION ALL
         SELECT 'claim is held by no open transfer from its cell', format('The claim is cell %s''s.', c.creator_id)
          WHERE c.status = 4 AND c.lease_uuid IS NOT NULL
            AND NOT EXISTS (SELECT FROM transfers t
                             WHERE t.transfer_uuid = c.lease_uuid AND t.from_cell = c.creator_id AND t.ended_at IS NULL)
         UNION ALL
         SELECT 'claim is not in the payload of its lease', format('Status is %s.', c.status)
          WHERE l.uuid IS NOT NULL AND c.status <> 4 AND h.status IS DISTINCT FROM c.status
         UNION ALL
         SELECT 'claim is not what the payload of its lease says',
                format('It is %s of %s; the payload says %s of %s.', c.subject, c.source, coalesce(h.subject, 'any'), coalesce(h.source, 'any'))
          WHERE c.subject <> h.subject OR c.source <> h.source
         UNION ALL
         SELECT 'claim is dated in the future', format('Created at %s, updated at %s.', c.created_at, c.updated_at)
          WHERE c.created_at > $1 OR c.updated_at > $1
         LIMIT 1) AS p (problem, detail)
    UNION ALL
    SELECT 'lease does not hold a claim of its payload', h.lease_uuid, h.type_name, h.bucket_value,
           CASE WHEN c.status IS NULL THEN 'There is no such claim.'
                ELSE format('The claim''s status is %s, its lease %s.', c.status, coalesce(c.lease_uuid::text, 'null')) END
      FROM held h
      LEFT JOIN standing c ON c.bucket_type = h.bucket_type AND c.bucket_value = h.bucket_value
     WHERE h.nth = 1 AND c.lease_uuid IS DISTINCT FROM h.lease_uuid
       AND (c.status IS NULL OR (c.lease_uuid IS NULL) = (c.status = 1))
    UNION ALL
    SELECT 'payload of a lease names a bucket twice', h.lease_uuid, h.type_name, h.bucket_value, 'It may stand once in each list.'
      FROM named h WHERE h.nth = 2
    UNION ALL
    SELECT 'payload of a lease names no claims', l.uuid, NULL, NULL, left(l.payload::text, 200)
      FROM leases l WHERE NOT EXISTS (SELECT FROM held h WHERE h.lease_uuid = l.uuid)
    UNION ALL
    SELECT 'lease is outstanding and settled', l.uuid, NULL, NULL, format('Its outcome is %s.', l.outcome)
      FROM leases l WHERE l.outcome IS NOT NULL
    UNION ALL
    SELECT 'lease is dated in the future', l.uuid, NULL, NULL, format('Created at %s, updated at %s.', l.created_at, l.updated_at)
      FROM leases l WHERE l.created_at > $1 OR l.updated_at > $1
    UNION ALL
    SELECT 'outcome is dated in the future', o.lease_uuid, NULL, NULL, format('Settled at %s.', o.settled_at) FROM late_outcomes o
    UNION ALL
    SELECT 'transfer does not hold the claims that it counts', t.transfer_uuid, NULL, NULL,
           format('It counts %s, there are %s.', t.held, coalesce(n.found, 0))
      FROM transfers t
      LEFT JOIN held_by_transfers n ON n.lease_uuid = t.transfer_uuid AND n.creator_id = t.from_cell
     WHERE t.ended_at IS NULL AND coalesce(n.found, 0) <> t.held
    UNION ALL
    SELECT 'transfer and its state do not agree', t.transfer_uuid, NULL, NULL,
           format('It is %s, at cell %s, and counts %s claims.', t.state, t.cell_id, t.held)
      FROM transfers t
     WHERE t.cell_id NOT IN (t.from_cell, t.to_cell)
        OR t.state = 'switched' AND t.cell_id <> t.to_cell
        OR t.state IN ('preparing', 'prepared', 'cancelled') AND t.cell_id <> t.from_cell
        OR (t.state IN ('finished', 'cancelled')) <> (t.ended_at IS NOT NULL)
        OR t.ended_at IS NOT NULL AND t.held <> 0
    UNION ALL
    SELECT 'transfer is dated in the future', t.transfer_uuid, NULL, NULL, format('Created at %s, updated at %s.', t.created_at, t.updated_at)
      FROM transfers t WHERE t.created_at > $1 OR t.updated_at > $1
    UNION ALL
    SELECT 'transfer of a cell that is not registered', t.transfer_uuid, NULL, NULL, format('It is from cell %s to cell %s.', t.from_cell, t.to_cell)
      FROM transfers t
     WHERE t.ended_at IS NULL AND (t.from_cell NOT IN (SELECT c.cell_id FROM cells c) OR t.to_cell NOT IN (SELECT c.cell_id FROM cells c))
    UNION ALL
    SELECT 'lease of a cell that is not registered', l.uuid, NULL, NULL, format('It is cell %s''s.', l.creator_id)
      FROM leases l WHERE l.creator_id NOT IN (SELECT c.cell_id FROM cells c)
    UNION ALL
    SELECT 'claims of a cell that is not registered', NULL, NULL, NULL, format('Cell %s has %s claims.', o.creator_id, o.claims)
      FROM owners o WHERE o.creator_id <> -1 AND o.creator_id NOT IN (SELECT c.cell_id FROM cells c)
    UNION ALL
    SELECT 'reserved name is not held', NULL,
           coalesce((SELECT t.shown FROM types t WHERE t.kind = 'bucket' AND t.id = r.bucket_type LIMIT 1), r.bucket_type::text),
           r.bucket_value, 'There is no such claim of nobody.'
      FROM reserved r WHERE NOT r.is_held
    UNION ALL
    SELECT 'name is held by nobody and not reserved', NULL,
           coalesce((SELECT t.shown FROM types t WHERE t.kind = 'bucket' AND t.id = n.bucket_type LIMIT 1), n.bucket_type::text),
           n.bucket_value, format('Its uuid is %s.', n.uuid)
      FROM nobodys n WHERE NOT n.is_reserved
    UNION ALL
    SELECT 'claim has no look', NULL, a.type_name, a.bucket_value, 'A name that looks like it could be claimed.'
      FROM alike a
     WHERE NOT EXISTS (SELECT FROM looks s WHERE s.bucket_type = a.bucket_type AND s.bucket_value = a.bucket_value AND s.reserved = '')
       AND NOT EXISTS (SELECT FROM looks s WHERE s.bucket_type = a.bucket_type AND s.successor = a.bucket_value)
    UNION ALL
    SELECT 'reserved name has no look', NULL, a.type_name, a.bucket_value, 'A name that looks like it could be claimed.'
      FROM alike_reserved a
     WHERE NOT EXISTS (SELECT FROM looks s WHERE s.bucket_type = a.bucket_type AND s.reserved = a.bucket_value)
    UNION ALL
    SELECT 'look is of a name that is not reserved', NULL,
           coalesce((SELECT t.shown FROM types t WHERE t.kind = 'bucket' AND t.id = s.bucket_type LIMIT 1), s.bucket_type::text),
           s.reserved, 'No name that looks like it can be claimed.'
      FROM looks s
     WHERE s.reserved <> '' AND NOT EXISTS (SELECT FROM reserved r WHERE r.bucket_type = s.bucket_type AND r.bucket_value = s.reserved)
    $query$ USING clock_timestamp() + interval '1 minute';
    EXECUTE 'SELECT array_agg(c.cell_id ORDER BY c.cell_id), array_agg(c.role_name::text ORDER BY c.cell_id) FROM claims.cells c'
       INTO cell_ids, roles;
    RETURN QUERY
    SELECT 'role of a cell does not exist', NULL::uuid, NULL::text, NULL::text,
           format('Cell %s belongs to role %s.', c.cell_id, coalesce(c.role, 'null'))
      FROM unnest(cell_ids, roles) AS c (cell_id, role) WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = c.role);
    -- Citus creates the extension on a new node as its own superuser. Nodes that do not answer are skipped.
    RETURN QUERY EXECUTE $query$
    WITH owners AS MATERIALIZED (
        SELECT n.groupid, n.nodename, n.nodeport, r.result AS owner
          FROM run_command_on_all_nodes($command$SELECT r.rolname FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
                                           WHERE n.nspname = 'claims'$command$) r
          JOIN pg_dist_node n USING (nodeid)
         WHERE r.success AND r.result <> ''
    )
    SELECT 'objects on a node belong to another role', NULL::uuid, NULL::text, NULL::text,
           format('On node %s:%s they belong to %s, on the coordinator to %s.', o.nodename, o.nodeport, o.owner, c.owner)
      FROM owners o JOIN owners c ON c.groupid = 0 AND c.owner <> o.owner
    $query$;
END $$;

-- The change feed on distributed tables: functions of the node that keeps it.

CREATE FUNCTION claims."take_change_places"("row_count" INT) RETURNS bigint[]
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'take_change_places_wrapper';
CREATE FUNCTION claims."change_node"() RETURNS INT
STRICT STABLE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'change_node_wrapper';
-- The counter of begins of cells that have a limit of begins per second.
CREATE FUNCTION claims."keep_pace"("cell_id" bigint, "per_second" INT) RETURNS bigint
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'keep_pace_wrapper';

-- The lock of a change of profile against writers of names.

-- A profile changes only while no transaction writes names of a type whose profile can change.

-- On distributed tables the statement that changes the row fires the trigger on every node, in the same transaction. So each node
-- keeps the lock until the change is committed there, also if the node restarts meanwhile.
CREATE FUNCTION claims.hold_naming() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'hold_naming_wrapper';

CREATE TRIGGER hold_naming BEFORE UPDATE OF profile, confusables ON claims.bucket_types
    FOR EACH STATEMENT EXECUTE FUNCTION claims.hold_naming();
ALTER TABLE claims.bucket_types ENABLE ALWAYS TRIGGER hold_naming;

-- Functions that statements on distributed tables call on a node.

CREATE FUNCTION claims."create_on_node"(
	"anchor" TEXT,
	"anchors" TEXT[],
	"parts" INT[],
	"shards" bigint[],
	"lease_uuid" uuid,
	"cell_id" bigint,
	"made_at" timestamp with time zone,
	"uuids" uuid[],
	"bucket_types" INT[],
	"bucket_values" TEXT[],
	"subject_types" INT[],
	"subject_ids" TEXT[],
	"source_types" INT[],
	"source_ids" TEXT[],
	"display_values" TEXT[]
) RETURNS INT
IMMUTABLE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'create_on_node_wrapper';
CREATE FUNCTION claims."settle_on_node"(
	"anchor_type" INT,
	"anchor_value" TEXT,
	"anchor_types" INT[],
	"anchor_values" TEXT[],
	"parts" INT[],
	"shards" bigint[],
	"leases" uuid[],
	"bucket_types" INT[],
	"bucket_values" TEXT[],
	"status" smallint,
	"settled_at" timestamp with time zone
) RETURNS INT
IMMUTABLE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'settle_on_node_wrapper';
CREATE FUNCTION claims."put_outcome_on_node"(
	"lease_uuid" uuid,
	"cell_id" bigint,
	"request_digest" bytea,
	"shard" bigint,
	"outcome" TEXT,
	"settled_at" timestamp with time zone
) RETURNS bool
IMMUTABLE
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'put_outcome_on_node_wrapper';

-- part 40-cell-client.sql
-- The way from a cell to the service.

CREATE FUNCTION claims.service_validator("options" TEXT[], "catalog" oid) RETURNS VOID
    LANGUAGE c SET search_path TO pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'service_validator_wrapper';
CREATE FOREIGN DATA WRAPPER claims_service NO HANDLER VALIDATOR claims.service_validator;

CREATE FUNCTION claims.service_states() RETURNS TABLE (
    "service" TEXT, "breaker" TEXT, "failures" INT, "last_error" TEXT, "since" timestamp with time zone, "next_try" timestamp with time zone)
    LANGUAGE c STRICT SECURITY DEFINER SET search_path TO pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'service_states_wrapper';
CREATE VIEW claims.service_state AS
    SELECT s.service, s.breaker, s.failures, s.last_error, s.since, s.next_try FROM claims.service_states() s;
INSERT INTO claims.audiences (function_name, audience) VALUES ('service_states', 'cell');

-- part 41-leases.sql
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

-- part 43-discrepancies.sql
-- Discrepancies by name.

CREATE FUNCTION claims."list_discrepancies"("cell_id" bigint, "service" TEXT, "source_type" TEXT, "after" TEXT DEFAULT NULL, "max_results" INT DEFAULT 100, "recent" interval DEFAULT '1 hour') RETURNS TABLE ("discrepancy" TEXT, "bucket_type" TEXT, "bucket_value" TEXT, "source_id" TEXT, "holder_cell_id" bigint, "outcome" TEXT, "cursor" TEXT)
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'list_discrepancies_wrapper';
-- Discrepancies by name.

INSERT INTO claims.audiences (function_name, audience) VALUES ('list_discrepancies', 'cell');

-- part 45-capture.sql
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

-- part 46-services.sql
-- Services are named: the extension calls servers of postgres_fdw and dblink_fdw only if an administrator has named them.

-- Services of other wrappers: their servers exist for other purposes, too, so an administrator names a server before the extension calls it.

CREATE TABLE claims.named_services (
    server_name name        NOT NULL PRIMARY KEY,
    reason      text,
    since       timestamptz NOT NULL DEFAULT clock_timestamp(),
    role        name        NOT NULL
);


SELECT pg_catalog.pg_extension_config_dump('claims.named_services', '');
CREATE FUNCTION claims.add_service(server_name name, reason text) RETURNS void
    LANGUAGE c SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'add_service_wrapper';
CREATE FUNCTION claims.remove_service(server_name name, reason text) RETURNS void
    LANGUAGE c SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'remove_service_wrapper';
DROP FUNCTION claims.require_service(text);

-- The server of automatic mode stays a service.
INSERT INTO claims.named_services (server_name, role)
SELECT s.srvname, current_user
  FROM pg_catalog.pg_foreign_server s JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
 WHERE w.fdwname IN ('postgres_fdw', 'dblink_fdw') AND s.srvname::text IN (SELECT a.service FROM claims.automatic_service a);

-- part 47-worker.sql
-- The log of passes, and the cells that the background worker attends to.

-- The log of passes: recovery, verification and purging.

CREATE TABLE claims.pass_log (
    id          uuid        NOT NULL PRIMARY KEY,
    kind        text        COLLATE "C" NOT NULL,
    cell_id     bigint,
    source_type text        COLLATE "C",
    started_at  timestamptz NOT NULL,
    ended_at    timestamptz NOT NULL,
    counts      jsonb,
    sqlstate    text,
    message     text
);
CREATE INDEX pass_log_kind ON claims.pass_log (kind, id);

CREATE VIEW claims.passes AS
    SELECT p.kind, p.cell_id, p.source_type, p.started_at, p.ended_at, p.counts, p.sqlstate, p.message
      FROM claims.pass_log p;

SELECT pg_catalog.pg_extension_config_dump('claims.pass_log', 'WHERE false');
-- The cells that the background worker attends to.

CREATE TABLE claims.attended_cells (
    cell_id bigint NOT NULL PRIMARY KEY,
    service text   NOT NULL
);

INSERT INTO claims.audiences (function_name, audience) VALUES ('attend', 'cell');


SELECT pg_catalog.pg_extension_config_dump('claims.attended_cells', '');
CREATE FUNCTION claims.attend(cell_id bigint, service text) RETURNS void
    LANGUAGE c SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'attend_wrapper';
-- Turning automatic mode on and off.

CREATE OR REPLACE FUNCTION claims.automatic(cell_id bigint, service text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    IF (cell_id IS NULL) <> (service IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'cell_id and service must be given both, or be both null',
            HINT = 'automatic(NULL, NULL) turns automatic mode off.';
    END IF;
    -- The caller needs rights for the cell whose automatic mode is on, and for the one whose it will be.
    IF EXISTS (SELECT FROM claims.automatic_service a JOIN claims.cells c ON c.cell_id = a.cell_id) THEN
        PERFORM claims.require_cell(a.cell_id) FROM claims.automatic_service a;
    ELSIF EXISTS (SELECT FROM claims.automatic_service) THEN
        PERFORM claims.require_admin();
    END IF;
    IF cell_id IS NULL THEN
        DELETE FROM claims.automatic_service;
        RETURN;
    END IF;
    -- Raises unless the caller may act for the cell, and may have this server called.
    PERFORM claims.attend(cell_id, service);
    INSERT INTO claims.automatic_service AS a (cell_id, service) VALUES (cell_id, service)
        ON CONFLICT (single) DO UPDATE SET cell_id = excluded.cell_id, service = excluded.service;
END $$;

-- part 48-holds.sql
-- The shorter holds: the result of a take is bounded, and tables are captured in Rust.

CREATE OR REPLACE FUNCTION claims."capture_requests"("table_name" regclass, "queue" TEXT, "entity_column" name) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'capture_requests_wrapper';
CREATE OR REPLACE FUNCTION claims."uncapture_requests"("table_name" regclass, "queue" TEXT) RETURNS VOID
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'uncapture_requests_wrapper';
DROP FUNCTION claims.require_role(oid);

-- part 49-metrics.sql
-- Metrics.

CREATE FUNCTION claims."counters"() RETURNS TABLE ("name" TEXT, "labels" jsonb, "value" double precision)
STRICT STABLE SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'read_counters_wrapper';
CREATE FUNCTION claims."note_check"("problems" bigint, "future" bigint) RETURNS VOID
STRICT STABLE
LANGUAGE c
AS 'MODULE_PATHNAME', 'note_check_wrapper';
-- metrics() for distributed tables: each node returns its own values, and one node combines them.

-- Values that are added up have the names of claims.metrics(); values that are not a metric by themselves have names that begin with
-- a minus.
CREATE FUNCTION claims.node_metrics(asking_node int, asking_pid int) RETURNS TABLE (name text, labels jsonb, value double precision)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET max_parallel_workers_per_gather = 0
    -- Shards are in the catalogs.
    SET citus.override_table_visibility = off
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := clock_timestamp();
    here oid := (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
    asks_itself boolean;
    shards text := 'SELECT to_regclass(format(''claims.%I'', c.relname || ''_'' || s.shardid)) AS shard, c.relname FROM pg_dist_shard s
                      JOIN pg_class c ON c.oid = s.logicalrelid JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_local_group g USING (groupid)
                     WHERE c.relnamespace = ''claims''::regnamespace AND c.relname = ANY ($1)';
    shard regclass;
    cells bigint[];
BEGIN
    PERFORM claims.require_own_tables();
    cells := ARRAY(SELECT c.cell_id FROM claims.cells c);
    EXECUTE 'SELECT g.groupid = $1 FROM pg_dist_local_group g' INTO asks_itself USING asking_node;

    FOR shard IN EXECUTE shards USING '{claim_leases}'::text[] LOOP
        RETURN QUERY EXECUTE format($query$
        WITH RECURSIVE hop AS (
            (SELECT l.creator_id FROM %1$s l ORDER BY l.creator_id, l.created_at LIMIT 1)
            UNION ALL
            SELECT (SELECT l.creator_id FROM %1$s l WHERE l.creator_id > hop.creator_id ORDER BY l.creator_id, l.created_at LIMIT 1)
              FROM hop WHERE hop.creator_id IS NOT NULL)
        SELECT m.name, jsonb_build_object('cell', h.creator_id::text), m.value::float8
          FROM hop h
         CROSS JOIN LATERAL (SELECT count(*) AS leases, min(o.created_at) AS oldest
                               FROM (SELECT l.created_at FROM %1$s l WHERE l.creator_id = h.creator_id
                                      ORDER BY l.creator_id, l.created_at LIMIT 10000) o) l
         CROSS JOIN LATERAL (SELECT count(*) AS future
                               FROM (SELECT FROM %1$s l
                                      WHERE l.creator_id = h.creator_id AND l.created_at > $1 + interval '1 minute' LIMIT 10000) n) f
         CROSS JOIN LATERAL (VALUES ('claims_leases', l.leases), ('claims_future_leases', f.future),
                                    ('claims_oldest_lease_age_seconds', greatest(extract(epoch FROM $1 - l.oldest), 0))) AS m (name, value)
         WHERE h.creator_id IS NOT NULL $query$, shard) USING now;
    END LOOP;

    -- Estimated as the planner does. Cells that are not common values in a shard share the remainder equally.
    FOR shard IN EXECUTE shards USING '{claims}'::text[] LOOP
        RETURN QUERY
        WITH size AS MATERIALIZED (
            SELECT CASE WHEN c.relpages > 0 THEN c.reltuples / c.relpages * (pg_relation_size(c.oid) / current_setting('block_size')::float8)
                   ELSE c.reltuples END AS rows
              FROM pg_class c WHERE c.oid = shard AND c.reltuples >= 0),
        stats AS MATERIALIZED (
            SELECT s.rows, coalesce(p.most_common_vals::text::bigint[], '{}') AS common, coalesce(p.most_common_freqs, '{}') AS shares
              FROM size s LEFT JOIN (SELECT p.most_common_vals, p.most_common_freqs
                                       FROM pg_stats p JOIN pg_class c ON c.oid = shard AND c.relname = p.tablename
                                      WHERE p.schemaname = 'claims' AND p.attname = 'creator_id' AND NOT p.inherited) p ON true),
        rest AS MATERIALIZED (
            SELECT greatest(1 - (SELECT coalesce(sum(f.f), 0) FROM unnest(s.shares) AS f (f)), 0)
                   / nullif((SELECT count(*) FROM unnest(cells) AS c (cell_id) WHERE c.cell_id <> ALL (s.common)), 0) AS share
              FROM stats s)
        SELECT 'claims_claims', jsonb_build_object('cell', c.cell_id::text),
               (s.rows * coalesce(s.shares[array_position(s.common, c.cell_id)], r.share, 0))::float8
          FROM stats s CROSS JOIN rest r CROSS JOIN unnest(cells) AS c (cell_id);
    END LOOP;

    RETURN QUERY SELECT c.name, c.labels, c.value FROM claims.counters() c;

    RETURN QUERY EXECUTE format($query$
    SELECT m.name, jsonb_build_object('table', t.relname), sum(m.value)::float8
      FROM (SELECT s.relname, s.shard FROM (%s) s
            UNION ALL
            SELECT c.relname, c.oid FROM pg_class c WHERE c.relnamespace = 'claims'::regnamespace AND c.relname IN ('pass_log', 'admin_log')) t
      JOIN pg_class c ON c.oid = t.shard
     CROSS JOIN LATERAL (VALUES ('claims_table_bytes', pg_total_relation_size(c.oid)::float8),
                                ('claims_table_rows', CASE WHEN c.reltuples >= 0 THEN c.reltuples::float8 END)) AS m (name, value)
     WHERE m.value IS NOT NULL
     GROUP BY m.name, t.relname $query$, shards) USING '{claims,claim_leases,lease_outcomes,change_sets}'::text[];

    -- The oldest snapshot of this node. The session that asks does not count.
    RETURN QUERY
    WITH holders AS (
        SELECT 'session' AS holder, a.pid::text AS pid, a.usename::text AS usename, nullif(a.application_name, '') AS name, a.xact_start AS since,
               greatest(age(a.backend_xid), age(a.backend_xmin)) AS transactions
          FROM pg_stat_activity a
         WHERE a.pid <> pg_backend_pid() AND NOT (asks_itself AND a.pid = asking_pid)
           AND (a.datid = here OR a.datid IS NULL) AND coalesce(a.backend_xid, a.backend_xmin) IS NOT NULL AND a.backend_type <> 'autovacuum worker'
        UNION ALL
        SELECT 'prepared transaction', NULL, p.owner::text, p.gid, p.prepared, age(p.transaction) FROM pg_prepared_xacts p
         WHERE p.database = current_database()
        UNION ALL
        SELECT 'replication slot', s.active_pid::text, NULL, s.slot_name::text, NULL, age(s.xmin) FROM pg_replication_slots s
         WHERE s.xmin IS NOT NULL)
    (SELECT '-oldest snapshot', jsonb_build_object('holder', h.holder, 'pid', h.pid, 'usename', h.usename, 'name', h.name,
                                                 'transactions', h.transactions),
            greatest(extract(epoch FROM now - h.since), 0)::float8
       FROM holders h ORDER BY h.transactions DESC, h.since LIMIT 1);

    RETURN QUERY
    SELECT '-pass', jsonb_build_object('kind', p.kind, 'cell', p.cell_id::text, 'source_type', p.source_type, 'last', p.last,
                                       'last_good', p.last_good,
                                       'age', greatest(extract(epoch FROM now - l.ended_at), 0),
                                       'took', greatest(extract(epoch FROM l.ended_at - l.started_at), 0),
                                       'counts', l.counts), NULL::float8
      FROM (SELECT p.kind, p.cell_id, p.source_type, max(p.id::text) AS last, max(p.id::text) FILTER (WHERE p.sqlstate IS NULL) AS last_good
              FROM claims.pass_log p GROUP BY p.kind, p.cell_id, p.source_type) p
      LEFT JOIN LATERAL (SELECT l.ended_at, l.started_at, l.counts FROM claims.pass_log l WHERE l.id = p.last_good::uuid OFFSET 0) l ON true;
END $$;

CREATE FUNCTION claims.distributed_metrics() RETURNS TABLE (name text, labels jsonb, value double precision)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    -- A node that is down must not delay the answers of the others.
    SET citus.node_connection_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
    answers jsonb;
    cells bigint[];
    transfers jsonb;
BEGIN
    cells := ARRAY(SELECT c.cell_id FROM claims.cells c ORDER BY c.cell_id);
    SELECT coalesce(jsonb_object_agg(t.state, jsonb_build_object('transfers', t.transfers, 'held', t.held, 'age', t.age)), '{}') INTO transfers
      FROM (SELECT t.state, count(*) AS transfers, sum(t.held) AS held, greatest(extract(epoch FROM clock_timestamp() - min(t.created_at)), 0) AS age
              FROM claims.cell_transfers t WHERE t.ended_at IS NULL GROUP BY t.state) t;
    EXECUTE $query$
    SELECT coalesce(jsonb_agg(jsonb_build_object('node', format('%s:%s', n.nodename, n.nodeport), 'is_up', r.success, 'samples',
           CASE WHEN r.success THEN coalesce(r.result::jsonb, '[]') ELSE '[]' END)), '[]')
      FROM run_command_on_all_nodes(format('SELECT jsonb_agg(m) FROM claims.node_metrics(%s, %s) m',
                                           (SELECT g.groupid FROM pg_dist_local_group g), pg_backend_pid())) r
      JOIN pg_dist_node n ON n.nodeid = r.nodeid $query$ INTO answers;

    RETURN QUERY
    SELECT 'claims_info', jsonb_build_object('library', v.library, 'extension', v.extension, 'protocol', v.protocol::text, 'unicode', v.unicode),
           1.0::float8
      FROM claims.version() v;
    RETURN QUERY SELECT 'claims_time_seconds', '{}'::jsonb, extract(epoch FROM clock_timestamp())::float8;
    RETURN QUERY
    SELECT 'claims_mode', jsonb_strip_nulls(jsonb_build_object('cell', nullif(m.cell_id, -1)::text, 'mode', m.mode)), 1::float8
      FROM claims.mode_settings m WHERE m.mode <> 'open';
    RETURN QUERY
    SELECT m.name, jsonb_build_object('state', s.state), coalesce((transfers -> s.state ->> m.field)::float8, 0)
      FROM (VALUES ('preparing'), ('prepared'), ('switched'), ('finishing')) AS s (state)
     CROSS JOIN (VALUES ('claims_transfers', 'transfers'), ('claims_transfer_claims', 'held'), ('claims_oldest_transfer_age_seconds', 'age'))
         AS m (name, field);
    RETURN QUERY
    SELECT 'claims_node_up', jsonb_build_object('node', a.node), a.is_up::int::float8
      FROM jsonb_to_recordset(answers) AS a (node text, is_up boolean);

    RETURN QUERY
    WITH sample AS MATERIALIZED (
        SELECT a.node, s.name, s.labels, s.value
          FROM jsonb_to_recordset(answers) AS a (node text, samples jsonb)
         CROSS JOIN LATERAL jsonb_to_recordset(a.samples) AS s (name text, labels jsonb, value float8)),
    -- Registered cells without leases have the value 0.
    given AS MATERIALIZED (
        SELECT s.name, s.labels, s.value FROM sample s
        UNION ALL
        SELECT m.name, jsonb_build_object('cell', c.cell_id::text), 0
          FROM unnest(cells) AS c (cell_id) CROSS JOIN (VALUES ('claims_leases'), ('claims_future_leases'), ('claims_oldest_lease_age_seconds'))
              AS m (name)),
    snapshot AS MATERIALIZED (
        SELECT jsonb_strip_nulls(s.labels - 'transactions' || jsonb_build_object('node', s.node)) AS labels,
               (s.labels ->> 'transactions')::float8 AS transactions, s.value AS age
          FROM sample s WHERE s.name = '-oldest snapshot' ORDER BY s.value DESC NULLS LAST, (s.labels ->> 'transactions')::bigint DESC LIMIT 1),
    pass AS MATERIALIZED (
        SELECT jsonb_strip_nulls(s.labels - '{last,last_good,age,took,counts}'::text[]) AS labels, s.labels AS last,
               -- Ids are in the order in which passes ended, on all nodes.
               row_number() OVER (PARTITION BY s.labels - '{last,last_good,age,took,counts}'::text[]
                   ORDER BY s.labels ->> 'last_good' DESC NULLS LAST) AS nth,
               max(s.labels ->> 'last') OVER (PARTITION BY s.labels - '{last,last_good,age,took,counts}'::text[]) AS last_of_all
          FROM sample s WHERE s.name = '-pass'),
    good AS MATERIALIZED (SELECT p.labels, p.last, p.last_of_all IS DISTINCT FROM p.last ->> 'last_good' AS failed FROM pass p WHERE p.nth = 1)
    SELECT g.name, g.labels, CASE g.name WHEN 'claims_oldest_lease_age_seconds' THEN max(g.value)
           WHEN 'claims_claims' THEN round(sum(g.value)) ELSE sum(g.value) END
      FROM given g
     WHERE g.name NOT LIKE '-%' AND g.name NOT LIKE 'claims_check_%'
     GROUP BY g.name, g.labels
    UNION ALL
    -- The last check() on any node.
    SELECT c.name, c.labels, c.value
      FROM sample c
     WHERE c.name LIKE 'claims_check_%'
       AND c.node = (SELECT a.node FROM sample a WHERE a.name = 'claims_check_age_seconds' ORDER BY a.value LIMIT 1)
    UNION ALL
    SELECT 'claims_oldest_snapshot_transactions', s.labels, s.transactions FROM snapshot s
    UNION ALL
    SELECT 'claims_oldest_snapshot_age_seconds', s.labels, s.age FROM snapshot s WHERE s.age IS NOT NULL
    UNION ALL
    SELECT 'claims_pass_failed', g.labels, g.failed::int FROM good g
    UNION ALL
    SELECT 'claims_pass_age_seconds', g.labels, (g.last ->> 'age')::float8 FROM good g WHERE g.last ->> 'age' IS NOT NULL
    UNION ALL
    SELECT 'claims_pass_duration_seconds', g.labels, (g.last ->> 'took')::float8 FROM good g WHERE g.last ->> 'took' IS NOT NULL
    UNION ALL
    SELECT 'claims_pass_count', g.labels || jsonb_build_object('count', c.key), c.value::float8
      FROM good g CROSS JOIN LATERAL jsonb_each_text(g.last -> 'counts') c
     WHERE jsonb_typeof(g.last -> 'counts') = 'object' AND jsonb_typeof(g.last -> 'counts' -> c.key) = 'number';
END $$;
-- Metrics of both sides, named as in OpenMetrics. Their cost is bounded: large numbers are estimated, or counted up to 10,000.

CREATE FUNCTION claims.metrics() RETURNS TABLE (name text, labels jsonb, value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    -- A plan made while a table is empty must not read the whole table later. In look-ups of one row by another, OFFSET 0 prevents
    -- other joins than by the index.
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := clock_timestamp();
    here oid := (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
BEGIN
    PERFORM claims.require_own_tables();
    IF (SELECT v.distributed FROM claims.version() v) THEN
        RETURN QUERY SELECT d.name, d.labels, d.value FROM claims.distributed_metrics() d;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 'claims_info', jsonb_build_object('library', v.library, 'extension', v.extension, 'protocol', v.protocol::text, 'unicode', v.unicode),
           1.0::float8
      FROM claims.version() v;
    -- An exporter that repeats old values repeats this one, too.
    RETURN QUERY SELECT 'claims_time_seconds', '{}'::jsonb, extract(epoch FROM now)::float8;

    -- At the service: leases by cell, also of cells that are not registered. The age is 0 if there are none.
    RETURN QUERY
    WITH RECURSIVE hop AS (
        (SELECT l.creator_id FROM claims.claim_leases l ORDER BY l.creator_id, l.created_at LIMIT 1)
        UNION ALL
        SELECT (SELECT l.creator_id FROM claims.claim_leases l WHERE l.creator_id > hop.creator_id ORDER BY l.creator_id, l.created_at LIMIT 1)
          FROM hop WHERE hop.creator_id IS NOT NULL),
    cell AS MATERIALIZED (
        SELECT c.cell_id FROM claims.cells c UNION SELECT hop.creator_id FROM hop WHERE hop.creator_id IS NOT NULL),
    found AS MATERIALIZED (
        SELECT c.cell_id, l.leases, l.oldest, f.future
          FROM cell c
         CROSS JOIN LATERAL (SELECT count(*) AS leases, min(o.created_at) AS oldest
                               FROM (SELECT l.created_at FROM claims.claim_leases l WHERE l.creator_id = c.cell_id
                                      ORDER BY l.creator_id, l.created_at LIMIT 10000) o) l
         CROSS JOIN LATERAL (SELECT count(*) AS future
                               FROM (SELECT FROM claims.claim_leases l
                                      WHERE l.creator_id = c.cell_id AND l.created_at > now + interval '1 minute' LIMIT 10000) n) f)
    SELECT m.name, jsonb_build_object('cell', f.cell_id::text), m.value::float8
      FROM found f
     CROSS JOIN LATERAL (VALUES ('claims_leases', f.leases), ('claims_future_leases', f.future),
                                ('claims_oldest_lease_age_seconds', greatest(extract(epoch FROM now - f.oldest), 0))) AS m (name, value)
     WHERE m.value IS NOT NULL;

    -- Claims by cell, estimated as the planner does: no row before the first ANALYZE.
    RETURN QUERY
    WITH size AS MATERIALIZED (
        SELECT CASE WHEN c.relpages > 0 THEN c.reltuples / c.relpages * (pg_relation_size(c.oid) / current_setting('block_size')::float8)
               ELSE c.reltuples END AS rows
          FROM pg_class c WHERE c.oid = 'claims.claims'::regclass AND c.reltuples >= 0),
    stats AS MATERIALIZED (
        SELECT s.rows, coalesce(p.most_common_vals::text::bigint[], '{}') AS common, coalesce(p.most_common_freqs, '{}') AS shares,
               CASE WHEN p.n_distinct < 0 THEN -p.n_distinct * s.rows ELSE p.n_distinct END AS cells
          FROM size s JOIN pg_stats p ON p.schemaname = 'claims' AND p.tablename = 'claims' AND p.attname = 'creator_id' AND NOT p.inherited)
    SELECT 'claims_claims', jsonb_build_object('cell', c.cell_id::text),
           round(s.rows * coalesce(s.shares[array_position(s.common, c.cell_id)],
                 -- Cells that are not common values share the remainder equally.
                 CASE WHEN s.cells > cardinality(s.common)
                      THEN greatest(1 - (SELECT coalesce(sum(f.f), 0) FROM unnest(s.shares) AS f (f)), 0) / (s.cells - cardinality(s.common))
                      ELSE 0 END))::float8
      FROM stats s CROSS JOIN claims.cells c;

    -- Counters in shared memory.
    RETURN QUERY SELECT c.name, c.labels, c.value FROM claims.counters() c;

    RETURN QUERY
    SELECT 'claims_mode', jsonb_strip_nulls(jsonb_build_object('cell', nullif(m.cell_id, -1)::text, 'mode', m.mode)), 1::float8
      FROM claims.mode_settings m WHERE m.mode <> 'open';

    -- Transfers that have not ended, by state. The age is 0 if there are none.
    RETURN QUERY
    SELECT m.name, jsonb_build_object('state', s.state), m.value::float8
      FROM (VALUES ('preparing'), ('prepared'), ('switched'), ('finishing')) AS s (state)
     CROSS JOIN LATERAL (SELECT count(*) AS transfers, coalesce(sum(t.held), 0) AS held, min(t.created_at) AS oldest
                           FROM claims.cell_transfers t WHERE t.ended_at IS NULL AND t.state = s.state) f
     CROSS JOIN LATERAL (VALUES ('claims_transfers', f.transfers), ('claims_transfer_claims', f.held),
                                ('claims_oldest_transfer_age_seconds', greatest(extract(epoch FROM now - f.oldest), 0))) AS m (name, value);

    -- Tables that grow.
    RETURN QUERY
    SELECT m.name, jsonb_build_object('table', t.relname), m.value::float8
      FROM (SELECT c.relname, sum(p.reltuples) FILTER (WHERE p.reltuples >= 0) AS rows, sum(pg_total_relation_size(p.oid)) AS bytes
              FROM pg_class c
              LEFT JOIN LATERAL pg_partition_tree(c.oid) part ON part.isleaf
              JOIN pg_class p ON p.oid = coalesce(part.relid, c.oid)
             WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind IN ('r', 'p')
               AND c.relname IN ('claims', 'claim_leases', 'lease_outcomes', 'change_sets', 'cells_outstanding_leases', 'requests',
                                 'expiring_claims', 'pass_log', 'admin_log')
             GROUP BY c.relname) t
     CROSS JOIN LATERAL (VALUES ('claims_table_bytes', t.bytes), ('claims_table_rows', t.rows)) AS m (name, value)
     WHERE m.value IS NOT NULL;

    -- The holders of old snapshots, which keep dead rows of this database from being removed, and so make reading slower. Only a
    -- superuser or a member of pg_read_all_stats sees other sessions; the extension's owner should be one.
    RETURN QUERY
    WITH holders AS (
        SELECT 'session' AS holder, a.pid::text AS pid, a.usename::text AS usename, nullif(a.application_name, '') AS name, a.xact_start AS since,
               greatest(age(a.backend_xid), age(a.backend_xmin)) AS transactions
          FROM pg_stat_activity a
         WHERE a.pid <> pg_backend_pid() AND (a.datid = here OR a.datid IS NULL) AND coalesce(a.backend_xid, a.backend_xmin) IS NOT NULL
           AND a.backend_type <> 'autovacuum worker'
        UNION ALL
        SELECT 'prepared transaction', NULL, p.owner::text, p.gid, p.prepared, age(p.transaction) FROM pg_prepared_xacts p
         WHERE p.database = current_database()
        UNION ALL
        SELECT 'replication slot', s.active_pid::text, NULL, s.slot_name::text, NULL, age(s.xmin) FROM pg_replication_slots s
         WHERE s.xmin IS NOT NULL),
    oldest AS (
        SELECT jsonb_strip_nulls(jsonb_build_object('holder', h.holder, 'pid', h.pid, 'usename', h.usename, 'name', h.name)) AS labels,
               h.since, h.transactions
          FROM holders h ORDER BY h.transactions DESC, h.since LIMIT 1)
    SELECT m.name, o.labels, m.value::float8
      FROM oldest o
     CROSS JOIN LATERAL (VALUES ('claims_oldest_snapshot_transactions', o.transactions::numeric),
                                ('claims_oldest_snapshot_age_seconds',
                                    CASE WHEN o.since IS NOT NULL THEN greatest(extract(epoch FROM now - o.since), 0) END)) AS m (name, value)
     WHERE m.value IS NOT NULL;

    -- In a cell.
    RETURN QUERY
    SELECT m.name, jsonb_strip_nulls(jsonb_build_object('cell', t.cell_id::text)), m.value::float8
      FROM (SELECT l.cell_id, count(l.uuid) AS leases, min(l.created_at) AS oldest
              FROM (SELECT l.cell_id, l.uuid, l.created_at FROM claims.cells_outstanding_leases l
                    UNION ALL SELECT c.cell_id, NULL, NULL FROM claims.cells c) l GROUP BY l.cell_id) t
     CROSS JOIN LATERAL (VALUES ('claims_tracked_leases', t.leases),
                                ('claims_oldest_tracked_lease_age_seconds', greatest(extract(epoch FROM now - t.oldest), 0))) AS m (name, value)
     WHERE m.value IS NOT NULL;

    RETURN QUERY
    SELECT 'claims_orphans', jsonb_build_object('cell', c.cell_id::text), count(t.uuid)::float8
      FROM (SELECT c.cell_id, NULL::uuid AS lease_uuid FROM claims.cells c
            UNION ALL SELECT o.cell_id, o.lease_uuid FROM claims.seen_orphans o) c
      LEFT JOIN LATERAL (SELECT t.uuid FROM claims.cells_outstanding_leases t WHERE t.uuid = c.lease_uuid OFFSET 0) t ON true
     GROUP BY c.cell_id;
    RETURN QUERY SELECT 'claims_lease_fences', '{}'::jsonb, count(*)::float8 FROM (SELECT FROM claims.lease_fences LIMIT 10000) f;

    -- For each kind of pass: whether the last one failed; and time and counts of the last one that did not.
    RETURN QUERY
    WITH pass AS MATERIALIZED (
        SELECT p.kind, p.cell_id, p.source_type, max(p.id::text) AS last, max(p.id::text) FILTER (WHERE p.sqlstate IS NULL) AS last_good
          FROM claims.pass_log p GROUP BY p.kind, p.cell_id, p.source_type),
    good AS MATERIALIZED (
        SELECT jsonb_strip_nulls(jsonb_build_object('kind', p.kind, 'cell', p.cell_id::text, 'source_type', p.source_type)) AS labels,
               p.last IS DISTINCT FROM p.last_good AS failed, l.ended_at, l.started_at, l.counts
          FROM pass p
          LEFT JOIN LATERAL (SELECT l.ended_at, l.started_at, l.counts FROM claims.pass_log l WHERE l.id = p.last_good::uuid OFFSET 0) l ON true)
    SELECT 'claims_pass_failed', g.labels, g.failed::int::float8 FROM good g
    UNION ALL
    SELECT 'claims_pass_age_seconds', g.labels, greatest(extract(epoch FROM now - g.ended_at), 0)::float8 FROM good g WHERE g.ended_at IS NOT NULL
    UNION ALL
    SELECT 'claims_pass_duration_seconds', g.labels, greatest(extract(epoch FROM g.ended_at - g.started_at), 0)::float8 FROM good g
     WHERE g.ended_at IS NOT NULL
    UNION ALL
    SELECT 'claims_pass_count', g.labels || jsonb_build_object('count', c.key), c.value::float8
      FROM good g CROSS JOIN LATERAL jsonb_each_text(g.counts) c WHERE jsonb_typeof(g.counts -> c.key) = 'number';

    -- A breaker belongs to the cells that use its service; if none is known, to all cells of this database.
    RETURN QUERY
    WITH used AS MATERIALIZED (
        SELECT a.cell_id, a.service FROM claims.attended_cells a UNION SELECT a.cell_id, a.service FROM claims.automatic_service a)
    SELECT m.name, jsonb_strip_nulls(jsonb_build_object('cell', c.cell_id::text, 'service', s.service, 'state', m.state)), m.value
      FROM claims.service_states() s
      LEFT JOIN LATERAL (SELECT u.cell_id FROM used u WHERE u.service = s.service
                         UNION ALL
                         SELECT c.cell_id FROM claims.cells c WHERE NOT EXISTS (SELECT FROM used u WHERE u.service = s.service)) c ON true
     CROSS JOIN LATERAL (VALUES ('claims_service_breaker', 'closed', (s.breaker = 'closed')::int::float8),
                                ('claims_service_breaker', 'open', (s.breaker = 'open')::int::float8),
                                ('claims_service_breaker', 'trying', (s.breaker = 'trying')::int::float8),
                                ('claims_service_failures', NULL, s.failures::float8)) AS m (name, state, value);

    -- Requests that are not complete, by queue. Complete ones are not counted.
    RETURN QUERY
    WITH RECURSIVE open AS (
        (SELECT r.queue FROM claims.requests r WHERE r.status IN ('new', 'in-progress') ORDER BY r.queue, r.entity, r.id LIMIT 1)
        UNION ALL
        SELECT (SELECT r.queue FROM claims.requests r WHERE r.status IN ('new', 'in-progress') AND r.queue > open.queue
                 ORDER BY r.queue, r.entity, r.id LIMIT 1)
          FROM open WHERE open.queue IS NOT NULL),
    failed AS (
        (SELECT r.queue FROM claims.requests r WHERE r.status = 'error' ORDER BY r.queue, r.entity, r.id LIMIT 1)
        UNION ALL
        SELECT (SELECT r.queue FROM claims.requests r WHERE r.status = 'error' AND r.queue > failed.queue ORDER BY r.queue, r.entity, r.id LIMIT 1)
          FROM failed WHERE failed.queue IS NOT NULL),
    queue AS MATERIALIZED (
        SELECT o.queue FROM open o WHERE o.queue IS NOT NULL UNION SELECT f.queue FROM failed f WHERE f.queue IS NOT NULL),
    found AS MATERIALIZED (
        SELECT q.queue, s.status, count(r.created_at) AS requests, min(r.created_at) AS oldest
          FROM queue q CROSS JOIN (VALUES ('new'), ('in-progress'), ('error')) AS s (status)
          LEFT JOIN LATERAL (
              (SELECT r.created_at, r.status FROM claims.requests r
                WHERE s.status <> 'error' AND r.queue = q.queue AND r.status IN ('new', 'in-progress') AND r.status = s.status LIMIT 10000)
              UNION ALL
              (SELECT r.created_at, r.status FROM claims.requests r
                WHERE s.status = 'error' AND r.queue = q.queue AND r.status = 'error' LIMIT 10000)) r ON true
         GROUP BY q.queue, s.status)
    SELECT m.name, jsonb_build_object('queue', f.queue, 'status', f.status), m.value::float8
      FROM found f
     CROSS JOIN LATERAL (VALUES ('claims_requests', f.requests::numeric),
                                ('claims_oldest_request_age_seconds', greatest(extract(epoch FROM now - f.oldest), 0))) AS m (name, value)
     WHERE m.value IS NOT NULL;

    -- Each shared verification has a kind of its own: they are counted together.
    RETURN QUERY
    SELECT 'claims_expiring_keys', jsonb_build_object('kind', k.kind, 'state', s.state), s.keys::float8
      FROM (SELECT CASE WHEN e.kind LIKE 'claims.verify %' THEN 'claims.verify' ELSE e.kind END AS kind,
                   count(*) FILTER (WHERE e.expires_at > now) AS held, count(*) AS keys
              FROM claims.expiring_claims e GROUP BY 1) k
     CROSS JOIN LATERAL (VALUES ('held', k.held), ('free', k.keys - k.held)) AS s (state, keys);
END $$;
INSERT INTO claims.audiences (function_name, audience) VALUES ('metrics', 'monitor');

-- part 50-replicas.sql
-- Reading from standbys.

CREATE FUNCTION claims."read_after"("lease_uuid" uuid, "timeout" interval DEFAULT '1 s') RETURNS bool
SECURITY DEFINER
SET search_path TO pg_catalog, pg_temp
LANGUAGE c
AS 'MODULE_PATHNAME', 'read_after_wrapper';
-- Reading from standbys.

INSERT INTO claims.audiences (function_name, audience) VALUES ('read_after', 'reader');

-- comments
DO $$
DECLARE
    other record;
BEGIN
    FOR other IN
        SELECT format('COLUMN %s.%I', a.attrelid::regclass, a.attname) AS what
          FROM pg_catalog.pg_class v JOIN pg_catalog.pg_attribute a ON a.attrelid = v.oid
         WHERE v.relnamespace = 'claims'::regnamespace AND v.relkind = 'v' AND a.attnum > 0
    LOOP
        EXECUTE format('COMMENT ON %s IS NULL', other.what);
    END LOOP;
END $$;
COMMENT ON TABLE claims.admin_log IS
    'Every admin action that was committed. Actions that were rolled back are only in the server''s log. Nothing deletes rows automatically.';
COMMENT ON COLUMN claims.admin_log.at IS 'When it was done (clock time).';
COMMENT ON COLUMN claims.admin_log.session_role IS 'Role that had logged in, by its name at that time.';
COMMENT ON COLUMN claims.admin_log.role IS 'Role that called, after SET ROLE, by its name at that time.';
COMMENT ON COLUMN claims.admin_log.action IS 'Name of the function.';
COMMENT ON COLUMN claims.admin_log.arguments IS 'Its arguments, by name.';
COMMENT ON COLUMN claims.admin_log.reason IS 'The reason that was given; NULL: the function takes none.';
COMMENT ON COLUMN claims.admin_log.counts IS 'Numbers of what it has changed; NULL: the function counts nothing.';
COMMENT ON COLUMN claims.admin_log.id IS 'A UUIDv7.';
COMMENT ON FUNCTION claims.automatic(bigint, text) IS
    'In a cell: from now on every transaction that changed claimed columns calls begin_pending(cell_id, service) when it is about to commit; both '
    'NULL: turns that off. The background worker attends to the cell from now on, also when automatic mode is turned off again: '
    'claims.attend(cell_id, NULL) ends that. For roles that may act for the cell. Locks the row of claims.automatic_service.';
COMMENT ON TABLE claims.claimed_attributes IS
    'In a cell: the columns whose values are claimed. Written by claims.claim_attribute() and claims.unclaim_attribute().';
COMMENT ON COLUMN claims.claimed_attributes.table_name IS 'The table.';
COMMENT ON COLUMN claims.claimed_attributes.attribute IS 'The column whose values, as text, are bucket values.';
COMMENT ON COLUMN claims.claimed_attributes.bucket_type IS 'Name of the bucket type.';
COMMENT ON COLUMN claims.claimed_attributes.subject_type IS 'Name of the subject type.';
COMMENT ON COLUMN claims.claimed_attributes.subject_key IS 'The column that holds the subject''s id.';
COMMENT ON COLUMN claims.claimed_attributes.source_type IS 'Name of the source type: the table''s name at the service.';
COMMENT ON COLUMN claims.claimed_attributes.source_key IS 'The column that holds the source''s id.';
COMMENT ON COLUMN claims.claimed_attributes.condition IS 'Condition for rows that are claimed, with qualified names; NULL: all rows.';
COMMENT ON VIEW claims.claimed_columns IS
    'In a cell: the columns whose values are claimed, as claims.claim_attribute() declared them. For the cell''s role, which has no privileges on '
    'the tables.';
COMMENT ON TABLE claims.automatic_service IS
    'In a cell: the service of automatic mode, one row, or none if it is off. Written by claims.automatic().';
COMMENT ON COLUMN claims.automatic_service.single IS 'Always true: there is at most one row.';
COMMENT ON COLUMN claims.automatic_service.cell_id IS 'The cell that owns the claims.';
COMMENT ON COLUMN claims.automatic_service.service IS 'Name of the foreign server that leads to the shared database.';
COMMENT ON TABLE claims.automatic_queue IS
    'Internal: makes PostgreSQL call a deferred trigger for SET CONSTRAINTS. Its rows are deleted in the same transaction.';
COMMENT ON COLUMN claims.automatic_queue.changes IS
    '0: queued at the first change. Otherwise the number of changes after which it was queued again, behind all other deferred triggers.';
COMMENT ON SEQUENCE claims.capture_left_out_missing IS 'In a cell: counts names that rows gave up although they were not claimed.';
COMMENT ON SEQUENCE claims.capture_left_out_not_owner IS 'In a cell: counts names that rows gave up although another cell owns them.';
COMMENT ON SEQUENCE claims.capture_left_out_other_source IS
    'In a cell: counts names that rows gave up although they were claimed for other rows or subjects.';
COMMENT ON SEQUENCE claims.capture_adopted IS 'In a cell: counts claims of this cell without a row that rows adopted.';
COMMENT ON TABLE claims.cells_outstanding_leases IS
    'The leases whose local transaction committed, until the service has confirmed their commit. Written by claims.track_lease() and '
    'claims.forget_leases().';
COMMENT ON COLUMN claims.cells_outstanding_leases.uuid IS
    'The lease. Tracking and fencing a lease both insert this key, so that one always meets the other.';
COMMENT ON COLUMN claims.cells_outstanding_leases.created_at IS 'When it was tracked (clock time).';
COMMENT ON COLUMN claims.cells_outstanding_leases.updated_at IS 'When the row last changed (clock time).';
COMMENT ON COLUMN claims.cells_outstanding_leases.cell_id IS
    'The cell that tracked it, if the call or the caller''s role determines it; only that cell and administrators can forget the lease. NULL: any '
    'cell can.';
COMMENT ON TABLE claims.lease_fences IS
    'The leases that recovery has given up: no local transaction can track them any more. Kept for claims.outcome_retention, and longer while a '
    'transaction older than the fence is open.';
COMMENT ON INDEX claims.lease_fences_fenced_at IS 'Finds the fences that claims.purge_fences() deletes, oldest first.';
COMMENT ON COLUMN claims.lease_fences.lease_uuid IS 'The lease.';
COMMENT ON COLUMN claims.lease_fences.fenced_at IS 'When it was fenced (clock time).';
COMMENT ON FUNCTION claims.track_lease(uuid) IS
    'In a cell: records, in the local transaction, that the lease commits if that transaction commits. Call it after begin_update at the service '
    'and before the local COMMIT. 55000 if recovery has given the lease up; 55P03 if another open transaction is tracking or fencing it. May be '
    'repeated. The commit is flushed to disk whatever synchronous_commit is. Locks the lease''s key; waits for claims.wait_timeout, but at least '
    '5 ms.';
COMMENT ON FUNCTION claims.forget_leases(uuid[]) IS
    'In a cell: deletes tracked leases, after the service has confirmed how they ended, and returns how many. Keeps those that another cell of '
    'this database has tracked. Locks their rows, skipping those that another session is forgetting.';
COMMENT ON FUNCTION claims.judge_leases(jsonb, interval) IS
    'In a cell: the verdict on leases that are outstanding at the service, an array of {"lease_uuid", "created_at", "cell_xid"} as list_leases '
    'returns them: commit (tracked here), rollback (it can never be tracked any more) or wait. A lease older than stale_after is fenced, and '
    'rolled back by a later call that finds the fence committed; if cell_xid is known, the state of that transaction decides, not the age. Locks '
    'the keys of the leases that it fences, in uuid order; waits at most claims.wait_timeout.';
COMMENT ON FUNCTION claims.purge_fences() IS
    'In a cell: deletes fences that are older than claims.outcome_retention and than every open transaction of this database, at most 10,000, and '
    'returns how many; administrators only. reconcile() does it too. Locks the rows it deletes, skipping locked ones.';
COMMENT ON FUNCTION claims.reconcile(bigint, text, interval, int) IS
    'In a cell: one pass of recovery; call it every minute. service is a foreign server that leads to the shared database. Settles there the '
    'leases that claims.judge_leases() decides, and forgets them here. Returns how many outstanding leases it saw, committed, rolled back and '
    'left pending, and how many tracked leases are orphans: saved here, but rolled back or unknown there (also a WARNING). 08001 if the service '
    'cannot be reached; then nothing is changed here. Locks what judge_leases and forget_leases lock.';
COMMENT ON FOREIGN DATA WRAPPER claims_service IS
    'In a cell: its servers lead to the shared database. Options are those of libpq; user and password are in the user mapping of the '
    'extension''s owner, or of PUBLIC.';
COMMENT ON FUNCTION claims.service_validator(text[], oid) IS 'Internal: validator of the foreign-data wrapper claims_service.';
COMMENT ON VIEW claims.service_state IS
    'In a cell: the services that were called, and whether calls of this session are made or fail at once. If the library is preloaded, all '
    'sessions of the server share one breaker for each service; otherwise each session has its own.';
COMMENT ON COLUMN claims.service_state.service IS 'The foreign server.';
COMMENT ON COLUMN claims.service_state.breaker IS
    'closed: calls of this session are made; open: they fail at once; trying: one call is let through, the others fail at once. If the library is '
    'not preloaded, each session has a state of its own. If it is preloaded, all sessions of the server share the state, with one exception: '
    'while all failures are of one session, the breaker is open for that session and closed for all others.';
COMMENT ON COLUMN claims.service_state.failures IS
    'Consecutive failures to reach the service or to get its answer: of all sessions of the server if the library is preloaded, otherwise of this '
    'session.';
COMMENT ON COLUMN claims.service_state.last_error IS 'Message of the last failure.';
COMMENT ON COLUMN claims.service_state.since IS 'When the breaker changed to this state (clock time).';
COMMENT ON COLUMN claims.service_state.next_try IS 'When the next call is let through (clock time); NULL if closed.';
COMMENT ON FUNCTION claims.service_states() IS 'Internal: the rows of claims.service_state. Locks nothing.';
COMMENT ON FUNCTION claims.claim_attribute(regclass, name, text, text, name, text, name, text) IS
    'In a cell: declares that the values of a column are claimed, from now on, under a bucket type, for the subject in subject_key and the source '
    'in source_key (by default the primary key), columns of any types whose text does not depend on settings; condition is a boolean expression '
    'over the row, evaluated with the rights of the table''s owner. For the table''s owner. Repeating it changes the declaration, and puts '
    'missing triggers back. Locks the table against writers until the transaction ends.';
COMMENT ON FUNCTION claims.declare_attribute(regclass, name, text, text, name, text, name, text) IS
    'Internal: the part of claim_attribute that needs the rights of the extension''s owner.';
COMMENT ON FUNCTION claims.spell_out_condition(oid, text, boolean) IS
    'Internal: returns a condition with every name qualified by the caller''s search_path.';
COMMENT ON FUNCTION claims.unclaim_attribute(regclass, name) IS
    'In a cell: ends the capture of a column; its claims stay as they are. For the table''s owner. 42704 if it is not claimed. If it was the '
    'table''s last claimed column, locks the table ACCESS EXCLUSIVE until the transaction ends.';
COMMENT ON FUNCTION claims.pending_batch() IS
    'In a cell: the net changes of claimed columns that the current transaction has not sent yet, in the form of begin_update. Always one row. '
    '54000 if there are too many to keep. Locks nothing.';
COMMENT ON FUNCTION claims.begin_pending(bigint, text) IS
    'In a cell: leases the pending batch at the service, a foreign server that leads to the shared database, and tracks the lease, which it '
    'returns; NULL if nothing is pending. Conflicts have the SQLSTATE and DETAIL of begin_update; 57014 if the service did not answer within '
    'claims.service_timeout, 08001 if it cannot be reached. If the local transaction does not commit, recovery rolls the lease back. Locks the '
    'lease''s key here, and what begin_update locks there.';
COMMENT ON FUNCTION claims.finish(bigint, text, uuid) IS
    'In a cell, after the local COMMIT: commits a tracked lease at the service and forgets it here. true: this call committed it; false: it had '
    'been committed before. 55000 before the local COMMIT, and for a lease that is not tracked. If it fails, recovery commits the lease. Locks '
    'the tracked row here, and what commit_update locks there.';
COMMENT ON FUNCTION claims.change_capture_triggers(oid, boolean) IS
    'Internal: puts the triggers of claimed tables on a table and its partitions, or takes them off.';
COMMENT ON FUNCTION claims.change_request_triggers(oid, text, text, boolean) IS
    'Internal: like change_capture_triggers, for a table whose changes become requests.';
COMMENT ON FUNCTION claims.capture_row() IS 'Internal: trigger of claimed tables that records the names that a row adds and removes.';
COMMENT ON FUNCTION claims.has_fixed_text(oid) IS 'Internal: whether the text of a type''s values is the same in every session.';
COMMENT ON FUNCTION claims.complete_triggers() IS 'Internal: event trigger that has new partitions of claimed and captured tables refuse TRUNCATE.';
COMMENT ON FUNCTION claims.forget_dropped_tables() IS 'Internal: event trigger that ends the capture of tables that are dropped.';
COMMENT ON FUNCTION claims.refuse_truncate() IS 'Internal: trigger of claimed tables; 55000.';
COMMENT ON FUNCTION claims.send_automatically() IS 'Internal: deferred trigger that sends the pending batch in automatic mode.';
COMMENT ON FUNCTION claims.require_cell(bigint) IS 'Internal: raises 42501 unless the caller may act for a cell.';
COMMENT ON TRIGGER announce_change ON claims.claimed_attributes IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.automatic_service IS 'Sessions cache this table.';
COMMENT ON TRIGGER automatic ON claims.automatic_queue IS 'Sends the pending batch at the end of the transaction.';
COMMENT ON FUNCTION claims.list_discrepancies(bigint, text, text, text, int, interval) IS
    'In a cell: the discrepancies that claims.verify() counts, by name and in the order of source ids, max_results at a time; to continue, pass '
    'the last row''s cursor as after; no row: there are no more. Changes nothing, and transfers only ranges that differ. outcome NULL: a '
    'correction would resolve it; otherwise why not: leased, recent, busy, held_by_other, confusable, reserved, impossible, doubled, foreign. For '
    'roles that may act for the cell. Locks nothing.';
COMMENT ON TABLE claims.own_epochs IS
    'In a cell: the tokens by which the service knows this database from its clones and from restored backups. Written by claims.reconcile(), '
    'claims.verify() and claims.adopt_cell(), in transactions of their own.';
COMMENT ON COLUMN claims.own_epochs.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.own_epochs.epoch IS 'The newest token, which the service may have.';
COMMENT ON COLUMN claims.own_epochs.predecessor IS
    'The token before it, which the service has unless it has the newest; NULL: the newest is the first.';
COMMENT ON COLUMN claims.own_epochs.made_at IS 'When it was made (clock time).';
COMMENT ON TABLE claims.seen_orphans IS
    'In a cell: the orphans that the last pass of recovery has found; claims.orphans() shows them. Not in a dump: the next pass finds them again.';
COMMENT ON COLUMN claims.seen_orphans.lease_uuid IS 'The lease.';
COMMENT ON COLUMN claims.seen_orphans.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.seen_orphans.outcome IS 'Outcome at the service: rolled_back, or NULL if the service does not know the lease.';
COMMENT ON COLUMN claims.seen_orphans.seen_at IS 'When the pass found it (clock time).';
COMMENT ON FUNCTION claims.orphans(bigint) IS
    'In a cell: the leases that committed here and have no claims at the service, as the last pass of claims.reconcile() found them, unless they '
    'were forgotten since. For roles that may act for the cell. Locks nothing.';
COMMENT ON TABLE claims.named_services IS
    'In a cell: the foreign servers of postgres_fdw and dblink_fdw that may be called as a service. Written by claims.add_service() and '
    'claims.remove_service(), by administrators'' calls of claims.automatic() and claims.attend(), and when a server is dropped.';
COMMENT ON COLUMN claims.named_services.server_name IS 'The foreign server.';
COMMENT ON COLUMN claims.named_services.reason IS 'The reason that was given; NULL: automatic(), attend() or an upgrade named it.';
COMMENT ON COLUMN claims.named_services.since IS 'When it was named (clock time).';
COMMENT ON COLUMN claims.named_services.role IS 'Role that named it, by its name at that time.';
COMMENT ON FUNCTION claims.add_service(name, text) IS
    'In a cell: from now on a foreign server of postgres_fdw or dblink_fdw may be called as a service. Servers of the wrapper claims_service need '
    'no call. For administrators who have the privileges of the server''s owner. 42704 if there is no such server. May be repeated. Locks '
    'claims.audiences against other administrators, and the server''s row in claims.named_services.';
COMMENT ON FUNCTION claims.remove_service(name, text) IS
    'In a cell: from now on a foreign server of postgres_fdw or dblink_fdw is not called as a service any more; sessions close their connections '
    'to it. For administrators. 55000 while claims.automatic() or claims.attend() names it; 42704 if it is not named. Locks as '
    'claims.add_service() does.';
COMMENT ON TABLE claims.verification_passes IS 'In a cell: verifications that workers share. Kept for a day after their end. Not dumped.';
COMMENT ON INDEX claims.verification_passes_pkey IS 'Every pass has its own id.';
COMMENT ON INDEX claims.verification_passes_open IS 'One open pass at a time: later calls join it.';
COMMENT ON COLUMN claims.verification_passes.pass IS 'Identifies the pass.';
COMMENT ON COLUMN claims.verification_passes.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.verification_passes.source_type IS 'Name of the source type.';
COMMENT ON COLUMN claims.verification_passes.correct IS 'Whether discrepancies are corrected.';
COMMENT ON COLUMN claims.verification_passes.divided_up_to IS
    'The source id up to which there are ranges; NULL: there are none yet, or they reach to the end.';
COMMENT ON COLUMN claims.verification_passes.divided IS 'Whether the ranges reach to the end.';
COMMENT ON COLUMN claims.verification_passes.ranges IS 'Number of ranges so far.';
COMMENT ON COLUMN claims.verification_passes.begun_at IS 'When it began (clock time).';
COMMENT ON COLUMN claims.verification_passes.finished_at IS 'When it ended (clock time).';
COMMENT ON TABLE claims.verification_ranges IS 'In a cell: the parts of the ranges of shared verifications that are not verified yet. Not dumped.';
COMMENT ON INDEX claims.verification_ranges_pkey IS 'The number of a range is the key of its expiring claim.';
COMMENT ON COLUMN claims.verification_ranges.pass IS 'The pass.';
COMMENT ON COLUMN claims.verification_ranges.number IS 'Number of the range, from 1.';
COMMENT ON COLUMN claims.verification_ranges.source_id_gt IS 'The unverified part begins after this source id; NULL: at the beginning.';
COMMENT ON COLUMN claims.verification_ranges.source_id_lte IS 'It ends with this source id; NULL: it has no end.';
COMMENT ON VIEW claims.verification_workers IS 'In a cell: which worker has which range of a shared verification.';
COMMENT ON COLUMN claims.verification_workers.pass IS 'The pass.';
COMMENT ON COLUMN claims.verification_workers.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.verification_workers.source_type IS 'Name of the source type.';
COMMENT ON COLUMN claims.verification_workers.correct IS 'Whether discrepancies are corrected.';
COMMENT ON COLUMN claims.verification_workers.number IS 'Number of the range.';
COMMENT ON COLUMN claims.verification_workers.source_id_gt IS 'The unverified part begins after this source id.';
COMMENT ON COLUMN claims.verification_workers.source_id_lte IS 'It ends with this source id; NULL: it has no end.';
COMMENT ON COLUMN claims.verification_workers.worker IS 'The worker that holds it, or held it last.';
COMMENT ON COLUMN claims.verification_workers.held IS 'Whether the hold is valid; if not, the next worker that needs a range takes this one.';
COMMENT ON COLUMN claims.verification_workers.expires_at IS 'When the hold expires (clock time).';
COMMENT ON FUNCTION claims.begin_verification(bigint, text, boolean) IS
    'In a cell: begins a verification of all claims of one source type for workers that share it, or joins the one under way, and returns its id. '
    'Waits at most a second for another open transaction that is beginning one (55P03).';
COMMENT ON FUNCTION claims.verify_share(uuid, text, text, int, interval, interval) IS
    'In a cell: one step of a worker in a shared verification; call it repeatedly, each call in a transaction of its own, until finished is true. '
    'Verifies as claims.verify() does, for at most half of hold_for, the range that the worker''s previous call took, and takes a range for the '
    'next call: one whose hold has expired, or a new one. in_hand false and finished false: other workers have the rest; call again a little '
    'later. A worker whose hold has expired corrects and records nothing more. Needs READ COMMITTED. Locks what claims.verify() locks, the '
    'range''s expiring claim FOR KEY SHARE, and while it takes a new range the pass, for which it waits at most a second.';
COMMENT ON TABLE claims.verification_positions IS 'In a cell: the positions of verifications that stopped at max_runtime. Not dumped.';
COMMENT ON COLUMN claims.verification_positions.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.verification_positions.source_type IS 'Name of the source type.';
COMMENT ON COLUMN claims.verification_positions.source_id IS 'The source id up to which everything is verified; the next call continues after it.';
COMMENT ON COLUMN claims.verification_positions.stopped_at IS 'When the call ended (clock time).';
COMMENT ON VIEW claims.verification_progress IS
    'In a cell: the progress of each running claims.verify() and claims.verify_share(), and where those that stopped at max_runtime will '
    'continue. Other sessions see the progress before the call commits, if track_activities is on.';
COMMENT ON COLUMN claims.verification_progress.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.verification_progress.source_type IS 'Name of the source type.';
COMMENT ON COLUMN claims.verification_progress.running IS 'Whether a call is running.';
COMMENT ON COLUMN claims.verification_progress.pid IS 'Process that runs it.';
COMMENT ON COLUMN claims.verification_progress.started_at IS 'When the calling statement started.';
COMMENT ON COLUMN claims.verification_progress.checked IS 'Claims that this call has checked so far.';
COMMENT ON COLUMN claims.verification_progress.estimated IS 'Estimated number of rows, from the last ANALYZE.';
COMMENT ON COLUMN claims.verification_progress.discrepancies IS 'Discrepancies that this call has found so far.';
COMMENT ON COLUMN claims.verification_progress.source_id IS
    'The source id up to which everything is verified; for a worker of a shared verification, everything of its range.';
COMMENT ON COLUMN claims.verification_progress.stopped_at IS 'When the last call stopped at max_runtime.';
COMMENT ON FUNCTION claims.running_verifications() IS
    'Internal: the progress of running verifications, for claims.verification_progress. Locks nothing.';
COMMENT ON FUNCTION claims.digest_records(bigint, text, text, text) IS
    'At the service: the number of a cell''s claims of a source type, with source ids above source_id_gt and up to source_id_lte (NULL: no '
    'bound), and their digest: the sum, modulo 2^256, of the SHA-256 of each. Equal to claims.digest_expected() in the cell exactly when the '
    'range is in order. Claims held by a lease count like any other. Locks nothing.';
COMMENT ON FUNCTION claims.digest_expected(text, text, text) IS
    'In a cell: like claims.digest_records() at the service, for the claims that the cell''s own tables call for. Locks nothing.';
COMMENT ON FUNCTION claims.expected_records(text, text, text) IS
    'In a cell: the claims that its own tables call for, with source ids above source_id_gt and up to source_id_lte (NULL: no bound), at most '
    '100,000, as records that begin_update takes. Locks nothing.';
COMMENT ON FUNCTION claims.verify_records(bigint, text, text, text, jsonb, interval, boolean, uuid[]) IS
    'At the service: compares a range of a cell''s claims with the records expected there. One row per discrepancy (missing, different, extra), '
    'in bucket order. outcome: leased and recent (changed less than recent ago) are skipped, held_by_other is another cell''s, busy is being '
    'changed by another transaction; with correct also corrected, each in one statement and all in this transaction; otherwise NULL. extra_uuids: '
    'consider only these of the claims that are not expected. Locks only what it corrects, in bucket order, and does not wait.';
COMMENT ON FUNCTION claims.verify(bigint, text, text, int, interval, boolean, interval) IS
    'In a cell: verifies all its claims of one source type at the service (a foreign server): by digests first, halving ranges that differ down '
    'to batch_size rows, which are compared one by one, and corrected if correct is true. Discrepancies count once by kind (missing, different, '
    'extra), and once more if corrected, held_by_other or skipped (leased, recent, being changed). Stops after max_runtime with finished false; '
    'the next call continues there. While it corrects, it locks the rows concerned FOR SHARE, skipping locked ones; otherwise it locks nothing. '
    'Needs READ COMMITTED.';
COMMENT ON TABLE claims.attended_cells IS
    'In a cell: the cells that the background worker attends to. Written by claims.attend() and claims.automatic().';
COMMENT ON COLUMN claims.attended_cells.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.attended_cells.service IS 'Name of the foreign server that leads to the shared database.';
COMMENT ON FUNCTION claims.attend(bigint, text) IS
    'In a cell: from now on the background workers of this database settle, recover and verify for the cell at a service, a foreign server; NULL '
    'ends that. For roles that may act for the cell. 42704 if there is no such server. Has an effect only if the library is preloaded and '
    'claims.databases names this database. Locks the cell''s row.';
COMMENT ON FUNCTION claims.begin_update(bigint, jsonb, jsonb, uuid, xid8) IS
    'Leases the claims of a batch for a cell and returns the lease. Arguments: cell_id; create_records and destroy_records, arrays of records; '
    'lease_uuid, the client''s own uuid, which makes the call safe to repeat; cell_xid, pg_current_xact_id() of the cell''s local transaction. A '
    'bucket in both lists is replaced. Conflicts are errors (42501, P0002, 23505, 55P03) with all of them as JSON in DETAIL. Locks the lease''s '
    'key, then the created buckets'' keys, then the destroyed claims'' rows, each in order; waits claims.wait_timeout at most.';
COMMENT ON FUNCTION claims.begin_update_text(bigint, text, text, uuid, xid8) IS
    'Like begin_update, with the lists as texts of JSON, which are read faster: for clients that send many records. 22P02 for a text that is not '
    'JSON.';
COMMENT ON FUNCTION claims.try_begin_update(bigint, jsonb, jsonb, uuid, xid8) IS
    'Like begin_update, but returns conflicts (lease_uuid NULL, conflicts as JSON) instead of raising an error, so the caller''s transaction '
    'continues. A batch with conflicts leaves no rows and no locks.';
COMMENT ON FUNCTION claims.begin_first(bigint, jsonb, uuid, xid8) IS
    'Leases the first of several batches that has no conflicts, as try_begin_update does; chosen is its position, from 1. If all have conflicts, '
    'lease_uuid and chosen are NULL, and conflicts are those of the last one. Arguments: cell_id; alternatives, an array of 1 to 100 '
    '{"create_records": [...], "destroy_records": [...]}; lease_uuid, the client''s own uuid, which makes the call safe to repeat: a repeat '
    'passes the whole array again and returns the earlier choice; cell_xid. Locks and waits as begin_update does, for one batch after the other, '
    'claims.wait_timeout at most in all.';
COMMENT ON FUNCTION claims.commit_update(bigint, uuid) IS
    'Makes a lease''s batch permanent: deletes the destroyed claims, makes created ones ACTIVE, and gives replaced ones their new subject and '
    'source. true: this call did it; false: it was done before. 55000 for a lease that was rolled back, P0002 for an unknown one, 55P03 for one '
    'that another open transaction is settling. Locks the lease''s row, then its claims in bucket order.';
COMMENT ON FUNCTION claims.commit_unflushed(bigint, uuid) IS
    'Like commit_update, but does not wait until the commit is flushed to disk. The next flush includes it; a crash of the server before that '
    'undoes it, and the lease is outstanding again. For callers that keep the lease tracked until commit_update, settle_leases or lease_outcome '
    'has returned its outcome: those flush it before they answer.';
COMMENT ON FUNCTION claims.rollback_update(bigint, uuid) IS
    'Rolls a lease back: deletes created claims, and makes the others ACTIVE again. true: this call did it; false: it was done before. An unknown '
    'uuid is fenced, with a NOTICE: no later begin_update can use it. 55000 for a lease that was committed, 55P03 for one that another open '
    'transaction is beginning or settling. Locks the lease''s row, then its claims in bucket order.';
COMMENT ON FUNCTION claims.settle_leases(bigint, uuid[], uuid[]) IS
    'Commits and rolls back many leases in one call. One row per lease: its outcome, and whether this call settled it; fenced is an unknown one '
    'among the rollbacks. A lease that another session is settling is busy; the call does not wait for it. Locks lease rows in uuid order, '
    'skipping locked ones, then claims in bucket order.';
COMMENT ON FUNCTION claims.lease_outcome(bigint, uuid) IS
    'The state of a lease of the cell: outstanding, committed, rolled_back, or NULL if unknown. Locks nothing.';
COMMENT ON FUNCTION claims.purge_outcomes() IS
    'Deletes outcomes older than claims.outcome_retention and returns how many; for schedulers, administrators only. Locks the rows it deletes, '
    'skipping locked ones.';
COMMENT ON FUNCTION claims.get_record(text, text) IS
    'The claim on a bucket, by any spelling of its name, with its cell''s name and address; no row if there is none. Reads one index entry, locks '
    'nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.get_records(jsonb) IS
    'The claims on an array of {"type", "value"} buckets (at most 10,000), in the order of the argument; 54000 if they have more than 16 MiB. '
    'Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.read_after(uuid, interval) IS
    'Waits on a standby until it shows how a lease ended, and returns true; false: it did not within timeout. After true the next statements of '
    'the transaction read at least that state. For readers. 25001 under REPEATABLE READ and SERIALIZABLE, unless the snapshot shows it. Locks '
    'nothing.';
COMMENT ON FUNCTION claims.list_leases(bigint, text, int, timestamptz) IS
    'Outstanding leases of a cell (NULL: of all cells, administrators only), oldest first, max_results at a time and at most 16 MiB of payload. '
    'To continue, pass the last row''s cursor as after; no row: there are no more. created_after leaves out older ones. Locks nothing.';
COMMENT ON FUNCTION claims.list_records(bigint, text, text, int, text, text, text[], boolean) IS
    'Claims of a cell by source type number, source id (by length, then bytewise) and bucket, max_results at a time; optionally of one source '
    'type, of source ids above source_id_gt and up to source_id_lte, and of some bucket types. With whole_sources a page ends after a source''s '
    'last claim, and may be longer. To continue, pass the last row''s cursor as after. If set_profile() renames a source''s claims between two '
    'pages, the next page may repeat or leave out some of them, but not with whole_sources. Locks nothing.';
COMMENT ON FUNCTION claims.canonical(text, text) IS
    'The canonical form of a name by the profile of its bucket type; 22023 if the profile refuses it. For readers and cells; in a cell''s '
    'database by the cell''s own types. Executes no statement, locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.canonical_form(text, text) IS
    'The canonical form of a name by a profile (exact, casefold, username, domain, email, path); NULL if the profile refuses it. For indexes of '
    'tables of a cell. PUBLIC may execute it, so that everybody can write or restore such a table; a role that names it needs USAGE on schema '
    'claims. IMMUTABLE: a release with a newer version of Unicode requires a REINDEX. Reads no table, locks nothing.';
COMMENT ON FUNCTION claims.require_naming(text, text[], text[]) IS
    'Internal, at the service, for cells: 0A000 unless bucket types have these profiles here, and, for other profiles than exact, the library has '
    'this version of Unicode. Locks nothing.';
COMMENT ON FUNCTION claims.reserve_names(text, text[], text) IS
    'Reserves names of a bucket type: no cell can claim them. Returns how many were not reserved before. Administrators only, with a reason. '
    '23505 if one is claimed, 55P03 if a lease or an open transaction holds one, with all of them as JSON in DETAIL; then nothing is reserved. '
    'Locks the names'' keys, in order; waits claims.wait_timeout at most.';
COMMENT ON FUNCTION claims.unreserve_names(text, text[], text) IS
    'Frees reserved names, and returns how many. Administrators only, with a reason. Locks their rows, in order.';
COMMENT ON FUNCTION claims.set_profile(text, text, text, text, boolean) IS
    'Changes the profile of a bucket type, and all its names; administrators only, with a reason. Returns the claims that prevent the change: '
    'canonical is the common form of bucket_values, or NULL if the profile refuses a name or names only look alike. With dry_run (the default) it '
    'does no more. Without it, 23505 if there are any; otherwise it rewrites all names in place, and the profile takes effect at COMMIT. '
    'list_records() continues a source''s claims by name: a page after the change may repeat or leave out claims of the source with which the '
    'page before it ended, unless both have whole_sources. confusables NULL: unchanged. Types below 100 stay exact. Locks claims.type_names SHARE '
    'ROW EXCLUSIVE and claims.bucket_types EXCLUSIVE: begins under types of ids from 100 on are 55P03 meanwhile. Waits for leases that hold names '
    'which change for claims.wait_timeout, then 55P03.';
COMMENT ON FUNCTION claims.add_bucket_type(int, text, text, text) IS
    'Adds a bucket type; administrators only. profile decides which names are the same (exact, casefold, username, domain, email, path), '
    'confusables whether names may look alike (allow, reject). Ids below 100 are reserved. Repeating the same call does nothing; 23505 if id or '
    'name is taken, or the type exists with another profile. Locks claims.type_names SHARE ROW EXCLUSIVE: administrators wait for each other '
    'until COMMIT.';
COMMENT ON FUNCTION claims.add_subject_type(int, text) IS
    'Adds a subject type; administrators only. Ids below 100 are reserved. Repeating the same pair does nothing; 23505 where id or name is taken. '
    'Locks claims.type_names SHARE ROW EXCLUSIVE: administrators wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.add_source_type(int, text) IS
    'Adds a source type; administrators only. Ids below 100 are reserved. Repeating the same pair does nothing; 23505 where id or name is taken. '
    'Locks claims.type_names SHARE ROW EXCLUSIVE: administrators wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.rename_type(text, int, text) IS
    'Changes the name by which a type of a kind (bucket, subject, source) is shown; administrators only. Its earlier names are still accepted, '
    'for ever. 23505 if another type has the name. Locks claims.type_names SHARE ROW EXCLUSIVE, then the type''s row: administrators wait for '
    'each other until COMMIT.';
COMMENT ON FUNCTION claims.register_cell(bigint, name, text, text, jsonb) IS
    'Registers a cell, or changes its role and those of its name, address and attributes that are given, and grants its role what a cell needs; '
    'administrators only. A role that lost its last cell loses the grants. Locks claims.audiences SHARE ROW EXCLUSIVE, then the cell''s row: '
    'administrators wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.grant_read(name) IS
    'Grants a role what a router needs: get_record, get_records, list_types, list_cells, list_changes, change_cursor and the view records; '
    'administrators only. Administrators wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.refresh_grants() IS
    'Grants every role that register_cell(), grant_read(), grant_worker() or grant_monitor() named the functions of its kind in this version; '
    'administrators only. ALTER EXTENSION claims UPDATE calls it. On distributed tables it does so on all nodes; called by a superuser, it first '
    'gives the extension''s objects to their owner on nodes that were added. Administrators wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.grant_monitor(name) IS
    'Grants a role what monitoring needs: check(), which then shows no bucket values and no payloads, metrics(), and the views leases, passes, '
    'modes, cell_limits and transfers; administrators only. Administrators wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.revoke_read(name) IS
    'Revokes the grants of grant_read(); a cell''s role keeps the grants of cells. Administrators only, who wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.revoke_worker(name) IS
    'Revokes the grants of grant_worker(); administrators only, who wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.revoke_monitor(name) IS
    'Revokes the grants of grant_monitor(); administrators only, who wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.version() IS
    'The version of the library, the version of the extension in this database, the number of the protocol between cells and service, and the '
    'version of Unicode by which names are compared. For all roles with any grant. Locks nothing.';
COMMENT ON FUNCTION claims.set_mode(text, text, bigint) IS
    'At the service: sets the mode of a cell (NULL: of all cells) from the COMMIT on: open; settle_only: no begins; read_only: only reading. '
    'Calls that it does not allow fail with 55000 and the reason. The stricter of a cell''s mode and that of all cells applies. For '
    'administrators. Locks the row of the mode: two calls that set one row wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.set_cell_limits(bigint, text, int, int, int) IS
    'At the service: sets the limits of a cell from the COMMIT on (NULL: no limit): outstanding leases, records of a batch, begins and fences a '
    'second. A call beyond a limit fails with 53400, and HINT says when to try again. begins_per_second needs the library preloaded (22023 '
    'otherwise). For administrators. Locks the row of the limits: two calls that set one row wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.present_epoch(bigint, bigint, bigint, text) IS
    'At the service, for claims.reconcile(), claims.verify() and claims.adopt_cell(): stores a new epoch of the cell''s database, if the stored '
    'one is that epoch, its predecessor, or none; otherwise 55000, another database acts as the cell. With adopt_because it stores the epoch in '
    'any case. Locks the row of the cell''s epoch until COMMIT.';
COMMENT ON FUNCTION claims.adopt_cell(bigint, text, text) IS
    'In a cell: makes this database the one that acts as the cell, after a restore, or instead of a clone, and returns its epoch. service is a '
    'foreign server that leads to the shared database. From then on claims.reconcile() and claims.verify() of any other database are 55000 there. '
    'For administrators. A process of its own commits the epoch; at the service it locks the row of the cell''s epoch, for one call.';
COMMENT ON FUNCTION claims.explain_lease(bigint, text, uuid) IS
    'In a cell: the decision that claims.reconcile() would make about a lease now (commit, rollback, wait; forget or orphan for one that the '
    'service has settled; none), and why: the outcome at the service, whether it is tracked or fenced here, the state of its transaction, and its '
    'session. Changes and fences nothing, locks nothing. For roles that may act for the cell.';
COMMENT ON FUNCTION claims.skip_capture(text) IS
    'In a cell: for the rest of this transaction, or until the savepoint before it is rolled back to, changes of claimed columns are not '
    'captured; foreign keys and other triggers work. For administrators. Locks nothing.';
COMMENT ON FUNCTION claims.lease_details(uuid, text, text) IS
    'An outstanding lease by its uuid, or by a bucket that it holds: its cell, the role that may act for that, its age, and its names as the '
    'request spelled them. A transfer that has not ended is shown without names. No row: there is none. For administrators and the lease''s cell. '
    'Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.force_rollback(bigint, uuid, text) IS
    'Rolls back an outstanding lease whose cell cannot, and returns {"lease_uuid", "cell_id", "cell_xid", "freed", "kept"}, with the names that '
    'are free now. If the cell''s transaction has committed, its names are then free although rows use them: look there first. P0002 unless '
    'outstanding, 55P03 while another transaction settles it. For administrators. Locks the lease''s row, then its claims in bucket order.';
COMMENT ON FUNCTION claims.release_records(bigint, text, int, boolean) IS
    'Deletes up to max_results claims that a cell has and no lease holds, and returns how many; repeat until 0. For a cell that is gone, '
    'registered or not: a WARNING if it may still begin leases. dry_run only counts. For administrators. Locks the claims, skipping locked ones; '
    'does not wait.';
COMMENT ON FUNCTION claims.remove_cell(bigint, text) IS
    'Removes a cell that has neither claims nor outstanding leases nor open transfers (55000 otherwise), with its mode; a role that loses its '
    'last cell loses what cells are granted. For administrators. Locks claims.audiences SHARE ROW EXCLUSIVE, then the cell''s row: administrators '
    'wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.prepare_transfer(uuid, bigint, bigint, jsonb, text, interval) IS
    'Marks the ACTIVE claims of some subjects for a transfer from one cell to another: they become TRANSFERRING, which is leased to everyone. '
    'Arguments: transfer_uuid; from_cell; to_cell; subjects, [{"type", "ids"}, ...]; reason; max_runtime, after which the call returns and the '
    'next one continues. Returns how many claims it has marked, how many it skipped because leases hold them, and whether it has all: repeat '
    'until finished. The same uuid with other cells or subjects is 22023. For administrators. Locks the transfer''s row and the claims, skipping '
    'locked ones; does not wait (55P03).';
COMMENT ON FUNCTION claims.switch_transfer(uuid, text) IS
    'Switches a prepared transfer: one row changes, and from the COMMIT on every read returns the new cell for all its claims. true: this call '
    'did it; false: it was done before. 55000 unless the last prepare_transfer() was finished. For administrators. Locks the transfer''s row; '
    'does not wait (55P03).';
COMMENT ON FUNCTION claims.reverse_transfer(uuid, text) IS
    'Undoes a switch: from the COMMIT on every read returns the old cell again. true: this call did it; false: the claims are at the old cell '
    'already. 55000 once finish_transfer() has begun. For administrators. Locks the transfer''s row; does not wait (55P03).';
COMMENT ON FUNCTION claims.finish_transfer(uuid, interval) IS
    'Makes the claims of a switched transfer ACTIVE claims of the new cell; after max_runtime the call returns, and the next one continues. '
    'Returns how many this call has moved, and whether these were all: repeat until finished. After reverse_transfer() they become ACTIVE claims '
    'of the old cell. For administrators. Locks the transfer''s row and the claims, skipping locked ones; does not wait (55P03).';
COMMENT ON FUNCTION claims.cancel_transfer(uuid, text, interval) IS
    'Gives up a transfer that is not switched: its claims become ACTIVE claims of the old cell again; after max_runtime the call returns, and the '
    'next one continues. Returns how many this call has released, and whether these were all: repeat until finished. For administrators. Locks '
    'the transfer''s row and the claims, skipping locked ones; does not wait (55P03).';
COMMENT ON FUNCTION claims.list_changes(text, int, text) IS
    'The change feed after a cursor (NULL: from its beginning), max_results at a time and at most 16 MiB; optionally of one bucket type. Returns '
    'only changes that no open transaction of the cluster can precede: a reader that continues from the last row''s cursor gets every change '
    'once. 55000 if changes after the cursor were purged, or if the cursor is of another feed. For readers. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.change_cursor() IS
    'The cursor of the last change that claims.list_changes() can return now: where a new reader begins. For readers. Locks nothing, works on a '
    'hot standby.';
COMMENT ON FUNCTION claims.bucket_history(text, text) IS
    'Which cell had a name when, as far as the change feed reaches back: one row for each period, oldest first. cell_id NULL: none; since NULL: '
    'before the feed; until NULL: now. Reads the whole feed, about a second for some million changes, unless claims.change_sets has an index '
    'USING gin (bucket_values), which makes every change cost more. For administrators. Locks nothing.';
COMMENT ON FUNCTION claims.purge_changes(interval) IS
    'Deletes changes older than older_than from the beginning of the feed, up to the first younger one, and returns how many; never changes that '
    'readers cannot get yet. Locks the row of claims.change_horizon, and does nothing if another session has locked it; does not wait. For '
    'administrators.';
COMMENT ON FUNCTION claims.caller_is_admin() IS 'Internal: whether the caller is an administrator.';
COMMENT ON FUNCTION claims.change_grants(name, text[], boolean) IS 'Internal: grants or revokes the functions of some audiences.';
COMMENT ON FUNCTION claims.distribute(int, text) IS
    'Distributes the tables of the service over the nodes of a Citus cluster, once, and returns the number of shards: claims by bucket value, '
    'leases and their outcomes by uuid; every node gets types, cells and the other tables that every call reads. shards NULL: 4 for each node '
    'that keeps shards. For administrators, on the coordinator, with a reason. Locks the tables against writers until COMMIT.';
COMMENT ON FUNCTION claims.keep_pace(bigint, int) IS
    'Internal, on the node that counts begins for all nodes: counts one more begin of a cell and returns 0, or returns when the next one may be.';
COMMENT ON FUNCTION claims.take_change_places(int) IS
    'Internal, on the node that keeps the change feed: returns its transaction, and ids for the rows of claims.change_sets that the caller will '
    'write.';
COMMENT ON FUNCTION claims.change_node() IS 'Internal: the group of this node of a Citus cluster. Locks nothing.';
COMMENT ON FUNCTION claims.buckets_in_flight(text, text[], int[]) IS
    'Internal, on the node of a shard: the buckets that another open transaction has written or locked, by their positions in the arrays. Locks '
    'nothing.';
COMMENT ON FUNCTION claims.is_lease_in_flight(text, uuid) IS
    'Internal, on the node of a shard: whether another open transaction has written or locked the row of a lease. Locks nothing.';
COMMENT ON FUNCTION claims.is_look_in_flight(text, uuid, int) IS
    'Internal, on the node of a shard: whether another open transaction has written or locked the rows of a skeleton. Locks nothing.';
COMMENT ON FUNCTION claims.is_look_reserved(text, uuid, int, boolean) IS
    'Internal, on the node of a shard: whether a name of a skeleton is reserved. Open transactions that reserve or unreserve one count, or the '
    'call waits for them. Locks nothing.';
COMMENT ON FUNCTION claims.create_on_node(text, text[], int[], bigint[], uuid, bigint, timestamptz, uuid[], int[], text[], int[], text[], int[],
    text[], text[]) IS
    'Internal, on the node of a shard, called for the row that a statement returns: creates the claims that belong to this row in further shards '
    'of the node, and returns how many. It writes, but is IMMUTABLE because Citus sends only such functions to a node.';
COMMENT ON FUNCTION claims.settle_on_node(int, text, int[], text[], int[], bigint[], uuid[], int[], text[], smallint, timestamptz) IS
    'Internal, on the node of a shard, called for the claim that a statement returns: makes the claims that belong to this one in further shards '
    'of the node ACTIVE, or without a time deletes them, and returns how many. It writes, but is IMMUTABLE because Citus sends only such '
    'functions to a node.';
COMMENT ON FUNCTION claims.put_outcome_on_node(uuid, bigint, bytea, bigint, text, timestamptz) IS
    'Internal, on the node of a shard, called for the lease that a statement deletes: inserts its outcome into the shard beside it. It writes, '
    'but is IMMUTABLE because Citus sends only such functions to a node.';
COMMENT ON FUNCTION claims.require_tables_here() IS 'Internal: raises 0A000 if claims.distribute() has distributed the tables of the extension.';
COMMENT ON FUNCTION claims.require_own_tables() IS
    'Internal: raises 55000 if Citus manages the tables of the extension, or if the extension in this database and the library are of different '
    'versions.';
COMMENT ON FUNCTION claims.require_admin() IS 'Internal: raises 42501 unless the caller is an administrator.';
COMMENT ON FUNCTION claims.announce_change() IS 'Internal: trigger that tells all sessions that cached rows of the table are out of date.';
COMMENT ON TRIGGER announce_change ON claims.bucket_types IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.subject_types IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.source_types IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.type_names IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.cells IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.mode_settings IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.limit_settings IS 'Sessions cache this table.';
COMMENT ON SEQUENCE claims.expiring_tokens IS
    'The tokens of expiring claims. One sequence for all keys, so that a key that is removed and added again never repeats a token.';
COMMENT ON TABLE claims.expiring_claims IS
    'Keys, with the claimant that holds each, and until when. A key is held while expires_at is later than clock_timestamp().';
COMMENT ON INDEX claims.expiring_claims_pkey IS 'Every key of a kind occurs once.';
COMMENT ON COLUMN claims.expiring_claims.kind IS 'Kind of the key, 1 to 63 characters.';
COMMENT ON COLUMN claims.expiring_claims.key IS 'The key, 1 to 512 characters, e.g. the id of a service.';
COMMENT ON COLUMN claims.expiring_claims.claimant IS 'The instance that holds the key or held it last; NULL: it was never held.';
COMMENT ON COLUMN claims.expiring_claims.token IS 'Increases with every acquire of the key; 0: it was never held.';
COMMENT ON COLUMN claims.expiring_claims.acquired_at IS 'When it was last acquired (clock time).';
COMMENT ON COLUMN claims.expiring_claims.renewed_at IS 'When it was last acquired or renewed (clock time).';
COMMENT ON COLUMN claims.expiring_claims.expires_at IS 'When the hold expires (clock time).';
COMMENT ON FUNCTION claims.add_expiring(text, text[]) IS
    'Adds keys of a kind, free to be acquired, and returns how many were new; administrators only. Locks the new keys in order, and waits for '
    'another open transaction that is adding one of them.';
COMMENT ON FUNCTION claims.remove_expiring(text, text[]) IS
    'Removes keys of a kind, held ones too, and returns how many; administrators only. Locks rows in key order skipping those that another '
    'transaction has locked: they are not counted.';
COMMENT ON FUNCTION claims.acquire_expiring(text, text, interval, int) IS
    'Takes up to max_results (NULL: all) keys that are free or expired, never-held ones first, then oldest expiry first, and returns them with '
    'their new tokens. Locks the rows FOR UPDATE, skipping rows that another transaction has locked. Does not wait.';
COMMENT ON FUNCTION claims.renew_expiring(text, text, interval) IS
    'Extends the keys that the claimant still holds to ttl from now, never shortening, and returns them. A key that is not returned is not '
    'confirmed. Locks the rows FOR NO KEY UPDATE in key order, skipping rows that another transaction has locked. Does not wait.';
COMMENT ON FUNCTION claims.held_expiring(text, text) IS
    'The keys that the claimant holds now. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.release_expiring(text, text, text[]) IS
    'Frees keys that the claimant holds (NULL: all of them) at once, and returns how many. Locks the rows FOR NO KEY UPDATE in key order, '
    'skipping rows that another transaction has locked. Does not wait.';
COMMENT ON FUNCTION claims.assert_held(text, text, bigint) IS
    'Raises 55000 unless the token is the key''s current one and unexpired. Locks the row FOR KEY SHARE until the transaction ends: the claimant '
    'can renew and release, but no other can take the key over. Does not wait.';
COMMENT ON FUNCTION claims.grant_worker(name) IS
    'Grants a role the functions of expiring claims and requests that are not for administrators, and lets it read both tables; administrators only.';
COMMENT ON TABLE claims.requests IS
    'Requests to create or update entities, outstanding and settled. Written only by the functions of this extension.';
COMMENT ON INDEX claims.requests_create IS 'At most one create per queue and entity among the rows kept.';
COMMENT ON INDEX claims.requests_ready IS 'The requests that claims.take_requests() searches, in order.';
COMMENT ON INDEX claims.requests_entered IS 'Requests added to requests_ready since a session last searched, whatever their ids.';
COMMENT ON INDEX claims.requests_outstanding IS 'The requests of one entity that are not settled.';
COMMENT ON INDEX claims.requests_failed IS 'The failed requests, for claims.retry_requests().';
COMMENT ON INDEX claims.requests_held_entity IS 'Whether an entity is held beyond a transaction.';
COMMENT ON INDEX claims.requests_hold IS 'Holds that have expired.';
COMMENT ON INDEX claims.requests_held_since IS 'Holds made since a session last searched.';
COMMENT ON INDEX claims.requests_holder IS 'The requests that a process holds beyond a transaction.';
COMMENT ON INDEX claims.requests_unblock IS 'Completed creates some of whose updates may still have to be unblocked.';
COMMENT ON COLUMN claims.requests.id IS 'Number of the request; the order of work.';
COMMENT ON COLUMN claims.requests.queue IS 'The queue, 1 to 63 characters.';
COMMENT ON COLUMN claims.requests.entity IS 'The entity to create or update, 1 to 512 characters.';
COMMENT ON COLUMN claims.requests.request_type IS 'create or update.';
COMMENT ON COLUMN claims.requests.status IS
    'new, in-progress (held beyond a transaction), complete or error. A request that is in-progress past hold_until counts as new.';
COMMENT ON COLUMN claims.requests.process_id IS 'The process that holds it or settled it.';
COMMENT ON COLUMN claims.requests.payload IS 'Payload from the front end.';
COMMENT ON COLUMN claims.requests.error IS 'Error from the back end.';
COMMENT ON COLUMN claims.requests.attempts IS 'How often it was taken with a hold, or settled without one.';
COMMENT ON COLUMN claims.requests.created_at IS 'When it was recorded (clock time).';
COMMENT ON COLUMN claims.requests.settled_at IS 'When it became complete or error (clock time).';
COMMENT ON COLUMN claims.requests.hold_until IS 'When the hold of process_id expires (clock time).';
COMMENT ON COLUMN claims.requests.blocked IS 'An update that waits for its create: not searched until the create is complete.';
COMMENT ON COLUMN claims.requests.unblock IS 'A completed create that was settled while updates were being recorded: the next takes unblock them.';
COMMENT ON COLUMN claims.requests.entered_xid IS 'The transaction that added it to the search, again or for the first time, or that last held it.';
COMMENT ON SEQUENCE claims.requests_id_seq IS 'Numbers of requests.';
COMMENT ON TABLE claims.lost_holds IS
    'Expired holds that were taken over, so that their old holders cannot settle the other requests that they hold. Deleted by the next take of a '
    'process that holds nothing any more, and by claims.purge_requests().';
COMMENT ON SEQUENCE claims.lost_holds_id_seq IS 'Numbers of lost holds.';
COMMENT ON INDEX claims.lost_holds_pkey IS 'Primary key.';
COMMENT ON INDEX claims.lost_holds_process IS 'The lost holds of a process.';
COMMENT ON COLUMN claims.lost_holds.id IS 'Identifies the row.';
COMMENT ON COLUMN claims.lost_holds.queue IS 'The queue of the requests.';
COMMENT ON COLUMN claims.lost_holds.process_id IS 'The process that held them.';
COMMENT ON COLUMN claims.lost_holds.requests IS 'How many requests were taken over.';
COMMENT ON COLUMN claims.lost_holds.lost_at IS 'When (clock time).';
COMMENT ON TABLE claims.captured_tables IS
    'The tables whose changes are recorded as requests. Written by claims.capture_requests() and claims.uncapture_requests().';
COMMENT ON COLUMN claims.captured_tables.table_name IS 'The table.';
COMMENT ON COLUMN claims.captured_tables.queue IS 'The queue of the requests.';
COMMENT ON COLUMN claims.captured_tables.entity_column IS 'The column that names the entity.';
COMMENT ON TRIGGER announce_change ON claims.captured_tables IS 'Sessions cache this table.';
COMMENT ON FUNCTION claims.capture_change() IS 'Internal: trigger that records requests for changed rows. Locks what claims.enqueue_request() locks.';
COMMENT ON FUNCTION claims.refuse_unrecorded_truncate() IS 'Internal: trigger that refuses TRUNCATE of a captured table. Locks nothing.';
COMMENT ON FUNCTION claims.capture_requests(regclass, text, name) IS
    'From now on every change of a row of the table records an update request for the entity that the column names, in the same transaction; '
    'TRUNCATE is refused. For administrators and the table''s owner. Calling it again changes the column, and restores missing triggers. Later '
    'partitions are included. 42710 if a partition of the table, or the table''s parent, is captured for the same queue by itself. Locks the '
    'table and its partitions SHARE ROW EXCLUSIVE.';
COMMENT ON FUNCTION claims.uncapture_requests(regclass, text) IS
    'Ends what claims.capture_requests() began; does nothing if the table is not captured; 55000 for a partition of a table that is captured. For '
    'administrators and the table''s owner. Locks the table ACCESS EXCLUSIVE.';
COMMENT ON FUNCTION claims.enqueue_request(text, text, text, jsonb) IS
    'Records a request and returns its id; notifies channel claims_requests with the queue''s name, once per transaction and queue, unless '
    'claims.notify_requests is off. 23505 if the entity has a create already, 54000 if the payload has more than 64 MiB as text. Waits for '
    'another open transaction that is recording the same create. An update whose create is outstanding locks the create''s row FOR KEY SHARE, '
    'skipping it if it is locked.';
COMMENT ON FUNCTION claims.take_requests(text, uuid, bigint, interval) IS
    'Takes the first request after after_id that is ready: a create alone, or the outstanding updates of one entity, by id, at most 16 MiB of '
    'text together (one in any case): the next take returns the others, once these are settled. No row: nothing to do now. Without hold_for the '
    'caller has them until its transaction ends; with it until they are settled or the hold expires. Locks all outstanding rows of the entity FOR '
    'NO KEY UPDATE by id; busy entities are skipped. Does not wait.';
COMMENT ON FUNCTION claims.settle_requests(uuid, text) IS
    'Makes the requests that the process has taken complete, or error, and returns how many; 55000 if it has none, or one of its holds has '
    'expired or was taken over. Notifies when an entity has more to do. Locks the rows by id; waits at most a second for another session that is '
    'extending or settling them (55P03).';
COMMENT ON FUNCTION claims.extend_requests(uuid, interval) IS
    'Extends the holds of a process to hold_for from now, never shortening, and returns how many requests it holds; 55000 if it holds none any '
    'more, or one of its holds has expired or was taken over. Locks the rows by id; waits at most a second for another session that is extending '
    'or settling them (55P03).';
COMMENT ON FUNCTION claims.retry_requests(text, text) IS
    'Makes the failed requests of an entity new again, and returns how many. Locks the rows by id, skipping rows that another transaction has '
    'locked.';
COMMENT ON FUNCTION claims.purge_requests(text, interval) IS
    'Deletes settled requests of a queue that were settled longer than older_than ago, and returns how many; administrators only. Failed creates '
    'are kept, because they block their entities. Locks the rows, skipping rows that another transaction has locked.';
COMMENT ON FUNCTION claims.metrics() IS
    'Metrics of this database, the shared one or a cell''s: names and units as in OpenMetrics, one row for each value. Claims are estimated from '
    'statistics, leases and requests counted up to 10,000 a cell or queue. Counters (begins, commits, rollbacks, conflicts, durations, the last '
    'check()) exist if the library is preloaded, and start with the server. No bucket values, no payloads. On distributed tables the metrics of '
    'all nodes. For administrators and monitoring roles. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.counters() IS 'Internal: the part of claims.metrics() that is kept in shared memory. Locks nothing.';
COMMENT ON FUNCTION claims.note_check(bigint, bigint) IS
    'Internal: stores in shared memory that claims.check() has ended, how many violations it found, and how many rows are dated in the future.';
COMMENT ON TABLE claims.pass_log IS 'The last 1,000 passes of each kind; claims.passes shows them. Not dumped.';
COMMENT ON INDEX claims.pass_log_kind IS 'Finds passes older than the last 1,000 of a kind.';
COMMENT ON COLUMN claims.pass_log.id IS 'A UUIDv7, in the order in which the passes ended.';
COMMENT ON COLUMN claims.pass_log.kind IS 'reconcile, verify, purge, or settle (failures of the worker only).';
COMMENT ON COLUMN claims.pass_log.cell_id IS 'The cell, if any.';
COMMENT ON COLUMN claims.pass_log.source_type IS 'Name of the source type, for a verification.';
COMMENT ON COLUMN claims.pass_log.started_at IS 'When it began (clock time).';
COMMENT ON COLUMN claims.pass_log.ended_at IS 'When it ended (clock time).';
COMMENT ON COLUMN claims.pass_log.counts IS 'Its counts, by column.';
COMMENT ON COLUMN claims.pass_log.sqlstate IS 'SQLSTATE of the error that ended it; NULL if it succeeded.';
COMMENT ON COLUMN claims.pass_log.message IS 'Message of that error.';
COMMENT ON VIEW claims.passes IS
    'One row for each pass of recovery, verification and purging, the last 1,000 of each kind. A failed pass is shown only if the worker ran it: '
    'otherwise its transaction was rolled back, and its caller got the error.';
COMMENT ON COLUMN claims.passes.kind IS 'reconcile, verify, purge, or settle (failures of the worker only).';
COMMENT ON COLUMN claims.passes.cell_id IS 'The cell, if any.';
COMMENT ON COLUMN claims.passes.source_type IS 'Name of the source type, for a verification.';
COMMENT ON COLUMN claims.passes.started_at IS 'When it began (clock time).';
COMMENT ON COLUMN claims.passes.ended_at IS 'When it ended (clock time).';
COMMENT ON COLUMN claims.passes.counts IS 'Its counts, by column.';
COMMENT ON COLUMN claims.passes.sqlstate IS 'SQLSTATE of the error that ended it; NULL if it succeeded.';
COMMENT ON COLUMN claims.passes.message IS 'Message of that error.';
COMMENT ON SCHEMA claims IS 'Globally unique names: leases, claims and their verification.';
COMMENT ON TABLE claims.audiences IS
    'Which functions claims.register_cell(), grant_read(), grant_worker() and grant_monitor() grant. Readers'' functions are for cells, too; '
    'routers'' are not.';
COMMENT ON COLUMN claims.audiences.function_name IS 'Name of a function in schema claims, all its variants.';
COMMENT ON COLUMN claims.audiences.audience IS
    'reader, router (with grant_read() only), cell, worker or monitor; all: for everybody who is one of these.';
COMMENT ON TABLE claims.change_sets IS
    'The change feed as it is stored; claims.changes shows it. Written while claims.change_feed is on. Not dumped: transaction ids mean nothing '
    'in another cluster.';
COMMENT ON SEQUENCE claims.change_sets_id_seq IS 'Numbers of changes, 1,024 for each row of claims.change_sets.';
COMMENT ON COLUMN claims.change_sets.xid IS
    'The transaction that made the changes, not its savepoints. Readers get changes in the order of (xid, id), once no open transaction can '
    'precede them.';
COMMENT ON COLUMN claims.change_sets.id IS 'Number of the first of the changes; the others follow.';
COMMENT ON COLUMN claims.change_sets.at IS 'When they were made (clock time, not that of the COMMIT).';
COMMENT ON COLUMN claims.change_sets.op IS 'create, destroy, replace (another source, the same cell) or transfer.';
COMMENT ON COLUMN claims.change_sets.old_cell_id IS 'The cell that had the names; NULL: none.';
COMMENT ON COLUMN claims.change_sets.new_cell_id IS 'The cell that has them from then on; NULL: none.';
COMMENT ON COLUMN claims.change_sets.lease_uuid IS 'The lease or the transfer; NULL: a correction or an admin action.';
COMMENT ON COLUMN claims.change_sets.actor IS 'The calling role, by its name at that time.';
COMMENT ON COLUMN claims.change_sets.bucket_types IS 'Types of the buckets: claims.bucket_types.id.';
COMMENT ON COLUMN claims.change_sets.bucket_values IS 'Values of the buckets in their canonical form, as many as types.';
COMMENT ON COLUMN claims.change_sets.era IS
    'On distributed tables: how often the feed had moved to another node by then, which is the node of xid; NULL: written before the tables were '
    'distributed.';
COMMENT ON COLUMN claims.change_sets.two_phase IS
    'On distributed tables: the node that began the transaction, and its number there, which are in the names of all its prepared parts; NULL: it '
    'has no other parts.';
COMMENT ON VIEW claims.changes IS
    'Each change of an owned claim that was made while claims.change_feed was on, and has not been purged. Readers use claims.list_changes().';
COMMENT ON COLUMN claims.changes.id IS 'Number of the change: of two changes of one name the later one has the greater.';
COMMENT ON COLUMN claims.changes.op IS 'create, destroy, replace (another source, the same cell) or transfer.';
COMMENT ON COLUMN claims.changes.bucket_type IS 'Type of the bucket: claims.bucket_types.id.';
COMMENT ON COLUMN claims.changes.bucket_value IS 'Value of the bucket in its canonical form.';
COMMENT ON COLUMN claims.changes.old_cell_id IS 'The cell that had the name; NULL: none.';
COMMENT ON COLUMN claims.changes.new_cell_id IS 'The cell that has it from then on; NULL: none.';
COMMENT ON FUNCTION claims.changes_of(int, text) IS
    'Internal: the changes of one bucket, in their order. Uses an index USING gin (bucket_values) on claims.change_sets if there is one.';
COMMENT ON TABLE claims.change_horizon IS 'One row: the identity of the change feed, and the position up to which it was purged. Not dumped.';
COMMENT ON COLUMN claims.change_horizon.feed IS 'Identity of the feed. Cursors of another one are refused.';
COMMENT ON COLUMN claims.change_horizon.xid IS 'Transaction of the last change that was purged; 0: none was.';
COMMENT ON COLUMN claims.change_horizon.id IS 'Number of that change.';
COMMENT ON COLUMN claims.change_horizon.at IS 'When it was made.';
COMMENT ON COLUMN claims.change_horizon.era IS
    'On distributed tables: how often the feed has moved to another node. Each era is another feed to readers.';
COMMENT ON COLUMN claims.change_horizon.node IS 'On distributed tables: the group of the node that has the feed.';
COMMENT ON COLUMN claims.change_horizon.has_earlier IS 'Whether there may be changes of earlier eras, which only claims.bucket_history() returns.';
COMMENT ON FUNCTION claims.find_claims_on(int, text) IS
    'Internal: the claims on a bucket, for claims.find_problems(): one, unless the unique index is gone. Locks nothing.';
COMMENT ON FUNCTION claims.find_settled_leases() IS
    'Internal: leases that are outstanding and have an outcome, for claims.find_problems(). Locks nothing.';
COMMENT ON FUNCTION claims.find_unknown_owners() IS
    'Internal: the cells that own claims and are not registered, for claims.find_problems(). Locks nothing.';
COMMENT ON FUNCTION claims.find_problems() IS 'Internal: the rows of claims.check(), with all names. Locks nothing.';
COMMENT ON FUNCTION claims.check() IS
    'Returns one row per violation of the rules that the tables must always keep, normally none. Reads claims.claims and all leases once, and '
    'claims.claims once more while a transfer is open; locks nothing. For administrators, and for monitoring roles, which see no bucket values '
    'and payloads.';
COMMENT ON FUNCTION claims.find_distributed_problems() IS
    'Internal: the rows of claims.check() on distributed tables, with all names. The nodes have no common snapshot: a transaction that is '
    'committing may look like a problem. Locks nothing.';
COMMENT ON TABLE claims.cell_epochs IS
    'At the service: the epochs that distinguish the database of a cell from its clones and restored backups. Written by claims.present_epoch().';
COMMENT ON COLUMN claims.cell_epochs.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.cell_epochs.epoch IS 'The token that its database presented last.';
COMMENT ON COLUMN claims.cell_epochs.presented_at IS 'When it did (clock time).';
COMMENT ON FUNCTION claims.hold_naming() IS
    'Internal trigger: locks claims.bucket_types EXCLUSIVE before a profile changes. Waits for transactions that write names whose profile can '
    'change.';
COMMENT ON TRIGGER hold_naming ON claims.bucket_types IS 'A profile changes only while no transaction writes names by it.';
COMMENT ON TABLE claims.limit_settings IS 'The limits that were set; claims.cell_limits shows them. Written by claims.set_cell_limits().';
COMMENT ON COLUMN claims.limit_settings.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.limit_settings.max_outstanding IS 'The most leases that it may have outstanding; NULL: no limit.';
COMMENT ON COLUMN claims.limit_settings.max_batch_size IS 'The most records of a batch; NULL: only claims.max_batch_size limits it.';
COMMENT ON COLUMN claims.limit_settings.begins_per_second IS
    'The most begins and fences a second; NULL: no limit. Holds only where the library is preloaded.';
COMMENT ON COLUMN claims.limit_settings.reason IS 'The reason that was given.';
COMMENT ON COLUMN claims.limit_settings.since IS 'When they were set (clock time).';
COMMENT ON COLUMN claims.limit_settings.role IS 'Role that set them, by its name at that time.';
COMMENT ON VIEW claims.cell_limits IS 'The limits of cells: one row for each cell that has one.';
COMMENT ON COLUMN claims.cell_limits.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.cell_limits.cell_name IS 'Name of the cell, if any.';
COMMENT ON COLUMN claims.cell_limits.max_outstanding IS 'The most leases that it may have outstanding; NULL: no limit.';
COMMENT ON COLUMN claims.cell_limits.max_batch_size IS 'The most records of a batch; NULL: only claims.max_batch_size limits it.';
COMMENT ON COLUMN claims.cell_limits.begins_per_second IS 'The most begins and fences a second; NULL: no limit.';
COMMENT ON COLUMN claims.cell_limits.reason IS 'The reason that was given.';
COMMENT ON COLUMN claims.cell_limits.since IS 'When they were set (clock time).';
COMMENT ON COLUMN claims.cell_limits.role IS 'Role that set them, by its name at that time.';
COMMENT ON FUNCTION claims.list_types() IS
    'All types: kind (bucket, subject, source), number, the name that is shown, and the other names that are accepted; for bucket types also '
    'profile and confusables. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.list_cells() IS 'All cells, with name, address and attributes, for routers. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.node_metrics(int, int) IS
    'Internal: the values of one node of a Citus cluster, for claims.metrics() on any node. Locks nothing.';
COMMENT ON FUNCTION claims.distributed_metrics() IS
    'Internal: claims.metrics() on distributed tables. Nodes that do not answer are left out, and counted as down. Locks nothing.';
COMMENT ON TABLE claims.mode_settings IS 'The modes that were set; claims.modes shows them. Written by claims.set_mode().';
COMMENT ON COLUMN claims.mode_settings.cell_id IS 'The cell; -1: all cells.';
COMMENT ON COLUMN claims.mode_settings.mode IS 'open, settle_only (no begins) or read_only.';
COMMENT ON COLUMN claims.mode_settings.reason IS 'The reason that was given.';
COMMENT ON COLUMN claims.mode_settings.since IS 'When it was set (clock time).';
COMMENT ON COLUMN claims.mode_settings.role IS 'Role that set it, by its name at that time.';
COMMENT ON VIEW claims.modes IS 'The modes in effect: one row for all cells (cell_id NULL), one for each cell.';
COMMENT ON COLUMN claims.modes.cell_id IS 'The cell; NULL: all cells.';
COMMENT ON COLUMN claims.modes.cell_name IS 'Name of the cell, if any.';
COMMENT ON COLUMN claims.modes.mode IS 'The mode that was set for it: open, settle_only (no begins) or read_only.';
COMMENT ON COLUMN claims.modes.in_effect IS 'The stricter of the cell''s mode and that of all cells.';
COMMENT ON COLUMN claims.modes.reason IS 'The reason that was given.';
COMMENT ON COLUMN claims.modes.since IS 'When it was set (clock time).';
COMMENT ON COLUMN claims.modes.role IS 'Role that set it, by its name at that time.';
COMMENT ON COLUMN claims.modes.open_writers IS
    'Open transactions, of all cells, that have begun or settled leases. They may still commit what they began before a mode was set: once this '
    'has been 0 after that, none remains.';
COMMENT ON TABLE claims.skeletons IS
    'For bucket types with confusables reject: the claim and the reserved names of each skeleton. Its key prevents two claims that look alike. '
    'Written only by the functions of this extension.';
COMMENT ON COLUMN claims.skeletons.skeleton IS 'The first 128 bits of the SHA-256 of the name''s UTS #39 skeleton.';
COMMENT ON COLUMN claims.skeletons.bucket_type IS 'Type of the bucket: claims.bucket_types.id.';
COMMENT ON COLUMN claims.skeletons.bucket_value IS 'The name that has the skeleton.';
COMMENT ON COLUMN claims.skeletons.successor IS 'The name that gets the skeleton when the lease that destroys bucket_value commits; NULL: none.';
COMMENT ON COLUMN claims.skeletons.reserved IS 'bucket_value if that is a reserved name; empty if it is a claim.';
COMMENT ON TABLE claims.reservations IS 'Reserved names. Written by claims.reserve_names() and claims.unreserve_names().';
COMMENT ON COLUMN claims.reservations.bucket_type IS 'Type of the bucket: claims.bucket_types.id.';
COMMENT ON COLUMN claims.reservations.bucket_value IS 'The name in its canonical form.';
COMMENT ON COLUMN claims.reservations.display_value IS 'The name as it was given, where that is not its canonical form.';
COMMENT ON COLUMN claims.reservations.reason IS 'Why it is reserved.';
COMMENT ON COLUMN claims.reservations.reserved_by IS 'The role that reserved it.';
COMMENT ON COLUMN claims.reservations.reserved_at IS 'When it was reserved (clock time).';
COMMENT ON VIEW claims.reserved_names IS 'Reserved names, why, by whom and since when.';
COMMENT ON COLUMN claims.reserved_names.bucket_type IS 'Shown name of the type.';
COMMENT ON COLUMN claims.reserved_names.bucket_value IS 'The name in its canonical form.';
COMMENT ON COLUMN claims.reserved_names.display_value IS 'The name as it was given, where that is not its canonical form.';
COMMENT ON VIEW claims.records IS 'claims.claims with names instead of numbers, and with the owning cell''s name and address.';
COMMENT ON COLUMN claims.bucket_types.profile IS 'The profile by which names are compared: exact, casefold, username, domain, email or path.';
COMMENT ON COLUMN claims.bucket_types.confusables IS 'Whether names of the type may look alike: allow or reject.';
COMMENT ON TABLE claims.bucket_types IS 'The bucket types. Extended by claims.add_bucket_type().';
COMMENT ON COLUMN claims.bucket_types.id IS 'Number of the type, as claims.claims keeps it.';
COMMENT ON COLUMN claims.bucket_types.name IS 'The name that is shown. Callers may write any of claims.type_names.';
COMMENT ON TABLE claims.subject_types IS 'The subject types. Extended by claims.add_subject_type().';
COMMENT ON COLUMN claims.subject_types.id IS 'Number of the type, as claims.claims keeps it.';
COMMENT ON COLUMN claims.subject_types.name IS 'The name that is shown. Callers may write any of claims.type_names.';
COMMENT ON TABLE claims.source_types IS 'The source types, the tables of a cell. Extended by claims.add_source_type().';
COMMENT ON COLUMN claims.source_types.id IS 'Number of the type, as claims.claims keeps it.';
COMMENT ON COLUMN claims.source_types.name IS 'The name that is shown. Callers may write any of claims.type_names.';
COMMENT ON TABLE claims.cells IS 'The registered cells, each with the role that may act for it. Written by claims.register_cell().';
COMMENT ON COLUMN claims.cells.cell_id IS 'Number of the cell.';
COMMENT ON COLUMN claims.cells.role IS
    'Role whose privileges allow a caller to act for the cell. regrole survives a renamed role and is dumped by name.';
COMMENT ON COLUMN claims.cells.name IS 'Name of the cell for people, if any.';
COMMENT ON COLUMN claims.cells.address IS 'Where routers find the cell, if known.';
COMMENT ON COLUMN claims.cells.registered_at IS 'When the cell was first registered.';
COMMENT ON COLUMN claims.cells.attributes IS 'Further data about the cell for routers: a JSON object.';
COMMENT ON COLUMN claims.cells.role_name IS
    'On distributed tables the name of the role, since the numbers of roles differ between nodes. Otherwise not in use.';
COMMENT ON TABLE claims.claims IS 'Every claim: bucket, subject, source, and the cell that owns it. Written only by the functions of this extension.';
COMMENT ON INDEX claims.claims_bucket IS 'Guarantees that every bucket occurs once.';
COMMENT ON INDEX claims.claims_source IS 'The order in which claims are listed and verified.';
COMMENT ON COLUMN claims.claims.uuid IS 'Identity of the claim, a UUIDv7.';
COMMENT ON COLUMN claims.claims.bucket_type IS 'Type of the bucket: claims.bucket_types.id.';
COMMENT ON COLUMN claims.claims.bucket_value IS
    'Value of the bucket in its canonical form, 1 to 1,024 characters of at most 2,600 bytes, compared byte by byte.';
COMMENT ON COLUMN claims.claims.subject_type IS 'Type of the subject: claims.subject_types.id.';
COMMENT ON COLUMN claims.claims.subject_id IS 'Id of the subject, as text.';
COMMENT ON COLUMN claims.claims.source_type IS 'Table of the cell''s own database: claims.source_types.id.';
COMMENT ON COLUMN claims.claims.source_id IS 'Primary key in that table, kept as text.';
COMMENT ON COLUMN claims.claims.creator_id IS 'The owning cell. While status is 4, the transfer has the owner (claims.cell_transfers.cell_id).';
COMMENT ON COLUMN claims.claims.lease_uuid IS 'The outstanding lease, or the transfer, that holds the claim; NULL exactly when status is 1.';
COMMENT ON COLUMN claims.claims.status IS '0 UNSPECIFIED, 1 ACTIVE, 2 LEASE_CREATING, 3 LEASE_DESTROYING, 4 TRANSFERRING.';
COMMENT ON COLUMN claims.claims.created_at IS 'When the claim was made (clock time).';
COMMENT ON COLUMN claims.claims.updated_at IS 'When the claim last changed (clock time).';
COMMENT ON COLUMN claims.claims.display_value IS 'The name as it was given, where that is not its canonical form.';
COMMENT ON TABLE claims.claim_leases IS 'One row per outstanding lease, gone when the lease is settled.';
COMMENT ON INDEX claims.claim_leases_age IS 'The order in which a cell''s leases are listed.';
COMMENT ON COLUMN claims.claim_leases.uuid IS 'The lease.';
COMMENT ON COLUMN claims.claim_leases.creator_id IS 'The cell that took it.';
COMMENT ON COLUMN claims.claim_leases.payload IS 'The normalized request: {"create_records": [...], "destroy_records": [...]}.';
COMMENT ON COLUMN claims.claim_leases.created_at IS 'When the lease was made (clock time, not the start of the transaction).';
COMMENT ON COLUMN claims.claim_leases.updated_at IS 'When the lease last changed (clock time).';
COMMENT ON COLUMN claims.claim_leases.request_digest IS 'SHA-256 of the normalized request: tells a repeat from another request.';
COMMENT ON COLUMN claims.claim_leases.cell_xid IS 'pg_current_xact_id() of the cell''s local transaction, if the cell passed it.';
COMMENT ON TABLE claims.lease_outcomes IS
    'How each settled lease ended, kept for claims.outcome_retention. A fenced lease is one that was rolled back before it began.';
COMMENT ON INDEX claims.lease_outcomes_settled_at IS 'Finds the outcomes that claims.purge_outcomes() deletes, oldest first.';
COMMENT ON COLUMN claims.lease_outcomes.lease_uuid IS 'The lease.';
COMMENT ON COLUMN claims.lease_outcomes.creator_id IS 'The cell that took or fenced it.';
COMMENT ON COLUMN claims.lease_outcomes.outcome IS 'committed or rolled_back.';
COMMENT ON COLUMN claims.lease_outcomes.request_digest IS 'SHA-256 of the normalized request; NULL for a fenced lease.';
COMMENT ON COLUMN claims.lease_outcomes.settled_at IS 'When it was settled (clock time).';
COMMENT ON VIEW claims.leases IS 'The outstanding leases in numbers, for monitoring: no names, no payloads.';
COMMENT ON COLUMN claims.leases.lease_uuid IS 'The lease.';
COMMENT ON COLUMN claims.leases.cell_id IS 'The cell that took it.';
COMMENT ON COLUMN claims.leases.cell_name IS 'Name of the cell, if any.';
COMMENT ON COLUMN claims.leases.age IS 'How long ago it was made.';
COMMENT ON COLUMN claims.leases.creates IS 'How many claims it creates.';
COMMENT ON COLUMN claims.leases.destroys IS 'How many claims it destroys.';
COMMENT ON TABLE claims.cell_transfers IS
    'Every transfer. While a claim is TRANSFERRING (status 4), cell_id of its transfer is the owner: a switch changes this one row. Written by '
    'claims.prepare_transfer() and the functions after it; claims.transfers shows them.';
COMMENT ON INDEX claims.cell_transfers_arrived IS 'Finds the transfers whose claims belong to another cell than their creator_id.';
COMMENT ON COLUMN claims.cell_transfers.transfer_uuid IS 'The transfer; the lease_uuid of the claims that it holds.';
COMMENT ON COLUMN claims.cell_transfers.from_cell IS 'The cell that the claims come from: their creator_id while the transfer holds them.';
COMMENT ON COLUMN claims.cell_transfers.to_cell IS 'The cell that they go to.';
COMMENT ON COLUMN claims.cell_transfers.cell_id IS 'The cell that every read returns for them.';
COMMENT ON COLUMN claims.cell_transfers.state IS 'preparing, prepared, switched, finishing, finished or cancelled.';
COMMENT ON COLUMN claims.cell_transfers.held IS 'How many claims it holds at the moment.';
COMMENT ON COLUMN claims.cell_transfers.skipped IS
    'How many claims the last pass of prepare_transfer() skipped, because a lease or another transaction held them.';
COMMENT ON COLUMN claims.cell_transfers.moved IS 'How many claims finish_transfer() has made ACTIVE.';
COMMENT ON COLUMN claims.cell_transfers.subjects IS 'How many subjects it names.';
COMMENT ON COLUMN claims.cell_transfers.request_digest IS 'SHA-256 of cells and subjects: tells a repeat from another request.';
COMMENT ON COLUMN claims.cell_transfers.marking_after IS 'Position at which the pass of prepare_transfer() continues; NULL: at the start.';
COMMENT ON COLUMN claims.cell_transfers.releasing_after IS 'Position at which finish_transfer() or cancel_transfer() continues; NULL: at the start.';
COMMENT ON COLUMN claims.cell_transfers.reason IS 'The reason that was given when it was first prepared.';
COMMENT ON COLUMN claims.cell_transfers.role IS 'Role that prepared it first, by its name at that time.';
COMMENT ON COLUMN claims.cell_transfers.created_at IS 'When it was first prepared (clock time).';
COMMENT ON COLUMN claims.cell_transfers.updated_at IS 'When a call last changed it (clock time).';
COMMENT ON COLUMN claims.cell_transfers.prepared_at IS 'When it was last prepared completely (clock time).';
COMMENT ON COLUMN claims.cell_transfers.switched_at IS 'When it was last switched (clock time).';
COMMENT ON COLUMN claims.cell_transfers.reversed_at IS 'When it was last reversed (clock time).';
COMMENT ON COLUMN claims.cell_transfers.ended_at IS 'When it was finished or cancelled (clock time).';
COMMENT ON TABLE claims.transfer_subjects IS 'The subjects whose claims a transfer moves. Written by claims.prepare_transfer().';
COMMENT ON COLUMN claims.transfer_subjects.transfer_uuid IS 'The transfer.';
COMMENT ON COLUMN claims.transfer_subjects.subject_type IS 'Type of the subject: claims.subject_types.id.';
COMMENT ON COLUMN claims.transfer_subjects.subject_id IS 'Id of the subject, kept as text.';
COMMENT ON VIEW claims.transfers IS 'The progress of each transfer of a customer''s claims from one cell to another, in numbers; no names.';
COMMENT ON COLUMN claims.transfers.transfer_uuid IS 'The transfer.';
COMMENT ON COLUMN claims.transfers.state IS
    'preparing: claims are being marked; prepared: all are; switched: every read returns the new cell; finishing: claims become ACTIVE; finished; '
    'cancelled.';
COMMENT ON COLUMN claims.transfers.from_cell IS 'The cell that the claims come from.';
COMMENT ON COLUMN claims.transfers.from_name IS 'Its name, if any.';
COMMENT ON COLUMN claims.transfers.to_cell IS 'The cell that they go to.';
COMMENT ON COLUMN claims.transfers.to_name IS 'Its name, if any.';
COMMENT ON COLUMN claims.transfers.cell_id IS 'The cell that every read returns for them at the moment.';
COMMENT ON COLUMN claims.transfers.subjects IS 'How many subjects it names.';
COMMENT ON COLUMN claims.transfers.held IS 'How many claims it holds at the moment.';
COMMENT ON COLUMN claims.transfers.skipped IS 'How many claims its last pass skipped.';
COMMENT ON COLUMN claims.transfers.moved IS 'How many claims are ACTIVE again, in the cell that has them now.';
COMMENT ON TABLE claims.type_names IS
    'All names of all types, each of them accepted. Written by claims.add_bucket_type() and the like, and claims.rename_type().';
COMMENT ON INDEX claims.type_names_first IS 'A type has one first name.';
COMMENT ON COLUMN claims.type_names.kind IS 'bucket, subject or source.';
COMMENT ON COLUMN claims.type_names.name IS 'The name.';
COMMENT ON COLUMN claims.type_names.id IS 'Number of the type.';
COMMENT ON COLUMN claims.type_names.first IS 'Whether it is the first name of the type, which digests use.';
COMMENT ON COLUMN claims.type_names.seeded IS 'It came with the extension, and not from a dump.';
COMMENT ON TABLE claims.type_renames IS
    'The shown names of types that were renamed. A trigger shows every name that is written here, also by a restore. Written by '
    'claims.rename_type().';
COMMENT ON COLUMN claims.type_renames.kind IS 'bucket, subject or source.';
COMMENT ON COLUMN claims.type_renames.id IS 'Number of the type.';
COMMENT ON COLUMN claims.type_renames.name IS 'The name that is shown.';
COMMENT ON FUNCTION claims.show_renamed() IS 'Internal: trigger that shows types by their new names. Locks the type''s row.';
COMMENT ON TRIGGER show_renamed ON claims.type_renames IS 'Shows types by their new names, also after a restore.';

-- part 99-finish.sql
-- The end of every upgrade: owners, privileges and comments as after CREATE EXTENSION.

DROP FUNCTION claims.seed_types(text, int[], text[]);

-- The role that runs ALTER EXTENSION owns the new objects. Give them to the extension's owner, but functions that run with the rights of others to
-- the cluster's first superuser. The owner is that of the schema: after pg_upgrade the extension itself belongs to the superuser that ran it.
DO $$
DECLARE
    owner oid := (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'claims');
    other record;
BEGIN
    FOR other IN
        SELECT format('%s %s', replace(i.type, 'foreign-data', 'foreign data'), i.identity) AS what,
               CASE WHEN i.type IN ('event trigger', 'foreign-data wrapper') OR p.prorettype = 'event_trigger'::regtype
                         OR p.proname IN ('refuse_unrecorded_truncate', 'service_validator') THEN 10 ELSE owner END AS owner
          FROM pg_catalog.pg_depend d
          LEFT JOIN pg_catalog.pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
         CROSS JOIN pg_catalog.pg_identify_object(d.classid, d.objid, 0) i
         WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
           AND d.refobjid = (SELECT e.oid FROM pg_catalog.pg_extension e WHERE e.extname = 'claims')
           -- row types, array types and sequences of columns follow what they belong to
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend a WHERE a.classid = d.classid AND a.objid = d.objid AND a.deptype IN ('a', 'i'))
    LOOP
        EXECUTE format('ALTER %s OWNER TO %I', other.what, pg_catalog.pg_get_userbyid(other.owner));
    END LOOP;
END $$;

-- PUBLIC gets no right on new objects, nor do roles that default privileges name.
DO $$
DECLARE
    other record;
BEGIN
    FOR other IN
        SELECT CASE d.classid WHEN 'pg_proc'::regclass THEN 'ALL ON FUNCTION ' || d.objid::regprocedure
                              WHEN 'pg_type'::regclass THEN 'ALL ON TYPE ' || d.objid::regtype
                              ELSE CASE c.relkind WHEN 'S' THEN 'ALL ON SEQUENCE ' ELSE 'ALL ON TABLE ' END || d.objid::regclass END AS what,
               coalesce(quote_ident(r.rolname), 'PUBLIC') AS grantee
          FROM pg_catalog.pg_depend d
          LEFT JOIN pg_catalog.pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
          LEFT JOIN pg_catalog.pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
          LEFT JOIN pg_catalog.pg_type y ON d.classid = 'pg_type'::regclass AND y.oid = d.objid
         -- PUBLIC always: so PostgreSQL records these privileges as the initial ones
         CROSS JOIN LATERAL (SELECT 0::oid AS grantee WHERE y.oid IS NULL AND c.relkind IS DISTINCT FROM 'S'
                             UNION SELECT a.grantee FROM pg_catalog.aclexplode(coalesce(c.relacl, p.proacl, y.typacl)) a
                                    WHERE a.grantee NOT IN (0, coalesce(c.relowner, p.proowner, y.typowner))) a
          LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
         WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
           AND d.refobjid = (SELECT e.oid FROM pg_catalog.pg_extension e WHERE e.extname = 'claims')
           AND d.classid IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass)
           AND NOT EXISTS (SELECT FROM claims.known_before k WHERE k.classid = d.classid AND k.objid = d.objid)
    LOOP
        EXECUTE format('REVOKE %s FROM %s', other.what, other.grantee);
    END LOOP;
END $$;
DROP TABLE claims.known_before;
-- The one exception, for indexes (sql/install/functions.sql).
GRANT EXECUTE ON FUNCTION claims.canonical_form(text, text) TO PUBLIC;

-- Every object has a comment: keys, constraints and the columns of views get a generated one.
DO $$
DECLARE
    silent record;
BEGIN
    FOR silent IN
        SELECT format('CONSTRAINT %I ON %s', k.conname, k.conrelid::regclass) AS what,
               CASE k.contype WHEN 'p' THEN 'Primary key' WHEN 'u' THEN 'No two rows alike' WHEN 'f' THEN 'Foreign key' ELSE 'What a row must be' END
               || ': ' || pg_catalog.pg_get_constraintdef(k.oid) AS text
          FROM pg_catalog.pg_constraint k
         WHERE k.connamespace = 'claims'::regnamespace AND k.conrelid <> 0 AND pg_catalog.obj_description(k.oid, 'pg_constraint') IS NULL
        UNION ALL
        SELECT format('INDEX %s', i.indexrelid::regclass), format('Enforces constraint %s of %s.', k.conname, i.indrelid::regclass)
          FROM pg_catalog.pg_index i JOIN pg_catalog.pg_constraint k ON k.conindid = i.indexrelid
         WHERE k.connamespace = 'claims'::regnamespace AND pg_catalog.obj_description(i.indexrelid, 'pg_class') IS NULL
        UNION ALL
        SELECT format('COLUMN %s.%I', a.attrelid::regclass, a.attname),
               coalesce((SELECT min(pg_catalog.col_description(t.attrelid, t.attnum)) FROM pg_catalog.pg_attribute t
                           JOIN pg_catalog.pg_class b ON b.oid = t.attrelid
                          WHERE b.relnamespace = 'claims'::regnamespace AND b.relkind = 'r' AND t.attname = a.attname
                            AND b.oid IN (SELECT d.refobjid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_rewrite w ON w.oid = d.objid
                                           WHERE d.classid = 'pg_catalog.pg_rewrite'::regclass AND w.ev_class = v.oid)),
                        'Column ' || a.attname || '.')
          FROM pg_catalog.pg_class v JOIN pg_catalog.pg_attribute a ON a.attrelid = v.oid
         WHERE v.relnamespace = 'claims'::regnamespace AND v.relkind = 'v' AND pg_catalog.col_description(a.attrelid, a.attnum) IS NULL
    LOOP
        EXECUTE format('COMMENT ON %s IS %L', silent.what, silent.text);
    END LOOP;
END $$;

-- While library and tables were of different versions, the event triggers did not handle dropped tables and new partitions.
DELETE FROM claims.claimed_attributes a WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = a.table_name);
DELETE FROM claims.captured_tables t WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = t.table_name);
SELECT claims.change_capture_triggers(a.table_name, true)
  FROM (SELECT DISTINCT table_name FROM claims.claimed_attributes) a
 WHERE EXISTS (SELECT FROM pg_catalog.pg_partition_tree(a.table_name) p JOIN pg_catalog.pg_class c ON c.oid = p.relid AND c.relkind IN ('r', 'p')
                WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = p.relid AND g.tgname = 'claims_truncate'));
SELECT claims.change_request_triggers(t.table_name, t.queue, t.entity_column::text, true)
  FROM claims.captured_tables t
 WHERE EXISTS (SELECT FROM pg_catalog.pg_partition_tree(t.table_name) p JOIN pg_catalog.pg_class c ON c.oid = p.relid AND c.relkind IN ('r', 'p')
                WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g
                                   WHERE g.tgrelid = p.relid AND g.tgname = ('claims_truncate_' || md5(t.queue))::name));

-- Grants roles the new functions of their kind.
SELECT claims.refresh_grants();
