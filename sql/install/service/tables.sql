-- The tables of the claims service.
--
-- No foreign keys and no index on a column that a lease changes: a lease's claims are found through its payload and
-- the unique index on the bucket, so that begin and commit stay HOT updates.

CREATE TABLE claims.bucket_types (
    id   int  PRIMARY KEY CHECK (id >= 0),
    name text COLLATE "C" NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 63),
    profile     text COLLATE "C" NOT NULL DEFAULT 'exact' CHECK (profile IN ('exact', 'casefold', 'username', 'domain', 'email', 'path')),
    confusables text COLLATE "C" NOT NULL DEFAULT 'allow' CHECK (confusables IN ('allow', 'reject')),
    keep_for    interval NOT NULL DEFAULT '0' CHECK (keep_for >= '0'),
    reclaim     text COLLATE "C" NOT NULL DEFAULT 'subject' CHECK (reclaim IN ('subject', 'cell', 'nobody'))
);
COMMENT ON COLUMN claims.bucket_types.keep_for IS
    'How long a name of the type is kept back after its owner has given it up; 0: not at all. Written by claims.set_quarantine().';
COMMENT ON COLUMN claims.bucket_types.reclaim IS
    'Who may have such a name meanwhile: the cell that gave it up for the same subject (subject) or for every one (cell), or nobody.';
COMMENT ON COLUMN claims.bucket_types.profile IS 'The profile by which names are compared: exact, casefold, username, domain, email or path.';
COMMENT ON COLUMN claims.bucket_types.confusables IS 'Whether names of the type may look alike: allow or reject.';
COMMENT ON TABLE claims.bucket_types IS 'The bucket types. Extended by claims.add_bucket_type().';
COMMENT ON COLUMN claims.bucket_types.id IS 'Number of the type, as claims.claims keeps it.';
COMMENT ON COLUMN claims.bucket_types.name IS 'The name that is shown. Callers may write any of claims.type_names.';

CREATE TABLE claims.subject_types (
    id   int  PRIMARY KEY CHECK (id >= 0),
    name text COLLATE "C" NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 63)
);
COMMENT ON TABLE claims.subject_types IS 'The subject types. Extended by claims.add_subject_type().';
COMMENT ON COLUMN claims.subject_types.id IS 'Number of the type, as claims.claims keeps it.';
COMMENT ON COLUMN claims.subject_types.name IS 'The name that is shown. Callers may write any of claims.type_names.';

CREATE TABLE claims.source_types (
    id   int  PRIMARY KEY CHECK (id >= 0),
    name text COLLATE "C" NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 63)
);
COMMENT ON TABLE claims.source_types IS 'The source types, the tables of a cell. Extended by claims.add_source_type().';
COMMENT ON COLUMN claims.source_types.id IS 'Number of the type, as claims.claims keeps it.';
COMMENT ON COLUMN claims.source_types.name IS 'The name that is shown. Callers may write any of claims.type_names.';

INSERT INTO claims.bucket_types (id, name) VALUES
    (0, 'UNSPECIFIED'), (1, 'ROUTES'), (2, 'ORGANIZATION_PATH'), (3, 'REDIRECT_ROUTES'), (4, 'USERNAMES'), (5, 'EMAILS'),
    (6, 'PROJECT_IDS'), (7, 'NAMESPACE_IDS'), (8, 'GPG_KEYS'), (9, 'SSH_KEYS'), (10, 'USER_IDS'), (11, 'ORGANIZATION_IDS'),
    (12, 'SERVICE_DESK_CUSTOM_EMAILS'), (13, 'GPG_KEY_FINGERPRINTS'), (14, 'SERVICE_DESK_PROJECT_KEY_ADDRESS_SLUG'),
    (15, 'SSH_KEY_FINGERPRINTS'), (16, 'SNIPPET_IDS'), (17, 'PAGES_DOMAINS'), (18, 'PAGES_UNIQUE_DOMAINS');
