-- The audit log. It is written with every settlement, so it has no CHECK constraints and one index, and its rows are small: each page that they fill
-- is added to the file by the settlement that needs it.

CREATE TABLE claims.audit_log (
    at               timestamptz NOT NULL,
    id               bigint      NOT NULL,
    cell_id          bigint,
    what             text        COLLATE "C" NOT NULL,
    lease_uuid       uuid,
    session_role     text        COLLATE "C" NOT NULL,
    client_address   inet,
    application_name text        COLLATE "C" NOT NULL,
    ops              text[]      COLLATE "C" NOT NULL,
    bucket_types     text[]      COLLATE "C" NOT NULL,
    bucket_values    text[]      COLLATE "C" NOT NULL,
    conflict         jsonb,
    subjects         text[]      COLLATE "C",
    sources          text[]      COLLATE "C",
    old_subjects     text[]      COLLATE "C",
    old_sources      text[]      COLLATE "C",
    context          text        COLLATE "C",
    cell_role        text        COLLATE "C",
    search_keys      bigint[],
    old_cell_id      bigint,
    PRIMARY KEY (at, id)
) WITH (vacuum_truncate = off);
-- New entries go to the index's list of pending ones. The background worker and autovacuum merge them: a session that settles a lease does it
-- only where nobody else has for a very long time.
CREATE INDEX audit_log_search ON claims.audit_log USING gin (search_keys) WITH (fastupdate = on, gin_pending_list_limit = 131072);
COMMENT ON TABLE claims.audit_log IS
    'At the service: who has changed which names, from where, and who was refused, as far as claims.audit asks for it. Kept for '
    'claims.audit_retention.';
COMMENT ON COLUMN claims.audit_log.at IS 'When it happened (clock time).';
COMMENT ON COLUMN claims.audit_log.id IS 'Distinguishes rows of the same moment.';
COMMENT ON COLUMN claims.audit_log.cell_id IS 'The cell; NULL for a denied call that names none, and for lost.';
COMMENT ON COLUMN claims.audit_log.what IS
    'committed or rolled_back: a lease was settled so. imported, corrected, released, transferred, handed_over: names changed hands without one. '
    'quarantine_released: names are no longer kept back. refused: a begin had conflicts. fenced: an unknown lease can no longer begin. denied: 42501. '
    'lost: so many refusals and denials, in conflict, could not be recorded.';
COMMENT ON COLUMN claims.audit_log.lease_uuid IS 'The lease; NULL for a refused begin whose client chose none.';
COMMENT ON COLUMN claims.audit_log.session_role IS 'Role that had logged in, by its name at that time.';
COMMENT ON COLUMN claims.audit_log.client_address IS 'Where its client is; NULL: a Unix socket, or a background process.';
COMMENT ON COLUMN claims.audit_log.application_name IS 'How its client names itself.';
COMMENT ON COLUMN claims.audit_log.ops IS 'create, replace, destroy, transfer or release (of a name that was kept back), for each name.';
COMMENT ON COLUMN claims.audit_log.bucket_types IS 'Type of each name, by the type''s first name.';
COMMENT ON COLUMN claims.audit_log.bucket_values IS 'The names, in canonical form. Of a refused begin only those with conflicts.';
COMMENT ON COLUMN claims.audit_log.conflict IS
    'Of a refused begin: {"conflicts", "omitted"}, up to 20 conflicts in the form of DETAIL and the number of the others. Of lost: {"lost"}.';

COMMENT ON COLUMN claims.audit_log.subjects IS
    'Subject of each name from then on, as TYPE id; NULL: none. Of a rolled back lease or a refused begin the one that it wanted.';
COMMENT ON COLUMN claims.audit_log.sources IS 'Source of each name from then on, as TYPE id, like subjects.';
COMMENT ON COLUMN claims.audit_log.old_subjects IS 'Subject that each name had before, as TYPE id; NULL: none.';
COMMENT ON COLUMN claims.audit_log.old_sources IS 'Source that each name had before, as TYPE id; NULL: none.';
COMMENT ON COLUMN claims.audit_log.context IS
    'Who acted and why, as the client said (claims.context): its word, no identity. NULL: it said nothing.';
COMMENT ON COLUMN claims.audit_log.cell_role IS
    'The role of the cell''s own session, as the cell said: its word, no identity. NULL: it said nothing.';
COMMENT ON COLUMN claims.audit_log.search_keys IS 'Hashes of the names and their subjects, by which histories find the row.';
COMMENT ON COLUMN claims.audit_log.old_cell_id IS
    'Of transferred and handed_over: the cell that had the names before; NULL: none.';
COMMENT ON INDEX claims.audit_log_search IS 'Finds the rows of a name or a subject for claims.bucket_history() and claims.subject_history().';

COMMENT ON FUNCTION claims.purge_audit(interval) IS
    'Deletes rows of claims.audit_log that are older than older_than, and returns how many; for schedulers, administrators only. Locks the rows '
    'it deletes, skipping locked ones.';

SELECT pg_catalog.pg_extension_config_dump('claims.audit_log', '');
