-- The limit by which a cell divides large transactions.

INSERT INTO claims.audiences (function_name, audience) VALUES ('batch_limit', 'cell');
COMMENT ON FUNCTION claims.batch_limit(bigint) IS
    'Returns how many records the cell may send in one batch: claims.max_batch_size, or the cell''s own limit if that is lower. Reads only.';