INSERT INTO claims.subject_types (id, name) VALUES
    (0, 'UNSPECIFIED'), (1, 'ORGANIZATION'), (2, 'GROUP'), (3, 'PROJECT'), (4, 'USER');
INSERT INTO claims.source_types (id, name) VALUES
    (0, 'UNSPECIFIED'), (1, 'RAILS_TABLE_USERS'), (2, 'RAILS_TABLE_EMAILS'), (3, 'RAILS_TABLE_ROUTES'),
    (4, 'RAILS_TABLE_PROJECTS'), (5, 'RAILS_TABLE_GROUPS'), (6, 'RAILS_TABLE_ORGANIZATIONS'),
    (7, 'RAILS_TABLE_REDIRECT_ROUTES'), (8, 'RAILS_TABLE_GPG_KEYS'), (9, 'RAILS_TABLE_KEYS'),
    (10, 'RAILS_TABLE_SERVICE_DESK_SETTINGS'), (11, 'RAILS_TABLE_MEMBERS'), (12, 'RAILS_TABLE_SNIPPETS'),
    (13, 'RAILS_TABLE_PAGES_DOMAINS'), (14, 'RAILS_TABLE_PROJECT_SETTINGS'), (15, 'RAILS_TABLE_JIRA_CONNECT_INSTALLATIONS');

CREATE TABLE claims.cells (
    cell_id       bigint      PRIMARY KEY,
    role          regrole     NOT NULL,
    name          text,
    address       text,
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    attributes    jsonb,
    role_name     name
);
COMMENT ON TABLE claims.cells IS 'The registered cells, each with the role that may act for it. Written by claims.register_cell().';
COMMENT ON COLUMN claims.cells.cell_id IS 'Number of the cell.';
COMMENT ON COLUMN claims.cells.role IS
    'Role whose privileges allow a caller to act for the cell. regrole survives a renamed role and is dumped by name.';
COMMENT ON COLUMN claims.cells.name IS 'Name of the cell for people, if any.';
COMMENT ON COLUMN claims.cells.address IS 'Where routers find the cell, if known.';
COMMENT ON COLUMN claims.cells.registered_at IS 'When the cell was first registered.';
COMMENT ON COLUMN claims.cells.attributes IS 'Further data about the cell for routers: a JSON object.';
COMMENT ON COLUMN claims.cells.role_name IS
    'On distributed tables the name of the role, since the numbers of roles differ between nodes. Otherwise not in use.';

-- No CHECK constraints on the three tables that every lease writes: PostgreSQL reads their expressions for every statement, which
-- cost a third of a small begin. The functions check their arguments, claims.check() the stored rows.
CREATE TABLE claims.claims (
    uuid         uuid        NOT NULL DEFAULT gen_random_uuid(),
    bucket_type  int         NOT NULL,
    bucket_value text        COLLATE "C" NOT NULL,
    subject_type int         NOT NULL,
    subject_id   text        COLLATE "C" NOT NULL,
    source_type  int         NOT NULL,
    source_id    text        COLLATE "C" NOT NULL,
    creator_id   bigint      NOT NULL,
    lease_uuid   uuid,
    status       smallint    NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    display_value text       COLLATE "C",
    -- Only of names that are kept back. A NULL takes no byte.
    given_up_by  bigint,
    available_at timestamptz,
    -- The value first: a statement that looks for many values has only good ways through this index, whatever the
    -- statistics say.
    CONSTRAINT claims_bucket PRIMARY KEY (bucket_value, bucket_type)
) WITH (fillfactor = 50, vacuum_truncate = off);
-- fillfactor: commit writes each claim a second time. With room on the page for both versions that is a HOT update, whatever the size of the batch.
-- vacuum_truncate: truncating takes an ACCESS EXCLUSIVE lock, for which no save in a cell should wait.
CREATE INDEX claims_source ON claims.claims (creator_id, source_type, length(source_id), source_id);
COMMENT ON TABLE claims.claims IS 'Every claim: bucket, subject, source, and the cell that owns it. Written only by the functions of this extension.';
COMMENT ON INDEX claims.claims_bucket IS 'Guarantees that every bucket occurs once.';
COMMENT ON INDEX claims.claims_source IS 'The order in which claims are listed and verified.';
COMMENT ON COLUMN claims.claims.uuid IS 'Identity of the claim, a UUIDv7.';
COMMENT ON COLUMN claims.claims.bucket_type IS 'Type of the bucket: claims.bucket_types.id.';
COMMENT ON COLUMN claims.claims.bucket_value IS
    'Value of the bucket in its canonical form, 1 to 1,024 characters of at most 2,600 bytes, compared byte by byte.';
