-- Expiring claims: keys of which instances take exclusive charge until a deadline.
-- The primary key is the only index, and its columns never change: every renewal is a HOT update, and each page keeps room for it.
-- One sequence gives the tokens of all keys, so that none ever repeats.

CREATE SEQUENCE claims.expiring_tokens AS bigint;
COMMENT ON SEQUENCE claims.expiring_tokens IS
    'The tokens of expiring claims. One sequence for all keys, so that a key that is removed and added again never repeats a token.';

-- No CHECK constraints, as on the other tables that are written often: the functions check their arguments. Either a key was never
-- held (token 0, the other columns NULL), or all columns describe its last holder.
CREATE TABLE claims.expiring_claims (
    kind        text        COLLATE "C" NOT NULL,
    key         text        COLLATE "C" NOT NULL,
    claimant    text        COLLATE "C",
    token       bigint      NOT NULL DEFAULT 0,
    acquired_at timestamptz,
    renewed_at  timestamptz,
    expires_at  timestamptz,
    PRIMARY KEY (kind, key)
) WITH (fillfactor = 50, vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
COMMENT ON TABLE claims.expiring_claims IS
    'Keys, with the claimant that holds each, and until when. A key is held while expires_at is later than clock_timestamp().';
COMMENT ON INDEX claims.expiring_claims_pkey IS 'Every key of a kind occurs once.';
COMMENT ON COLUMN claims.expiring_claims.kind IS 'Kind of the key, 1 to 63 characters.';
COMMENT ON COLUMN claims.expiring_claims.key IS 'The key, 1 to 512 characters, e.g. the id of a service.';
COMMENT ON COLUMN claims.expiring_claims.claimant IS 'The instance that holds the key or held it last; NULL: it was never held.';
COMMENT ON COLUMN claims.expiring_claims.token IS 'Increases with every acquire of the key; 0: it was never held.';
COMMENT ON COLUMN claims.expiring_claims.acquired_at IS 'When it was last acquired (clock time).';
COMMENT ON COLUMN claims.expiring_claims.renewed_at IS 'When it was last acquired or renewed (clock time).';
COMMENT ON COLUMN claims.expiring_claims.expires_at IS 'When the hold expires (clock time).';

-- Verifications that workers share are not dumped, so neither are the holds on their ranges.
SELECT pg_catalog.pg_extension_config_dump('claims.expiring_claims', $$WHERE kind NOT LIKE 'claims.verify %'$$);
SELECT pg_catalog.pg_extension_config_dump('claims.expiring_tokens', '');

INSERT INTO claims.audiences (function_name, audience) VALUES
    ('acquire_expiring', 'worker'), ('renew_expiring', 'worker'), ('held_expiring', 'worker'),
    ('release_expiring', 'worker'), ('assert_held', 'worker');

COMMENT ON FUNCTION claims.add_expiring(text, text[]) IS
    'Adds keys of a kind, free to be acquired, and returns how many were new; administrators only. Locks the new keys in order, and waits for '
    'another open transaction that is adding one of them.';
COMMENT ON FUNCTION claims.remove_expiring(text, text[]) IS
    'Removes keys of a kind, held ones too, and returns how many; administrators only. Locks rows in key order skipping those that another '
    'transaction has locked: they are not counted.';
COMMENT ON FUNCTION claims.acquire_expiring(text, text, interval, int) IS
    'Takes up to max_results (NULL: all) keys that are free or expired, never-held ones first, then oldest expiry first, and returns them with '
    'their new tokens. Locks the rows FOR UPDATE, skipping rows that another transaction has locked. Does not wait.';
COMMENT ON FUNCTION claims.renew_expiring(text, text, interval) IS
    'Extends the keys that the claimant still holds to ttl from now, never shortening, and returns them. A key that is not returned is not '
    'confirmed. Locks the rows FOR NO KEY UPDATE in key order, skipping rows that another transaction has locked. Does not wait.';
COMMENT ON FUNCTION claims.held_expiring(text, text) IS
    'The keys that the claimant holds now. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.release_expiring(text, text, text[]) IS
    'Frees keys that the claimant holds (NULL: all of them) at once, and returns how many. Locks the rows FOR NO KEY UPDATE in key order, '
    'skipping rows that another transaction has locked. Does not wait.';
COMMENT ON FUNCTION claims.assert_held(text, text, bigint) IS
    'Raises 55000 unless the token is the key''s current one and unexpired. Locks the row FOR KEY SHARE until the transaction ends: the claimant '
    'can renew and release, but no other can take the key over. Does not wait.';
COMMENT ON FUNCTION claims.grant_worker(name) IS
    'Grants a role the functions of expiring claims and requests that are not for administrators, and lets it read both tables; administrators only.';
