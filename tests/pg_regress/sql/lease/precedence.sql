-- The order of errors: NULL, the right to the cell, the batch, the lease's uuid, conflicts.
SELECT t.clean();
SELECT t.have(2, 'theirs');
SELECT claims.begin_update(1, t.creates('a'), lease_uuid => t.u(2200));
SELECT claims.rollback_update(1, t.u(2201));
SELECT claims.begin_update(2, t.creates('b'), lease_uuid => t.u(2202));
SELECT claims.rollback_update(2, t.u(2203));
CREATE FUNCTION pg_temp.state(statement text) RETURNS text LANGUAGE sql AS $$ SELECT left(c, 5) FROM t.call(statement) c LIMIT 1 $$;
SET SESSION AUTHORIZATION regress_claims_one;
-- NULL before the right to the cell
SELECT pg_temp.state($$SELECT claims.begin_update(2, NULL, '[{}]', t.u(2202))$$);
SELECT pg_temp.state($$SELECT claims.begin_update(2, '[{}]', NULL, t.u(2202))$$);
SELECT pg_temp.state($$SELECT claims.commit_update(2, NULL)$$);
SELECT pg_temp.state($$SELECT claims.rollback_update(77, NULL)$$);
SELECT pg_temp.state($$SELECT * FROM claims.settle_leases(NULL)$$);
SELECT pg_temp.state($$SELECT claims.lease_outcome(2, NULL)$$);
SELECT pg_temp.state($$SELECT * FROM claims.list_leases(2, max_results => NULL)$$);
SELECT pg_temp.state($$SELECT * FROM claims.list_records(2, max_results => NULL)$$);
-- the right to the cell before the batch
SELECT pg_temp.state($$SELECT claims.begin_update(2, '[{}]')$$);
SELECT pg_temp.state($$SELECT claims.begin_update(2, '[]')$$);
SELECT pg_temp.state($$SELECT claims.begin_update(77, '[{}]')$$);
SELECT pg_temp.state($$SELECT claims.begin_update(2, (SELECT jsonb_agg(t.claim('n' || n)) FROM generate_series(1, 2001) n))$$);
SELECT pg_temp.state($$SELECT claims.begin_update(2, t.creates('b'), '[]', t.u(2202))$$);
SELECT pg_temp.state($$SELECT * FROM claims.settle_leases(2, ARRAY[t.u(1)], ARRAY[t.u(1)])$$);
SELECT pg_temp.state($$SELECT * FROM claims.list_records(2, 'NO_SUCH', 'bad cursor', -1)$$);
SELECT pg_temp.state($$SELECT * FROM claims.list_leases(2, 'bad cursor', -1)$$);
RESET SESSION AUTHORIZATION;
SELECT pg_temp.state($$SELECT claims.begin_update(77, '[{}]')$$);
SET SESSION AUTHORIZATION regress_claims_one;
-- form and limits of the batch before the lease's uuid
SELECT pg_temp.state($$SELECT claims.begin_update(1, '[{}]', '[]', t.u(2202))$$);
SELECT pg_temp.state($$SELECT claims.begin_update(1, '[{}]', '[]', t.u(2201))$$);
SELECT pg_temp.state($$SELECT claims.begin_update(1, '[]', '[]', t.u(2202))$$);
SELECT pg_temp.state($$SELECT claims.begin_update(1, t.creates('x', 'x'), '[]', t.u(2202))$$);
SELECT pg_temp.state($$SELECT claims.begin_update(1, t.creates(repeat('x', 1025)), '[]', t.u(2202))$$);
SELECT pg_temp.state($$SELECT claims.begin_update(1, (SELECT jsonb_agg(t.claim('n' || n)) FROM generate_series(1, 2001) n), '[]', t.u(2202))$$);
-- the lease's uuid before conflicts: another cell's, rolled back, another request
SELECT pg_temp.state($$SELECT claims.begin_update(1, t.creates('theirs'), '[]', t.u(2202))$$);
SELECT pg_temp.state($$SELECT claims.begin_update(1, t.creates('theirs'), t.destroys('theirs2'), t.u(2203))$$);
SELECT pg_temp.state($$SELECT claims.begin_update(1, t.creates('theirs'), '[]', t.u(2201))$$);
SELECT pg_temp.state($$SELECT claims.begin_update(1, t.creates('theirs'), t.destroys('missing'), t.u(2200))$$);
-- the messages of the three differ
SELECT t.call($$SELECT claims.begin_update(1, t.creates('theirs'), '[]', t.u(2202))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('theirs'), '[]', t.u(2203))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('theirs'), '[]', t.u(2201))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('theirs'), '[]', t.u(2200))$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(1, t.creates('theirs'), '[]', t.u(2202))$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(1, t.creates('theirs'), '[]', t.u(2201))$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(1, t.creates('theirs'), '[]', t.u(2200))$$);
RESET SESSION AUTHORIZATION;
SELECT * FROM t.state();
