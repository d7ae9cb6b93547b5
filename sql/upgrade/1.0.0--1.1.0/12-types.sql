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
-- include sql/install/service/type_names.sql
CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.type_names
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
ALTER TABLE claims.type_names ENABLE ALWAYS TRIGGER announce_change;

SELECT pg_catalog.pg_extension_config_dump('claims.bucket_types', 'WHERE id NOT BETWEEN 0 AND 13 AND id NOT BETWEEN 15 AND 18');
SELECT pg_catalog.pg_extension_config_dump('claims.subject_types', 'WHERE id > 4');
SELECT pg_catalog.pg_extension_config_dump('claims.source_types', 'WHERE id > 14');
