-- Ranges of ids: no two cells get the same id.

CREATE TABLE claims.id_spaces (
    number     int         NOT NULL PRIMARY KEY,
    name       text        COLLATE "C" NOT NULL UNIQUE,
    first_id   bigint      NOT NULL,
    last_id    bigint      NOT NULL,
    block_size bigint      NOT NULL CHECK (block_size >= 1),
    next_id    bigint      NOT NULL CHECK (next_id >= first_id),
    reason     text        NOT NULL,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    role       name        NOT NULL,
    CHECK (first_id <= last_id)
);
COMMENT ON TABLE claims.id_spaces IS
    'The sets of ids that cells share, such as the keys of one table in all cells. Written by claims.add_id_space(), claims.lease_id_range() and '
    'claims.restore_id_range().';
COMMENT ON COLUMN claims.id_spaces.number IS 'Number of the space, for the exclusion constraint of claims.leased_id_ranges.';
COMMENT ON COLUMN claims.id_spaces.name IS 'Name of the space.';
COMMENT ON COLUMN claims.id_spaces.first_id IS 'The smallest id of the space.';
COMMENT ON COLUMN claims.id_spaces.last_id IS 'The largest id of the space.';
COMMENT ON COLUMN claims.id_spaces.block_size IS
    'The number of ids that are reserved for the first range of a row of ranges, so that later ones can follow it without a gap.';
COMMENT ON COLUMN claims.id_spaces.next_id IS 'The first id of the next block. No range ends above it, and it never decreases.';
COMMENT ON COLUMN claims.id_spaces.reason IS 'The reason that was given.';
COMMENT ON COLUMN claims.id_spaces.since IS 'When it was added (clock time).';
COMMENT ON COLUMN claims.id_spaces.role IS 'Role that added it, by its name at that time.';

-- int4range(n, n, '[]') compares numbers for equality with an operator class that core PostgreSQL has for GiST.
CREATE TABLE claims.leased_id_ranges (
    space_number int         NOT NULL,
    id_range     int8range   NOT NULL CHECK (NOT isempty(id_range) AND NOT lower_inf(id_range) AND NOT upper_inf(id_range)),
    cell_id      bigint      NOT NULL,
    leased_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at    timestamptz,
    first_id     bigint      NOT NULL GENERATED ALWAYS AS (lower(id_range)) STORED,
    PRIMARY KEY (space_number, first_id),
    CONSTRAINT leased_id_ranges_never_overlap
        EXCLUDE USING gist (int4range(space_number, space_number, '[]') WITH &&, id_range WITH &&)
);
COMMENT ON TABLE claims.leased_id_ranges IS
    'Every range of ids that a cell was ever given; claims.id_ranges shows them. No row is deleted, so that no id is given twice. Written by '
    'claims.lease_id_range(), claims.restore_id_range() and, when a database is adopted, claims.present_epoch().';
COMMENT ON COLUMN claims.leased_id_ranges.space_number IS 'The id space.';
COMMENT ON COLUMN claims.leased_id_ranges.id_range IS 'The ids.';
COMMENT ON COLUMN claims.leased_id_ranges.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.leased_id_ranges.leased_at IS 'When the cell got them (clock time).';
COMMENT ON COLUMN claims.leased_id_ranges.closed_at IS
    'When another database of the cell was adopted, which must not continue in the range (clock time); NULL: the cell may use it.';
COMMENT ON COLUMN claims.leased_id_ranges.first_id IS 'The first id; the primary key finds the range that follows another one.';

CREATE VIEW claims.id_ranges AS
    SELECT r.cell_id, s.name AS id_space, r.id_range, r.leased_at, r.closed_at
      FROM claims.leased_id_ranges r JOIN claims.id_spaces s ON s.number = r.space_number;
COMMENT ON VIEW claims.id_ranges IS 'The ranges of ids that cells were given, one row for each call of claims.lease_id_range().';
COMMENT ON COLUMN claims.id_ranges.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.id_ranges.id_space IS 'Name of the id space.';
COMMENT ON COLUMN claims.id_ranges.id_range IS 'The ids.';
COMMENT ON COLUMN claims.id_ranges.leased_at IS 'When the cell got them (clock time).';
COMMENT ON COLUMN claims.id_ranges.closed_at IS
    'When another database of the cell was adopted, which must not continue in the range (clock time); NULL: the cell may use it.';

INSERT INTO claims.audiences (function_name, audience) VALUES ('lease_id_range', 'cell'), ('confirm_id_range', 'cell');

COMMENT ON FUNCTION claims.add_id_space(text, text, bigint, bigint, bigint) IS
    'At the service: adds a set of ids that cells share. first_id and last_id bound it. The first range of a row of ranges reserves block_size '
    'ids, which the following ones use up without a gap; NULL: a thousandth of the space, at most 10^12. For administrators. 42710 if there is a '
    'space of this name. Locks claims.id_spaces against other administrators.';
COMMENT ON FUNCTION claims.lease_id_range(bigint, text, bigint, bigint, bigint) IS
    'At the service: gives a cell the next size ids of a space, up to at_most, which no cell has had before and none gets again; fewer at the end '
    'of the space, 2200H after it. The range follows the cell''s last one, or the one that ends with continue_after, if the ids there are free. '
    'Not to be repeated: each call gives another range. The commit is flushed to disk. Locks the row of the space; waits for other calls.';
COMMENT ON FUNCTION claims.confirm_id_range(bigint, text, bigint, bigint) IS
    'At the service: whether a cell may use the ids from first_id to last_id: leased; closed (another database of the cell was adopted since); '
    'foreign (another cell has some of them); unknown (the service was restored, or never gave them). Locks nothing.';
COMMENT ON FUNCTION claims.restore_id_range(bigint, text, bigint, bigint, text) IS
    'At the service, after it was restored from a backup: records that a cell has the ids from first_id to last_id, which the backup does not '
    'know. 23P01 if another range has some of them. For administrators. Locks the row of the space.';

SELECT pg_catalog.pg_extension_config_dump('claims.id_spaces', '');
SELECT pg_catalog.pg_extension_config_dump('claims.leased_id_ranges', '');
