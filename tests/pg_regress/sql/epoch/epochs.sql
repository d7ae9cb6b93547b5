-- Epochs: of several databases that act as one cell, the service follows one. (incident_4_clone_and_backup.sh tests cells.)
SELECT t.clean(); DELETE FROM claims.cell_epochs;
CREATE FUNCTION t.presents(args text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT regexp_replace(c, '[0-9]{4}-[0-9-]+ [0-9:.]+[+-][0-9:]+', '<time>') FROM t.call('SELECT claims.present_epoch(' || args || ')') c $$;
CREATE FUNCTION t.kept() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('cell %s: %s', cell_id, epoch) FROM claims.cell_epochs ORDER BY cell_id $$;
-- the first epoch is accepted, also repeated, and then its successor
SELECT t.presents('1, 10');
SELECT t.presents('1, 10');
SELECT t.presents('1, 11, 10');
SELECT t.presents('1, 11, 10');
-- a successor may skip an epoch that was never presented
SELECT t.presents('1, 13, 11');
SELECT t.kept();
-- epochs of an older copy are refused and change nothing
SELECT t.presents('1, 11, 10');
SELECT t.presents('1, 20, 11');
SELECT t.presents('1, 20');
SELECT t.presents('1, 13, 11');
SELECT t.kept();
-- saves present the pair, too: acting_cell returns the cell if the service has either epoch, and stores nothing
CREATE FUNCTION t.acts(args text) RETURNS text LANGUAGE sql AS $$ SELECT t.state_of('SELECT claims.acting_cell(' || args || ')') $$;
SELECT claims.acting_cell(1, 13, 11), claims.acting_cell(1, 14, 13), claims.acting_cell(1, 13, NULL);
SELECT t.acts('1, 11, 10'), t.acts('1, 20, 11'), t.acts('1, 12, NULL'), t.acts('1, NULL, NULL'), t.acts('1, NULL, 13');
SELECT t.kept();
-- a cell whose databases have presented nothing is refused nothing
SELECT claims.acting_cell(2, 99, 98), claims.acting_cell(2, NULL, NULL);
-- invalid arguments, and cells of others, are refused
SELECT t.acts('NULL, 1, 1'), t.acts('77, 1, NULL');
SET SESSION AUTHORIZATION regress_claims_two; SELECT t.acts('1, 13, 11'), t.acts('2, 13, 11'); RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_claims_router; SELECT t.acts('1, 13, 11'); RESET SESSION AUTHORIZATION;
-- a batch and a settlement of a database that is not followed do nothing
SELECT t.state_of(format('SELECT claims.begin_update_text(claims.acting_cell(1, 11, 10), %L, ''[]'', t.u(1))', '[' || t.claim('epoch')::text || ']'));
SELECT claims.begin_update_text(claims.acting_cell(1, 13, 11), '[' || t.claim('epoch')::text || ']', '[]', t.u(1)) = t.u(1);
SELECT t.state_of('SELECT claims.commit_update(claims.acting_cell(1, 11, 10), t.u(1))'),
       t.state_of('SELECT claims.rollback_update(claims.acting_cell(1, 11, 10), t.u(1))'),
       t.state_of('SELECT * FROM claims.settle_leases(claims.acting_cell(1, 11, 10), ARRAY[t.u(1)])'), claims.lease_outcome(1, t.u(1));
SELECT claims.rollback_update(claims.acting_cell(1, 13, 11), t.u(1));
-- each cell has its own epoch
SELECT t.presents('2, 10'); SELECT t.presents('2, 12, 11');
SELECT t.kept();
-- an adopted epoch is accepted whatever the service has
SELECT t.presents('1, 20, 11, ''restored''');
SELECT t.presents('1, 14, 13');
SELECT t.presents('1, 21, 20');
SELECT t.kept();
-- an epoch that is rolled back was never presented
BEGIN; SELECT t.presents('1, 22, 21'); ROLLBACK;
SELECT t.presents('1, 23, 21');
-- invalid arguments are refused
SELECT t.presents('NULL, 1'); SELECT t.presents('1, NULL'); SELECT t.presents('1, 24, 23, '''''); SELECT t.presents('77, 1');
-- a cell presents its own epochs only; administrators present any
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
-- no epoch is accepted in mode read_only
SELECT claims.set_mode('read_only', 'x', 1);
SELECT t.state_of('SELECT claims.present_epoch(1, 41, 40)'), t.state_of('SELECT claims.present_epoch(1, 41, NULL, ''x'')');
SELECT claims.set_mode('settle_only', 'x', 1);
SELECT t.presents('1, 41, 40');
SELECT claims.set_mode('open', 'x', 1);
SELECT session_role, role, action, arguments, reason FROM claims.admin_log WHERE action = 'adopt_cell' ORDER BY id;
-- admin_log gets one row for each adoption, none for a repeat, and a limited number an hour
DELETE FROM claims.admin_log;
CREATE FUNCTION t.adoptions() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS $$ SELECT count(*) FROM claims.admin_log WHERE action = 'adopt_cell' $$;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT count(*) FROM generate_series(1, 100), LATERAL t.presents('1, 41, NULL, ''again''') p WHERE p LIKE 'ok%';
SELECT t.adoptions();
SELECT t.presents(format('1, %s, NULL, repeat(''é'', 1000)', 100 + n)) FROM generate_series(1, 10) n;
SELECT t.adoptions();
SELECT t.presents(format('1, %s, NULL, ''once more''', 100 + n)) FROM generate_series(10, 11) n;
SELECT t.presents('1, 102, NULL, repeat(''é'', 1001)'); SELECT t.presents('1, 102, NULL, '' ''');
SELECT t.kept(), t.adoptions();
-- a normal successor is accepted beyond that limit
SELECT t.presents('1, 200, 110');
RESET SESSION AUTHORIZATION;
-- the limit does not apply to other cells and administrators, and ends after an hour
SET SESSION AUTHORIZATION regress_claims_two;
SELECT t.presents('2, 300, NULL, ''theirs''');
RESET SESSION AUTHORIZATION;
SELECT t.presents('1, 201, NULL, ''by an administrator''');
UPDATE claims.admin_log SET id = (lpad(to_hex((('x' || replace(left(id::text, 13), '-', ''))::bit(48)::bigint - 3601000)), 12, '0')
      || substr(replace(id::text, '-', ''), 13))::uuid WHERE reason LIKE 'é%';
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.presents('1, 202, NULL, ''later''');
RESET SESSION AUTHORIZATION;
SELECT t.kept(), t.adoptions();
DROP FUNCTION t.adoptions();
-- a copy that presents the same epoch from another place waits while the first one acts, in passes and saves
DELETE FROM claims.cell_epochs;
SELECT t.presents('1, 500, NULL, NULL, 7, 1, 1, ''a:/pg''');
SELECT t.presents('1, 500, NULL, NULL, 8, 1, 1, ''b:/pg'', false'); SELECT t.presents('1, 501, 500, NULL, 8, 1, 1, ''b:/pg''');
SELECT t.presents('1, 501, 500');
SELECT t.acts('1, 500, NULL, 7'), t.acts('1, 500, NULL, 8'), t.acts('1, 500, NULL, 7, true'), t.acts('1, 500, NULL, 8, true'),
       t.acts('1, 500, NULL, 7, NULL');
-- the same place is followed after a restart, and a promoted standby on a newer timeline; its primary must be adopted
SELECT t.presents('1, 502, 500, NULL, 7, 1, 1, ''a:/pg''');
SELECT t.presents('1, 502, 500, NULL, 9, 1, 2, ''c:/pg'', false');
SELECT t.presents('1, 503, 502, NULL, 7, 1, 1, ''a:/pg''');
SELECT t.acts('1, 502, 500, 7'), t.acts('1, 502, 500, 9');
-- the timeline of another server does not count, and an adopted place is followed at once
SELECT t.presents('1, 503, 502, NULL, 10, 2, 3, ''d:/pg''');
SELECT t.presents('1, 503, NULL, ''moved'', 10, 2, 3, ''d:/pg''');
SELECT t.acts('1, 503, NULL, 10'), t.acts('1, 503, NULL, 9');
-- invalid arguments are refused
SELECT t.presents('1, 504, 503, NULL, 10, 2, 3, repeat(''x'', 1001)'); SELECT t.presents('1, 504, 503, NULL, 10, 2, 3, NULL, NULL');
SELECT cell_id, epoch, place, lineage, timeline, address FROM claims.cell_epochs;
DELETE FROM claims.cell_epochs; DELETE FROM claims.mode_settings;
DROP FUNCTION t.presents, t.kept, t.acts;
SELECT t.clean();
