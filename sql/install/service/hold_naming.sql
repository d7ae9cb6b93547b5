-- A profile changes only while no transaction writes names of a type whose profile can change.

-- On distributed tables the statement that changes the row fires the trigger on every node, in the same transaction. So each node
-- keeps the lock until the change is committed there, also if the node restarts meanwhile.
CREATE FUNCTION claims.hold_naming() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'hold_naming_wrapper';
COMMENT ON FUNCTION claims.hold_naming() IS
    'Internal trigger: locks claims.bucket_types EXCLUSIVE before a profile changes. Waits for transactions that write names whose profile can '
    'change.';

CREATE TRIGGER hold_naming BEFORE UPDATE OF profile, confusables ON claims.bucket_types
    FOR EACH STATEMENT EXECUTE FUNCTION claims.hold_naming();
ALTER TABLE claims.bucket_types ENABLE ALWAYS TRIGGER hold_naming;
COMMENT ON TRIGGER hold_naming ON claims.bucket_types IS 'A profile changes only while no transaction writes names by it.';
