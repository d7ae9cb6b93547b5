-- CREATE SCHEMA without IF NOT EXISTS: a schema that was there before belongs to somebody else, and is refused.
CREATE SCHEMA claims;
COMMENT ON SCHEMA claims IS 'Globally unique names: leases, claims and their verification.';
