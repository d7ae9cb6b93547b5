-- The profiles of bucket types that come with the extension.

-- A table of its own, because pg_dump carries whole rows: the row of a seeded type comes with CREATE EXTENSION, its profile does not.
CREATE TABLE claims.seeded_profiles (
    bucket_type int  PRIMARY KEY,
    profile     text COLLATE "C" NOT NULL,
    confusables text COLLATE "C" NOT NULL
);
COMMENT ON TABLE claims.seeded_profiles IS
    'The profiles of those bucket types that come with the extension and were changed. A trigger sets every profile that is written here, also by a '
    'restore. Written by claims.set_profile().';
COMMENT ON COLUMN claims.seeded_profiles.bucket_type IS 'Number of the type.';
COMMENT ON COLUMN claims.seeded_profiles.profile IS 'Its profile.';
COMMENT ON COLUMN claims.seeded_profiles.confusables IS 'Whether its names may look alike: allow or reject.';

CREATE FUNCTION claims.set_seeded_profile() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- set_profile() has changed the type itself.
    IF EXISTS (SELECT FROM claims.bucket_types t
                WHERE t.id = NEW.bucket_type AND (t.profile, t.confusables) <> (NEW.profile, NEW.confusables)) THEN
        UPDATE claims.bucket_types SET profile = NEW.profile, confusables = NEW.confusables WHERE id = NEW.bucket_type;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION claims.set_seeded_profile() IS
    'Internal: trigger that sets the profiles of seeded bucket types. Locks the type''s row, and claims.bucket_types EXCLUSIVE.';
CREATE TRIGGER set_seeded_profile AFTER INSERT OR UPDATE ON claims.seeded_profiles
    FOR EACH ROW EXECUTE FUNCTION claims.set_seeded_profile();
ALTER TABLE claims.seeded_profiles ENABLE ALWAYS TRIGGER set_seeded_profile;
COMMENT ON TRIGGER set_seeded_profile ON claims.seeded_profiles IS 'Sets the profiles of seeded types, also after a restore.';
SELECT pg_catalog.pg_extension_config_dump('claims.seeded_profiles', '');
