-- Discrepancies by name.

INSERT INTO claims.audiences (function_name, audience) VALUES ('list_discrepancies', 'cell');
COMMENT ON FUNCTION claims.list_discrepancies(bigint, text, text, text, int, interval, text) IS
    'In a cell: the discrepancies that claims.verify() counts, by name and in the order of source ids, max_results at a time; to continue, pass '
    'the last row''s cursor as after; no row: there are no more. Changes nothing, and transfers only ranges that differ. outcome NULL: a '
    'correction would resolve it; otherwise why not: leased, recent, busy, held_by_other, confusable, reserved, quarantined, impossible, doubled, foreign, '
    'other_service. With the argument outcome it lists only those. For roles that may act for the cell. Locks nothing.';
