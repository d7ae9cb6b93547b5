-- The key by which erased names are replaced.

-- Not dumped: without it nobody can find out by trying names which one an erased form stands for.
CREATE TABLE claims.erasure_key (
    one     boolean     NOT NULL DEFAULT true PRIMARY KEY CHECK (one),
    key     bytea       NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE claims.erasure_key IS
    'At most one row: the key by which claims.erase_name() replaces names. Made by its first call, deleted by claims.forget_erasure_key(). Not '
    'dumped.';
COMMENT ON COLUMN claims.erasure_key.one IS 'There is at most one key.';
COMMENT ON COLUMN claims.erasure_key.key IS 'The key of HMAC-SHA-256.';
COMMENT ON COLUMN claims.erasure_key.made_at IS 'When it was made.';
