-- Limits of a cell. Leases 53xx. (incident_12_hammering.sh tests its rate, which needs the preloaded library.)
SELECT t.clean();

SELECT claims.set_cell_limits(1, 'it hammers', max_outstanding => 2, max_batch_size => 3);
SELECT cell_id, cell_name, max_outstanding, max_batch_size, begins_per_second, reason, role, since IS NOT NULL FROM claims.cell_limits;
-- max_batch_size counts the records of both lists
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b', 'c', 'd'), lease_uuid => t.u(5301))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b'), t.destroys('c', 'd'))$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(1, t.creates('a', 'b', 'c', 'd'))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b', 'c'), lease_uuid => t.u(5301))$$);
-- the form of the batch and the general limit are checked first
SELECT left(c, 5) FROM t.call($$SELECT claims.begin_update(1, t.creates('x', 'y', 'z', 'z'))$$) c LIMIT 1;
-- max_outstanding counts leases of the same transaction and of the same query
SELECT t.call($$SELECT count(claims.begin_update(1, t.creates('q' || n))) FROM generate_series(1, 3) n$$);
BEGIN;
SELECT claims.begin_update(1, t.creates('e'), lease_uuid => t.u(5302));
SELECT t.call($$SELECT claims.begin_update(1, t.creates('f'))$$);
ROLLBACK;
SELECT claims.begin_update(1, t.creates('e'), lease_uuid => t.u(5302));
SELECT t.call($$SELECT claims.begin_update(1, t.creates('f'))$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(1, t.creates('f'))$$);
SELECT t.call(format('SELECT claims.begin_first(1, %L)', jsonb_build_array(jsonb_build_object('create_records', t.creates('f')))));
SELECT t.call(format('SELECT claims.begin_update_text(1, %L, ''[]'')', t.creates('f')));
-- a repeat needs no free lease; fencing and settling neither
SELECT claims.begin_update(1, t.creates('e'), lease_uuid => t.u(5302));
SELECT t.call($$SELECT claims.begin_update(1, t.creates('g'), lease_uuid => t.u(5302))$$);
SELECT claims.commit_update(1, t.u(5301));
SELECT t.call($$SELECT claims.begin_update(1, t.creates('f'), lease_uuid => t.u(5303))$$);
-- other cells are not limited, and settings of the session change nothing
SELECT left(c, 2) FROM t.call($$SELECT claims.rollback_update(2, claims.begin_update(2, t.creates('o1', 'o2', 'o3', 'o4')))$$) c;
SET SESSION AUTHORIZATION regress_claims_one;
SET claims.wait_timeout = '1 s';
SELECT left(c, 5) FROM unnest(ARRAY['h', 'i']) v, t.call(format('SELECT claims.begin_update(1, t.creates(%L))', v)) c WHERE c !~ '^ ';
RESET claims.wait_timeout;
SELECT t.call($$SELECT claims.set_cell_limits(1, 'x')$$);
SELECT t.call('SELECT * FROM claims.cell_limits');
RESET SESSION AUTHORIZATION;
-- imports and corrections count against max_batch_size; they hold no lease, so max_outstanding does not bind them
SELECT claims.set_cell_limits(1, 'no lease', max_outstanding => 0, max_batch_size => 2);
SELECT t.call($$SELECT * FROM claims.import_records(1, t.creates('i1', 'i2', 'i3')::text)$$);
SELECT t.call($$SELECT * FROM claims.import_records(1, t.creates('i1', 'i2')::text)$$);
SELECT t.call($$SELECT discrepancy FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.creates('i1', 'i2', 'i3'), '0 s')$$);
SELECT t.call($$SELECT outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.creates('i3', 'i4', 'i5'), '0 s', true, '{}')$$);
SELECT t.call($$SELECT outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.creates('i1', 'i2', 'i3'), '0 s', true, '{}')$$);
-- max_outstanding 0 allows no lease
SELECT claims.set_cell_limits(1, 'nothing', 0);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('f'))$$);
-- invalid limits and cells are refused
SELECT t.call($$SELECT claims.set_cell_limits(1, 'x', -1)$$);
SELECT t.call($$SELECT claims.set_cell_limits(1, 'x', max_batch_size => 0)$$);
SELECT t.call($$SELECT claims.set_cell_limits(1, 'x', begins_per_second => 0)$$);
SELECT t.call($$SELECT claims.set_cell_limits(1, 'x', refusals_per_second => 0)$$);
SELECT t.call($$SELECT claims.set_cell_limits(NULL, 'x')$$);
SELECT t.call($$SELECT claims.set_cell_limits(77, 'x')$$);
SELECT t.call($$SELECT claims.set_cell_limits(1, NULL)$$);
SELECT t.call($$SELECT claims.set_cell_limits(1, 'x', begins_per_second => 10)$$);
-- removed limits do not apply any more, and a removed cell takes its limits along
SELECT claims.set_cell_limits(1, 'over');
SELECT count(*) FROM claims.cell_limits;
SELECT left(c, 2) FROM t.call($$SELECT claims.begin_update(1, t.creates('a2', 'b2', 'c2', 'd2'))$$) c;
BEGIN;
SELECT claims.register_cell(7, 'regress_claims_one'), claims.set_cell_limits(7, 'x', 1), claims.remove_cell(7, 'x');
SELECT count(*) FROM claims.limit_settings WHERE cell_id = 7;
ROLLBACK;
SELECT action, arguments, reason FROM claims.admin_log WHERE action = 'set_cell_limits' ORDER BY id LIMIT 1;
DELETE FROM claims.limit_settings;

-- max_priority limits claims.lease_priority, whether or not a call waits; without it 0 is the highest
SET claims.lease_priority = 1;
SELECT t.state_of('SELECT claims.begin_update(1, t.creates(''prio''))');
SET claims.lease_priority = -10;
SELECT claims.rollback_update(1, claims.begin_update(1, t.creates('prio')));
SELECT claims.set_cell_limits(1, 'interactive', max_priority => 3);
SELECT cell_id, max_priority FROM claims.cell_limits;
SET claims.lease_priority = 3;
SELECT claims.rollback_update(1, claims.begin_update(1, t.creates('prio')));
SET claims.lease_priority = 4;
SELECT t.call('SELECT claims.begin_update(1, t.creates(''prio''))');
RESET claims.lease_priority;
SELECT t.call('SELECT claims.set_cell_limits(1, ''x'', max_priority => 11)');
SELECT t.call('SELECT claims.set_cell_limits(1, ''x'', max_priority => -1)');
SELECT claims.set_cell_limits(1, 'done');
-- without preloading nobody has an order
SELECT count(*) FROM claims.lease_waiters;
DELETE FROM claims.limit_settings;
SELECT t.clean();
