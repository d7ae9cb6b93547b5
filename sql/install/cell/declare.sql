-- Comments and audiences of the functions on claimed columns.

INSERT INTO claims.audiences (function_name, audience) VALUES
    ('claim_attribute', 'cell'), ('declare_attribute', 'cell'), ('spell_out_condition', 'cell'), ('unclaim_attribute', 'cell'),
    ('pending_batch', 'cell'), ('begin_pending', 'cell'), ('finish', 'cell'), ('automatic', 'cell');

COMMENT ON FUNCTION claims.spell_out_condition(oid, text, boolean) IS
    'Internal: returns a condition with every name qualified by the caller''s search_path.';
COMMENT ON FUNCTION claims.pending_batch() IS
    'In a cell: the net changes of claimed columns that the current transaction has not sent yet, in the form of begin_update. Always one row. '
    '54000 if there are too many to keep. Locks nothing.';
COMMENT ON FUNCTION claims.begin_pending(bigint, text) IS
    'In a cell: leases the pending batch at the service, a foreign server that leads to the shared database, and tracks the lease, which it '
    'returns; NULL if nothing is pending. Conflicts have the SQLSTATE and DETAIL of begin_update; 57014 if the service did not answer within '
    'claims.service_timeout, 08001 if it cannot be reached. If the local transaction does not commit, recovery rolls the lease back. Locks the '
    'lease''s key here, and what begin_update locks there.';
COMMENT ON FUNCTION claims.finish(bigint, text, uuid) IS
    'In a cell, after the local COMMIT: commits a tracked lease at the service and forgets it here. true: this call committed it; false: it had '
    'been committed before. 55000 before the local COMMIT, and for a lease that is not tracked. If it fails, recovery commits the lease. Locks '
    'the tracked row here, and what commit_update locks there.';
COMMENT ON FUNCTION claims.change_capture_triggers(oid, boolean) IS
    'Internal: puts the triggers of claimed tables on a table and its partitions, or takes them off.';
COMMENT ON FUNCTION claims.change_request_triggers(oid, text, text, boolean) IS
    'Internal: like change_capture_triggers, for a table whose changes become requests.';
COMMENT ON FUNCTION claims.capture_row() IS 'Internal: trigger of claimed tables that records the names that a row adds and removes.';
COMMENT ON FUNCTION claims.has_fixed_text(oid) IS 'Internal: whether the text of a type''s values is the same in every session.';
COMMENT ON FUNCTION claims.complete_triggers() IS 'Internal: event trigger that has new partitions of claimed and captured tables refuse TRUNCATE.';
COMMENT ON FUNCTION claims.forget_dropped_tables() IS 'Internal: event trigger that ends the capture of tables that are dropped.';
COMMENT ON FUNCTION claims.refuse_truncate() IS 'Internal: trigger of claimed tables; 55000.';
COMMENT ON FUNCTION claims.send_automatically() IS 'Internal: deferred trigger that sends the pending batch in automatic mode.';
COMMENT ON FUNCTION claims.require_cell(bigint) IS 'Internal: raises 42501 unless the caller may act for a cell.';
COMMENT ON TRIGGER announce_change ON claims.claimed_attributes IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.automatic_service IS 'Sessions cache this table.';
COMMENT ON TRIGGER automatic ON claims.automatic_queue IS 'Sends the pending batch at the end of the transaction.';
