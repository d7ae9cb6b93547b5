-- Saves of a cell present its epoch.

INSERT INTO claims.audiences (function_name, audience) VALUES ('acting_cell', 'cell');

COMMENT ON FUNCTION claims.acting_cell(bigint, bigint, bigint, bigint, boolean) IS
    'Internal, at the service, for cells: returns the cell if the service follows the database that presents this epoch and its predecessor '
    'from this place; 55000 otherwise. Their saves pass the result on to the functions that begin and settle leases. With settles it notes at '
    'most every ten seconds that the database acts; otherwise it changes nothing. Waits for no row.';
