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
COMMENT ON TABLE claims.skeletons IS
    'For bucket types with confusables reject: the claim and the reserved names of each skeleton. Its key prevents two claims that look alike. '
    'Written only by the functions of this extension.';
COMMENT ON COLUMN claims.skeletons.skeleton IS 'The first 128 bits of the SHA-256 of the name''s UTS #39 skeleton.';
COMMENT ON COLUMN claims.skeletons.bucket_type IS 'Type of the bucket: claims.bucket_types.id.';
COMMENT ON COLUMN claims.skeletons.bucket_value IS 'The name that has the skeleton.';
COMMENT ON COLUMN claims.skeletons.successor IS 'The name that gets the skeleton when the lease that destroys bucket_value commits; NULL: none.';
COMMENT ON COLUMN claims.skeletons.reserved IS 'bucket_value if that is a reserved name; empty if it is a claim.';

-- Reserved names. For each row there is a claim of no cell (creator_id -1), by which every begin finds the reservation at no cost.
CREATE TABLE claims.reservations (
    bucket_type   int         NOT NULL,
    bucket_value  text        COLLATE "C" NOT NULL,
    display_value text        COLLATE "C",
    reason        text        NOT NULL,
    reserved_by   text        NOT NULL,
    reserved_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (bucket_value, bucket_type)
);
COMMENT ON TABLE claims.reservations IS 'Reserved names. Written by claims.reserve_names() and claims.unreserve_names().';
COMMENT ON COLUMN claims.reservations.bucket_type IS 'Type of the bucket: claims.bucket_types.id.';
COMMENT ON COLUMN claims.reservations.bucket_value IS 'The name in its canonical form.';
COMMENT ON COLUMN claims.reservations.display_value IS 'The name as it was given, where that is not its canonical form.';
COMMENT ON COLUMN claims.reservations.reason IS 'Why it is reserved.';
COMMENT ON COLUMN claims.reservations.reserved_by IS 'The role that reserved it.';
COMMENT ON COLUMN claims.reservations.reserved_at IS 'When it was reserved (clock time).';

CREATE VIEW claims.reserved_names AS
    SELECT coalesce(t.name, r.bucket_type::text) AS bucket_type, r.bucket_value, r.display_value, r.reason, r.reserved_by, r.reserved_at
      FROM claims.reservations r LEFT JOIN claims.bucket_types t ON t.id = r.bucket_type;
COMMENT ON VIEW claims.reserved_names IS 'Reserved names, why, by whom and since when.';
COMMENT ON COLUMN claims.reserved_names.bucket_type IS 'Shown name of the type.';
COMMENT ON COLUMN claims.reserved_names.bucket_value IS 'The name in its canonical form.';
COMMENT ON COLUMN claims.reserved_names.display_value IS 'The name as it was given, where that is not its canonical form.';
SELECT pg_catalog.pg_extension_config_dump('claims.skeletons', '');
SELECT pg_catalog.pg_extension_config_dump('claims.reservations', '');
