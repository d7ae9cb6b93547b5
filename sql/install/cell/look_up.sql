-- Questions about names.

INSERT INTO claims.audiences (function_name, audience) VALUES
    ('is_available', 'cell'), ('first_available', 'cell'), ('look_up', 'cell'), ('name_holders', 'reader');
COMMENT ON FUNCTION claims.is_available(regclass, name, text, text) IS
    'In a cell, for a form: whether a value of a claimed column is free at the service of automatic mode. It promises nothing. true also for NULL, and '
    'for a name that the row source_id itself has; false for a name that cannot be claimed; NULL if the service does not answer within '
    'claims.observe_timeout. For roles that may insert or update the column. Locks nothing.';
COMMENT ON FUNCTION claims.first_available(regclass, name, text[], text) IS
    'In a cell, for a form: the first of at most 100 names that is free for a claimed column at the service of automatic mode. It promises nothing. A '
    'name that the row source_id itself has is free for it. NULL, with a NOTICE that says which, if none is, or if the service does not answer within '
    'claims.observe_timeout. For roles that may insert or update the column. Locks nothing.';
COMMENT ON FUNCTION claims.look_up(bigint, text, jsonb) IS
    'In a cell: what claims.get_records() returns at the service. For roles that may act for the cell. Locks nothing.';
COMMENT ON FUNCTION claims.name_holders(text, text[], bigint, text, text) IS
    'At the service: what prevents a cell from claiming names of a type, at most 1,000: taken, leased, reserved, quarantined (given up, and kept back), or '
    'confusable (with a name that looks like it), who has it, and for which source. ordinal counts the names from 1. No row: the name is free. A name '
    'that is kept back is free for the subject of the cell that may have it again. Locks nothing.';
