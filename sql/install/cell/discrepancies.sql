-- Discrepancies by name.

INSERT INTO claims.audiences (function_name, audience) VALUES ('list_discrepancies', 'cell');
COMMENT ON FUNCTION claims.list_discrepancies(bigint, text, text, text, int, interval) IS
    'In a cell: what claims.verify() counts, by name and in the order of source ids, max_results at a time; the last row''s cursor given as after goes on; no row: there are no more. Changes nothing, and moves only what differs. outcome NULL: a correction would put it right; otherwise why not: leased, recent, busy, held_by_other, confusable, reserved, impossible, doubled, foreign. For roles that may act for the cell. Locks nothing.';
