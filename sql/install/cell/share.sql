-- One verification by several workers: the passes, and their ranges that are not verified yet. An expiring claim of kind
-- 'claims.verify ' and the pass, with the range's number as its key, says which worker has a range.

CREATE TABLE claims.verification_passes (
    pass          uuid        NOT NULL PRIMARY KEY,
    cell_id       bigint      NOT NULL,
    source_type   text        COLLATE "C" NOT NULL,
    correct       boolean     NOT NULL,
    divided_up_to text        COLLATE "C",
    divided       boolean     NOT NULL DEFAULT false,
    ranges        bigint      NOT NULL DEFAULT 0,
    begun_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at   timestamptz,
    service       text
);
CREATE UNIQUE INDEX verification_passes_open ON claims.verification_passes (cell_id, source_type, correct) WHERE finished_at IS NULL;
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
COMMENT ON COLUMN claims.verification_passes.service IS 'The foreign server of the service that its workers ask; NULL: no worker has begun.';

CREATE TABLE claims.verification_ranges (
    pass          uuid   NOT NULL,
    number        bigint NOT NULL,
    source_id_gt  text   COLLATE "C",
    source_id_lte text   COLLATE "C",
    PRIMARY KEY (pass, number)
);
COMMENT ON TABLE claims.verification_ranges IS 'In a cell: the parts of the ranges of shared verifications that are not verified yet. Not dumped.';
COMMENT ON INDEX claims.verification_ranges_pkey IS 'The number of a range is the key of its expiring claim.';
COMMENT ON COLUMN claims.verification_ranges.pass IS 'The pass.';
COMMENT ON COLUMN claims.verification_ranges.number IS 'Number of the range, from 1.';
COMMENT ON COLUMN claims.verification_ranges.source_id_gt IS 'The unverified part begins after this source id; NULL: at the beginning.';
COMMENT ON COLUMN claims.verification_ranges.source_id_lte IS 'It ends with this source id; NULL: it has no end.';

INSERT INTO claims.audiences (function_name, audience) VALUES ('begin_verification', 'cell'), ('verify_share', 'cell');

COMMENT ON FUNCTION claims.begin_verification(bigint, text, boolean) IS
    'In a cell: begins a verification of all claims of one source type for workers that share it, or joins the one under way, and returns its id. '
    'Waits at most a second for another open transaction that is beginning one (55P03).';
COMMENT ON FUNCTION claims.verify_share(uuid, text, text, int, interval, interval) IS
    'In a cell: one step of a worker in a shared verification; call it repeatedly, each call in a transaction of its own, until finished is true. '
    'Verifies as claims.verify() does, for at most half of hold_for, the range that the worker''s previous call took, and takes a range for the '
    'next call: one whose hold has expired, or a new one. in_hand false and finished false: other workers have the rest; call again a little '
    'later. A worker whose hold has expired corrects and records nothing more. Needs READ COMMITTED. Locks what claims.verify() locks, the '
    'range''s expiring claim FOR KEY SHARE, and while it takes a new range the pass, for which it waits at most a second.';

-- Dumps leave out their rows: in a restored database a verification begins anew.
SELECT pg_catalog.pg_extension_config_dump('claims.verification_passes', 'WHERE false');
SELECT pg_catalog.pg_extension_config_dump('claims.verification_ranges', 'WHERE false');
