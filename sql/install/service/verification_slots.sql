-- The cells whose workers verify at this service now.

CREATE TABLE claims.verification_slots (
    cell_id    bigint      NOT NULL PRIMARY KEY,
    held_until timestamptz NOT NULL
);
COMMENT ON TABLE claims.verification_slots IS
    'At the service: the cells whose background workers verify now, at most claims.verification_slots. Written by claims.hold_verification_slot(). '
    'Not dumped.';
COMMENT ON COLUMN claims.verification_slots.cell_id IS 'The cell.';
COMMENT ON COLUMN claims.verification_slots.held_until IS 'When the slot is free again, unless the cell holds it for longer (clock time).';

INSERT INTO claims.audiences (function_name, audience) VALUES ('hold_verification_slot', 'cell');

COMMENT ON FUNCTION claims.hold_verification_slot(bigint, int) IS
    'Internal, at the service, for the workers of cells: holds a slot for verification for a number of seconds, or for that number from now on; 0 '
    'gives it back. False if claims.verification_slots other cells have one, also in open transactions. Waits for no other cell.';
