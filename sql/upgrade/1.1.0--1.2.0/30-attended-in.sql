-- The worker waits for the end of a restore.

ALTER TABLE claims.attended_cells ADD COLUMN attended_in text;
COMMENT ON COLUMN claims.attended_cells.attended_in IS
    'Where it was attended: the identifier of the database system and the oid of the database. Elsewhere, as in a dump that is being restored, the '
    'worker begins when claims.own_epochs has a row of the cell.';
UPDATE claims.attended_cells a SET attended_in = format('%s/%s', s.system_identifier, d.oid)
  FROM pg_catalog.pg_control_system() s, pg_catalog.pg_database d
 WHERE d.datname = current_database();
