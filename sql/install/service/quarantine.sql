-- Names that are kept back after their owners gave them up.

CREATE VIEW claims.quarantined_names AS
    -- creator_id -1: the index by owner finds the names of nobody without reading the others.
    SELECT coalesce(b.name, c.bucket_type::text) AS bucket_type, c.bucket_value, NULLIF(c.given_up_by, -1) AS cell_id,
           coalesce(s.name, c.subject_type::text) AS subject_type, c.subject_id, c.updated_at AS given_up_at, c.available_at
      FROM claims.claims c
      LEFT JOIN claims.bucket_types b ON b.id = c.bucket_type
      LEFT JOIN claims.subject_types s ON s.id = c.subject_type
     WHERE c.creator_id = -1 AND c.status IN (5, 6) AND c.available_at > clock_timestamp();
COMMENT ON VIEW claims.quarantined_names IS
    'The names that are kept back now: who gave each of them up, when, and from when on everybody can have it. For administrators.';
COMMENT ON COLUMN claims.quarantined_names.bucket_type IS 'Shown name of the type.';
COMMENT ON COLUMN claims.quarantined_names.bucket_value IS 'The name in its canonical form.';
COMMENT ON COLUMN claims.quarantined_names.cell_id IS 'The cell that gave it up, or the one to which its customer has moved since; NULL: that cell was removed.';
COMMENT ON COLUMN claims.quarantined_names.subject_type IS 'Shown name of the type of the subject that it belonged to.';
COMMENT ON COLUMN claims.quarantined_names.subject_id IS 'Id of that subject.';
COMMENT ON COLUMN claims.quarantined_names.given_up_at IS 'When it was given up (clock time).';
COMMENT ON COLUMN claims.quarantined_names.available_at IS 'From when on everybody can have it.';

COMMENT ON FUNCTION claims.set_quarantine(text, interval, text, text) IS
    'Sets for how long names of a bucket type are kept back after their owners have given them up (0, the default: not at all), and who may have '
    'them meanwhile (reclaim): subject, the cell that gave a name up for the same subject; cell, that cell; nobody. In effect at COMMIT for calls that '
    'begin then; names that are kept back already stay so for as long as they were to. A month is 30 days, and a day 24 hours. 55000 for the type of a '
    'unique of claims.add_unique(). Locks the types.';
COMMENT ON FUNCTION claims.release_quarantine(text, text[], text) IS
    'Frees names that are kept back, at once for everybody. Returns how many. A name that a lease reclaims is free if that lease is rolled back. '
    'Locks the rows of the names; waits up to claims.wait_timeout for open transactions that change them, then 55P03.';
COMMENT ON FUNCTION claims.purge_quarantine() IS
    'Deletes the rows of names whose time is over. They are free without that, too: it only makes room. Returns how many. The worker does it by '
    'itself. Skips locked rows.';
COMMENT ON FUNCTION claims.hand_over(text, text, bigint, text, text, text, text, text) IS
    'Gives a name to a cell, for a subject and a source: from COMMIT on it is an ACTIVE claim of that cell. Returns where it was: cell (with another '
    'one, or the same), reserved, quarantined or free. 55P03 if a lease, a transfer or an open transaction holds it; 23505 if it looks like another '
    'name and its type refuses that. docs/runbook.md says what to do in the cells. Locks the row of the name; waits up to claims.wait_timeout.';
