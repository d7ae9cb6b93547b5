-- What counts as the same name changes only while nobody writes names of that kind.

-- On every node where the tables are spread: the trigger is fired there by the statement that changes the row, in the same
-- transaction. So the lock is kept as long as the change is not committed there, also when the node restarts in between.
CREATE FUNCTION claims.hold_naming() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'hold_naming_wrapper';
COMMENT ON FUNCTION claims.hold_naming() IS 'Internal trigger: locks claims.bucket_types EXCLUSIVE before what counts as the same name changes. Waits for those who write names whose profile can change.';

CREATE TRIGGER hold_naming BEFORE UPDATE OF profile, confusables ON claims.bucket_types
    FOR EACH STATEMENT EXECUTE FUNCTION claims.hold_naming();
ALTER TABLE claims.bucket_types ENABLE ALWAYS TRIGGER hold_naming;
COMMENT ON TRIGGER hold_naming ON claims.bucket_types IS 'A profile changes while nobody writes names by it.';