COMMENT ON COLUMN claims.claims.subject_type IS 'Type of the subject: claims.subject_types.id.';
COMMENT ON COLUMN claims.claims.subject_id IS 'Id of the subject, as text.';
COMMENT ON COLUMN claims.claims.source_type IS 'Table of the cell''s own database: claims.source_types.id.';
COMMENT ON COLUMN claims.claims.source_id IS 'Primary key in that table, kept as text.';
COMMENT ON COLUMN claims.claims.creator_id IS 'The owning cell. While status is 4, the transfer has the owner (claims.cell_transfers.cell_id).';
COMMENT ON COLUMN claims.claims.lease_uuid IS 'The outstanding lease, or the transfer, that holds the claim; NULL exactly when status is 1 or 5.';
COMMENT ON COLUMN claims.claims.status IS
    '0 UNSPECIFIED, 1 ACTIVE, 2 LEASE_CREATING, 3 LEASE_DESTROYING, 4 TRANSFERRING; of names that are kept back, which nobody owns (creator_id -1): '
    '5 KEPT_BACK, 6 LEASE_RECLAIMING.';
COMMENT ON COLUMN claims.claims.created_at IS 'When the claim was made (clock time).';
COMMENT ON COLUMN claims.claims.updated_at IS 'When the claim last changed (clock time).';
COMMENT ON COLUMN claims.claims.display_value IS 'The name as it was given, where that is not its canonical form.';
COMMENT ON COLUMN claims.claims.given_up_by IS 'Of a name that is kept back: the cell that gave it up, and may perhaps have it again; -1: a removed one. NULL: it is not kept back.';
COMMENT ON COLUMN claims.claims.available_at IS 'Of a name that is kept back: from when on everybody can have it. NULL: it is not kept back.';

CREATE TABLE claims.claim_leases (
    uuid           uuid        PRIMARY KEY,
    creator_id     bigint      NOT NULL,
    payload        jsonb       NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    request_digest bytea,
    cell_xid       xid8,
    context        text        COLLATE "C",
    cell_role      text        COLLATE "C"
) WITH (vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000, toast_tuple_target = 8160);
-- A payload is in its row, as it is, if it fits on a page, which that of 40 claims does. Writing a longer one costs more than to compress it with LZ4
-- and to write what is left. Any other compression costs more than writing: where PostgreSQL was built without LZ4, nothing is compressed.
DO $$
BEGIN
    IF (SELECT 'lz4' = ANY (s.enumvals) FROM pg_catalog.pg_settings s WHERE s.name = 'default_toast_compression') THEN
        ALTER TABLE claims.claim_leases ALTER COLUMN payload SET COMPRESSION lz4;
    ELSE
        ALTER TABLE claims.claim_leases ALTER COLUMN payload SET STORAGE EXTERNAL;
    END IF;
