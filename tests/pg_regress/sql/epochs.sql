-- Epochs at the service: of several databases that act as one cell the one whose epoch leads on. (In cells: incident_4_clone_and_backup.sh.)
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
SELECT t.clean(); DELETE FROM claims.cell_epochs;
CREATE FUNCTION t.presents(args text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT regexp_replace(c, '[0-9]{4}-[0-9-]+ [0-9:.]+[+-][0-9:]+', '<time>') FROM t.call('SELECT claims.present_epoch(' || args || ')') c $$;
CREATE FUNCTION t.kept() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('cell %s: %s', cell_id, epoch) FROM claims.cell_epochs ORDER BY cell_id $$;
-- the first one is taken, whatever it is, and repeated; then what follows it
SELECT t.presents('1, 10');
SELECT t.presents('1, 10');
SELECT t.presents('1, 11, 10');
SELECT t.presents('1, 11, 10');
-- one that was made and never presented is not in the way
SELECT t.presents('1, 13, 11');
SELECT t.kept();
-- a copy from before, whatever it makes; what has neither; nothing is changed by that
SELECT t.presents('1, 11, 10');
SELECT t.presents('1, 20, 11');
SELECT t.presents('1, 20');
SELECT t.presents('1, 13, 11');
SELECT t.kept();
-- each cell has its own
SELECT t.presents('2, 10'); SELECT t.presents('2, 12, 11');
SELECT t.kept();
-- adopted: whatever the service has
SELECT t.presents('1, 20, 11, ''restored''');
SELECT t.presents('1, 14, 13');
SELECT t.presents('1, 21, 20');
SELECT t.kept();
-- what is rolled back was never presented
BEGIN; SELECT t.presents('1, 22, 21'); ROLLBACK;
SELECT t.presents('1, 23, 21');
-- arguments
SELECT t.presents('NULL, 1'); SELECT t.presents('1, NULL'); SELECT t.presents('1, 24, 23, '''''); SELECT t.presents('77, 1');
-- who: the cell and administrators; nobody can lock another cell out
SET SESSION AUTHORIZATION regress_claims_two;
SELECT t.presents('1, 30, 23');
SELECT t.presents('1, 30, NULL, ''mine now''');
SELECT t.presents('2, 11, 10');
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_claims_router;
SELECT t.presents('1, 30, 23');
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.presents('1, 30, 23');
SELECT t.presents('1, 40, NULL, ''by the cell''');
RESET SESSION AUTHORIZATION;
SELECT t.kept();
-- not while only reading is allowed, adopted neither
SELECT claims.set_mode('read_only', 'x', 1);
SELECT t.state_of('SELECT claims.present_epoch(1, 41, 40)'), t.state_of('SELECT claims.present_epoch(1, 41, NULL, ''x'')');
SELECT claims.set_mode('settle_only', 'x', 1);
SELECT t.presents('1, 41, 40');
SELECT claims.set_mode('open', 'x', 1);
SELECT session_role, role, action, arguments, reason FROM claims.admin_log WHERE action = 'adopt_cell' ORDER BY id;
DELETE FROM claims.cell_epochs; DELETE FROM claims.mode_settings;
DROP FUNCTION t.presents, t.kept;
SELECT t.clean();
