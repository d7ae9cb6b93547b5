-- Restores of types whose ids come with the extension.

-- A dump may have a type whose id the installed release seeds: one that was added before that release, or a seeded bucket type whose profile was
-- changed. COPY cannot update the row that CREATE EXTENSION has inserted, so triggers merge the two. add_bucket_type() and the like never reach
-- the merge, since they refuse an id that a type has.
CREATE FUNCTION claims.merge_restored_type() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    type_kind text := TG_ARGV[0];
    shown text;
    is_same boolean;
BEGIN
    -- In the shards of a distributed table there is nothing to merge: rows are restored before a table is distributed.
    IF TG_TABLE_NAME <> type_kind || '_types' OR NOT EXISTS (SELECT FROM claims.type_names n WHERE n.kind = type_kind AND n.id = NEW.id AND n.seeded) THEN
        RETURN NEW;
    END IF;
    EXECUTE format('SELECT t.name FROM claims.%I t WHERE t.id = $1', TG_TABLE_NAME) INTO shown USING NEW.id;
    IF shown IS NULL THEN
        RETURN NEW;
    END IF;
    IF NEW.name <> shown THEN
        -- A parallel restore may be inserting the same name from the dump of claims.type_names.
        LOCK TABLE claims.type_names IN SHARE ROW EXCLUSIVE MODE;
        INSERT INTO claims.type_names (kind, name, id) VALUES (type_kind, NEW.name, NEW.id) ON CONFLICT (kind, name) DO NOTHING;
    END IF;
    IF type_kind = 'bucket' THEN
        UPDATE claims.bucket_types t SET profile = NEW.profile, confusables = NEW.confusables
         WHERE t.id = NEW.id AND (t.profile, t.confusables) <> (NEW.profile, NEW.confusables);
        UPDATE claims.bucket_types t SET keep_for = NEW.keep_for, reclaim = NEW.reclaim
         WHERE t.id = NEW.id AND (t.keep_for, t.reclaim) <> (NEW.keep_for, NEW.reclaim);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION claims.merge_restored_type() IS
    'Internal: trigger that merges a restored type into a seeded one with the same id: its name becomes another name of the seeded type, which gets '
    'its profile and its quarantine. Locks claims.type_names SHARE ROW EXCLUSIVE, and claims.bucket_types EXCLUSIVE, where it changes them.';
CREATE TRIGGER merge_restored_type BEFORE INSERT ON claims.bucket_types
    FOR EACH ROW WHEN (NEW.id < 100) EXECUTE FUNCTION claims.merge_restored_type('bucket');
CREATE TRIGGER merge_restored_type BEFORE INSERT ON claims.subject_types
    FOR EACH ROW WHEN (NEW.id < 100) EXECUTE FUNCTION claims.merge_restored_type('subject');
CREATE TRIGGER merge_restored_type BEFORE INSERT ON claims.source_types
    FOR EACH ROW WHEN (NEW.id < 100) EXECUTE FUNCTION claims.merge_restored_type('source');

CREATE FUNCTION claims.merge_restored_name() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_TABLE_NAME <> 'type_names' THEN
        RETURN NEW;
    END IF;
    IF EXISTS (SELECT FROM claims.type_names n WHERE n.kind = NEW.kind AND n.name = NEW.name AND n.id = NEW.id) THEN
        RETURN NULL;
    END IF;
    -- The first name of a seeded type is the same in every database, so that digests agree.
    NEW.first := NEW.first AND NOT EXISTS (SELECT FROM claims.type_names n WHERE n.kind = NEW.kind AND n.id = NEW.id AND n.first AND n.seeded);
    RETURN NEW;
END $$;
COMMENT ON FUNCTION claims.merge_restored_name() IS
    'Internal: trigger that makes the restored first name of a type another name where the type is seeded, and skips a name that is there.';
CREATE TRIGGER merge_restored_name BEFORE INSERT ON claims.type_names
    FOR EACH ROW WHEN (NEW.id < 100 AND NOT NEW.seeded) EXECUTE FUNCTION claims.merge_restored_name();

-- ALWAYS: a restore may turn triggers off.
ALTER TABLE claims.bucket_types ENABLE ALWAYS TRIGGER merge_restored_type;
ALTER TABLE claims.subject_types ENABLE ALWAYS TRIGGER merge_restored_type;
ALTER TABLE claims.source_types ENABLE ALWAYS TRIGGER merge_restored_type;
ALTER TABLE claims.type_names ENABLE ALWAYS TRIGGER merge_restored_name;
COMMENT ON TRIGGER merge_restored_type ON claims.bucket_types IS 'Merges a restored type into a seeded one.';
COMMENT ON TRIGGER merge_restored_type ON claims.subject_types IS 'Merges a restored type into a seeded one.';
COMMENT ON TRIGGER merge_restored_type ON claims.source_types IS 'Merges a restored type into a seeded one.';
COMMENT ON TRIGGER merge_restored_name ON claims.type_names IS 'Merges the names of a restored type with those of a seeded one.';

-- Seeded types come with CREATE EXTENSION. pg_dump carries the others, and seeded bucket types whose profile or quarantine was changed.
SELECT pg_catalog.pg_extension_config_dump('claims.bucket_types',
    $$WHERE profile <> 'exact' OR confusables <> 'allow' OR keep_for <> '0' OR reclaim <> 'subject'
      OR id NOT IN (SELECT n.id FROM claims.type_names n WHERE n.kind = 'bucket' AND n.seeded)$$);
SELECT pg_catalog.pg_extension_config_dump('claims.subject_types',
    $$WHERE id NOT IN (SELECT n.id FROM claims.type_names n WHERE n.kind = 'subject' AND n.seeded)$$);
SELECT pg_catalog.pg_extension_config_dump('claims.source_types',
    $$WHERE id NOT IN (SELECT n.id FROM claims.type_names n WHERE n.kind = 'source' AND n.seeded)$$);
