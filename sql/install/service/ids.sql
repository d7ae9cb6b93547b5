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
    max_range      bigint  NOT NULL DEFAULT 1000000 CHECK (max_range >= 1),
    ranges_per_day int     NOT NULL DEFAULT 100 CHECK (ranges_per_day >= 1),
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
COMMENT ON COLUMN claims.id_spaces.max_range IS 'The most ids that a cell may lease in one range.';
COMMENT ON COLUMN claims.id_spaces.ranges_per_day IS 'The most ranges that a cell may lease within 24 hours.';

-- int4range(n, n, '[]') compares numbers for equality with an operator class that core PostgreSQL has for GiST.
CREATE TABLE claims.leased_id_ranges (
    space_number int         NOT NULL,
    id_range     int8range   NOT NULL CHECK (NOT isempty(id_range) AND NOT lower_inf(id_range) AND NOT upper_inf(id_range)),
    cell_id      bigint      NOT NULL,
    leased_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at    timestamptz,
    first_id     bigint      NOT NULL GENERATED ALWAYS AS (lower(id_range)) STORED,
    restored     boolean     NOT NULL DEFAULT false,
    call_number  bigint,
    PRIMARY KEY (space_number, first_id),
    CONSTRAINT leased_id_ranges_never_overlap
        EXCLUDE USING gist (int4range(space_number, space_number, '[]') WITH &&, id_range WITH &&)
);
CREATE INDEX leased_id_ranges_newest ON claims.leased_id_ranges (space_number, cell_id, leased_at);
COMMENT ON INDEX claims.leased_id_ranges_newest IS 'Finds the ranges that a cell got last, and counts those of a day.';
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
COMMENT ON COLUMN claims.leased_id_ranges.restored IS
    'Whether claims.restore_id_range() has recorded it. Such a range does not count against ranges_per_day.';
COMMENT ON COLUMN claims.leased_id_ranges.call_number IS
    'A random number, by which the call that has leased it finds it.';

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

COMMENT ON FUNCTION claims.add_id_space(text, text, bigint, bigint, bigint, bigint, int) IS
    'At the service: adds a set of ids that cells share. first_id and last_id bound it. The first range of a row of ranges reserves block_size '
    'ids, which the following ones use up without a gap; NULL: a thousandth of the space, at most 10^12. A cell may lease max_range ids in one '
    'range, and ranges_per_day ranges within 24 hours. A call for an existing space lets it grow up to a larger last_id, and sets both limits; '
    'first_id and block_size stay. For administrators. 42710 if nothing changes, or if the space would shrink. Locks claims.id_spaces against '
    'other administrators, and the row of an existing space against claims.lease_id_range().';
COMMENT ON FUNCTION claims.lease_id_range(bigint, text, bigint, bigint, bigint, boolean) IS
    'At the service: gives a cell the next size ids of a space, up to at_most, which no cell has had before and none gets again; fewer at the end '
    'of the space, 2200H after it. With or_less at most as many as the space allows in one range; otherwise 53400 if size is more, and also '
    'after ranges_per_day ranges within 24 hours, neither of which binds administrators. The range follows the cell''s last one, or the one that '
    'ends with continue_after, if the ids there are free. A background process gives it, in a transaction of its own: it stays given if the '
    'caller rolls back, and locks nothing afterwards. Not to be repeated: each call gives another range. The commit is flushed to disk.';
COMMENT ON FUNCTION claims.confirm_id_range(bigint, text, bigint, bigint) IS
    'At the service: whether a cell may use the ids from first_id to last_id: leased; closed (another database of the cell was adopted since); '
    'foreign (another cell has some of them); unknown (the service was restored, or never gave them). Locks nothing.';
COMMENT ON FUNCTION claims.restore_id_range(bigint, text, bigint, bigint, text) IS
    'At the service, after it was restored from a backup: records that a cell has the ids from first_id to last_id, which the backup does not '
    'know. 23P01 if another range has some of them. For administrators. Locks the row of the space.';

SELECT pg_catalog.pg_extension_config_dump('claims.id_spaces', '');
SELECT pg_catalog.pg_extension_config_dump('claims.leased_id_ranges', '');
