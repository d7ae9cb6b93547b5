-- Turning automatic mode on and off.

COMMENT ON FUNCTION claims.automatic(bigint, text, text[]) IS
    'In a cell: from now on every transaction that changed claimed columns claims its names at this service when it is about to commit: those of '
    'bucket_types, or, where that is NULL, those of all types that no other call has named. service NULL ends that for bucket_types; cell_id and '
    'service NULL turn automatic mode off. The background worker attends to the cell at this service from now on, also when automatic mode is turned '
    'off again: claims.attend(cell_id, NULL) ends that. For roles that may act for the cell. Locks the rows of claims.automatic_service and '
    'claims.automatic_types.';
