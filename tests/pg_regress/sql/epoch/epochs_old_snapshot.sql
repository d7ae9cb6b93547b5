-- An epoch counts as soon as it is committed, under every isolation level, and a table that somebody has changed is read, too.
SELECT t.clean(); DELETE FROM claims.cell_epochs;
SELECT t.call('SELECT claims.present_epoch(1, 10)');
-- under REPEATABLE READ
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT claims.acting_cell(1, 10, NULL); ROLLBACK;
-- a table with a constraint more
ALTER TABLE claims.cell_epochs ADD CONSTRAINT t CHECK (epoch > 0);
SELECT claims.acting_cell(1, 10, NULL), t.state_of('SELECT claims.acting_cell(1, 9, NULL)');
ALTER TABLE claims.cell_epochs DROP CONSTRAINT t;
DELETE FROM claims.cell_epochs;
