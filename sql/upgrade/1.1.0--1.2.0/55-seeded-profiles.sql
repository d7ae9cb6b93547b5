-- Profiles of bucket types that come with the extension.

-- include sql/install/service/seeded_profiles.sql
