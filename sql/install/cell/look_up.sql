-- Questions about names.

INSERT INTO claims.audiences (function_name, audience) VALUES ('is_available', 'cell'), ('look_up', 'cell'), ('name_holder', 'reader');
COMMENT ON FUNCTION claims.is_available(regclass, name, text, text) IS
    'In a cell, for a form: whether a value of a claimed column is free at the service of automatic mode. It promises nothing. true also for NULL, and '
    'for a name that the row source_id itself has; false for a name that cannot be claimed; NULL if the service does not answer within '
    'claims.observe_timeout. For roles that may insert or update the column. Locks nothing.';
COMMENT ON FUNCTION claims.look_up(bigint, text, jsonb) IS
    'In a cell: what claims.get_records() returns at the service. For roles that may act for the cell. Locks nothing.';
COMMENT ON FUNCTION claims.name_holder(text, text) IS
    'At the service: what prevents a cell from claiming a name: taken, leased, reserved, or confusable (with a name that looks like it), who has it, '
    'and for which source. No row: the name is free. Locks nothing.';