END $$;
-- Without the uuid: otherwise a plan made while the table was empty looks leases up through this index.
CREATE INDEX claim_leases_age ON claims.claim_leases (creator_id, created_at);
COMMENT ON TABLE claims.claim_leases IS 'One row per outstanding lease, gone when the lease is settled.';
COMMENT ON INDEX claims.claim_leases_age IS 'The order in which a cell''s leases are listed.';
COMMENT ON COLUMN claims.claim_leases.uuid IS 'The lease.';
COMMENT ON COLUMN claims.claim_leases.creator_id IS 'The cell that took it.';
COMMENT ON COLUMN claims.claim_leases.payload IS 'The normalized request: {"create_records": [...], "destroy_records": [...]}.';
COMMENT ON COLUMN claims.claim_leases.created_at IS 'When the lease was made (clock time, not the start of the transaction).';
COMMENT ON COLUMN claims.claim_leases.updated_at IS 'When the lease last changed (clock time).';
COMMENT ON COLUMN claims.claim_leases.request_digest IS 'SHA-256 of the normalized request: tells a repeat from another request.';
COMMENT ON COLUMN claims.claim_leases.cell_xid IS 'pg_current_xact_id() of the cell''s local transaction, if the cell passed it.';
COMMENT ON COLUMN claims.claim_leases.context IS
    'Who acts and why, as the client of the begin says (claims.context): its word, no identity. NULL: it says nothing.';
COMMENT ON COLUMN claims.claim_leases.cell_role IS
    'The role of the cell''s own session, as the cell says (claims.cell_role): its word, no identity. NULL: it says nothing.';

CREATE TABLE claims.lease_outcomes (
    lease_uuid     uuid        PRIMARY KEY,
    creator_id     bigint      NOT NULL,
    outcome        text        COLLATE "C" NOT NULL,
    request_digest bytea,
    settled_at     timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (vacuum_truncate = off);
CREATE INDEX lease_outcomes_settled_at ON claims.lease_outcomes (settled_at);
COMMENT ON TABLE claims.lease_outcomes IS
    'How each settled lease ended, kept for claims.outcome_retention. A fenced lease is one that was rolled back before it began.';
COMMENT ON INDEX claims.lease_outcomes_settled_at IS 'Finds the outcomes that claims.purge_outcomes() deletes, oldest first.';
COMMENT ON COLUMN claims.lease_outcomes.lease_uuid IS 'The lease.';
COMMENT ON COLUMN claims.lease_outcomes.creator_id IS 'The cell that took or fenced it.';
COMMENT ON COLUMN claims.lease_outcomes.outcome IS 'committed or rolled_back.';
COMMENT ON COLUMN claims.lease_outcomes.request_digest IS 'SHA-256 of the normalized request; NULL for a fenced lease.';
COMMENT ON COLUMN claims.lease_outcomes.settled_at IS 'When it was settled (clock time).';

CREATE VIEW claims.leases AS
    SELECT l.uuid AS lease_uuid, l.creator_id AS cell_id, cell.name AS cell_name, l.created_at, clock_timestamp() - l.created_at AS age,
           CASE jsonb_typeof(l.payload -> 'create_records') WHEN 'array' THEN jsonb_array_length(l.payload -> 'create_records')
               ELSE 0 END::bigint AS creates,
           CASE jsonb_typeof(l.payload -> 'destroy_records') WHEN 'array' THEN jsonb_array_length(l.payload -> 'destroy_records')
               ELSE 0 END::bigint AS destroys,
           l.cell_xid
      FROM claims.claim_leases l LEFT JOIN claims.cells cell ON cell.cell_id = l.creator_id;
COMMENT ON VIEW claims.leases IS 'The outstanding leases in numbers, for monitoring: no names, no payloads.';
COMMENT ON COLUMN claims.leases.lease_uuid IS 'The lease.';
COMMENT ON COLUMN claims.leases.cell_id IS 'The cell that took it.';
COMMENT ON COLUMN claims.leases.cell_name IS 'Name of the cell, if any.';
COMMENT ON COLUMN claims.leases.age IS 'How long ago it was made.';
COMMENT ON COLUMN claims.leases.creates IS 'How many claims it creates.';
COMMENT ON COLUMN claims.leases.destroys IS 'How many claims it destroys.';

-- Data that pg_dump must include. seeded_types.sql says which types.
SELECT pg_catalog.pg_extension_config_dump('claims.cells', '');
SELECT pg_catalog.pg_extension_config_dump('claims.claims', '');
SELECT pg_catalog.pg_extension_config_dump('claims.claim_leases', '');
SELECT pg_catalog.pg_extension_config_dump('claims.lease_outcomes', '');
