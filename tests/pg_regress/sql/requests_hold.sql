-- Requests that are held beyond a transaction: in-progress once the caller commits, new again when the hold expires.
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
DELETE FROM claims.requests;
ALTER TABLE claims.requests ALTER id RESTART;
SET claims.notify_requests = off;
SELECT count(claims.enqueue_request('q', e, r)) FROM (VALUES ('a', 'create'), ('a', 'update'), ('b', 'update'), ('b', 'update'), ('c', 'update')) v(e, r);
SELECT t.take('q', 1, hold => '1 min');
SELECT t.requests('q');
SELECT ceil(extract(epoch FROM hold_until - clock_timestamp()) / 20) * 20 FROM claims.requests WHERE hold_until IS NOT NULL;
-- an entity that is held is nobody else's, also when an update arrives; the holder takes more, and settles all of it
SELECT claims.enqueue_request('q', 'a', 'update');
SELECT t.take('q', 2, hold => '1 min');
SELECT claims.enqueue_request('q', 'b', 'update');
SELECT t.take('q', 1, hold => '1 min');
SELECT t.take('q', 3);
SELECT claims.settle_requests(t.u(1));
SELECT t.state_of('SELECT claims.settle_requests(t.u(1))');
SELECT t.requests('q');
-- a rolled back take leaves everything new
BEGIN;
SELECT t.take('q', 1, hold => '1 min');
ROLLBACK;
SELECT t.requests('q') LIMIT 2;
SELECT t.state_of('SELECT claims.settle_requests(t.u(1))');
-- extending: never shorter
SELECT claims.extend_requests(t.u(2), '100 min');
SELECT claims.extend_requests(t.u(2), '1 s');
SELECT round(extract(epoch FROM min(hold_until) - clock_timestamp()) / 60) FROM claims.requests WHERE hold_until IS NOT NULL;
SELECT t.state_of('SELECT claims.extend_requests(t.u(1), ''1 min'')');
SELECT claims.settle_requests(t.u(2), 'gave up');
SELECT t.requests('q');

SET debug_discard_caches = 0; -- holds are so many milliseconds
-- the hold expires: nothing can be settled or extended, and nothing changes
DELETE FROM claims.requests;
ALTER TABLE claims.requests ALTER id RESTART;
SELECT count(claims.enqueue_request('q', e, r)) FROM (VALUES ('a', 'update'), ('b', 'update')) v(e, r);
SELECT t.take('q', 1, hold => '500 ms');
SELECT t.take('q', 1, hold => '1 min');
SELECT pg_sleep(0.6);
SELECT t.call('SELECT claims.settle_requests(t.u(1))');
SELECT t.call('SELECT claims.extend_requests(t.u(1), ''1 min'')');
SELECT t.requests('q');
-- it counts as new; the next take has one attempt more
SELECT t.take('q', 2, hold => '500 ms');
SELECT t.requests('q');
-- taken over: what the first process still holds it cannot settle either, nor extend
SELECT claims.settle_requests(t.u(1));
SELECT t.state_of('SELECT claims.extend_requests(t.u(1), ''1 min'')');
SELECT pg_sleep(0.6);
-- an expired one comes in its place among the new ones, and not before after_id
SELECT claims.enqueue_request('q', 'z', 'update');
SELECT t.take('q', 3, 1);
BEGIN;
SELECT t.take('q', 3);
SELECT t.take('q', 3);
ROLLBACK;
-- for the length of a transaction: what is not settled is new again
BEGIN;
SELECT t.take('q', 3);
COMMIT;
SELECT t.requests('q');
-- and this session finds it again, below of where it last looked
SELECT t.take('q', 3);
BEGIN;
SELECT t.take('q', 3), claims.settle_requests(t.u(3));
COMMIT;
SELECT t.requests('q');

-- a create whose hold expires is taken before its updates; updates go with those whose hold has expired
DELETE FROM claims.requests;
ALTER TABLE claims.requests ALTER id RESTART;
SELECT count(claims.enqueue_request('q', e, r)) FROM (VALUES ('a', 'create'), ('a', 'update'), ('b', 'update')) v(e, r);
SELECT t.take('q', 1, hold => '500 ms');
SELECT t.take('q', 1, hold => '500 ms');
SELECT claims.enqueue_request('q', 'b', 'update');
SELECT pg_sleep(0.6);
SELECT t.take('q', 2, hold => '1 min');
SELECT t.take('q', 2, hold => '1 min');
SELECT t.take('q', 2, hold => '1 min');
SELECT claims.settle_requests(t.u(2));
SELECT t.take('q', 2, hold => '1 min');
SELECT t.requests('q');
RESET debug_discard_caches;
-- a create that comes while updates are held is taken before them, in its own place
SELECT claims.enqueue_request('h', 'x', 'update') < claims.enqueue_request('h', 'y', 'update');
SELECT request_type, entity FROM claims.take_requests('h', t.u(8), 0, '1 microsecond');
SELECT claims.enqueue_request('h', 'x', 'create') < claims.enqueue_request('h', 'x', 'update');
BEGIN; SELECT request_type, entity FROM claims.take_requests('h', t.u(9)); SELECT claims.settle_requests(t.u(9)); COMMIT;
BEGIN; SELECT request_type, entity FROM claims.take_requests('h', t.u(9)); SELECT claims.settle_requests(t.u(9)); COMMIT;
BEGIN; SELECT request_type, entity FROM claims.take_requests('h', t.u(9)); SELECT claims.settle_requests(t.u(9)); COMMIT;
DELETE FROM claims.requests WHERE queue = 'h';
ALTER TABLE claims.requests ALTER id RESTART WITH 5;
-- in hand and held at once: one call settles both
SELECT claims.enqueue_request('q', 'c', 'update');
BEGIN;
SELECT t.take('q', 2);
SELECT claims.settle_requests(t.u(2));
COMMIT;
SELECT t.requests('q');
-- one transaction takes, is done and settles
SELECT claims.enqueue_request('q', 'd', 'create'), claims.enqueue_request('q', 'd', 'update');
BEGIN;
SELECT t.take('q', 5, hold => '1 min');
SELECT claims.settle_requests(t.u(5));
SELECT t.take('q', 5, hold => '1 min');
SELECT claims.settle_requests(t.u(5), 'no');
COMMIT;
SELECT t.requests('q') OFFSET 5;
DELETE FROM claims.requests;
DELETE FROM claims.lost_holds;
-- what counts is the clock, not the time at which the transaction began
CREATE FUNCTION t.held_shortly(queue text, process int) RETURNS boolean LANGUAGE sql AS $$
    SELECT claims.enqueue_request(queue, 'e', 'update') IS NOT NULL AND t.take(queue, process, 0, '200 ms') IS NOT NULL $$;
SELECT t.held_shortly('clock', 1);
BEGIN; SELECT pg_sleep(0.4); SELECT t.take('clock', 2, 0, '1 h') IS NOT NULL;
SELECT hold_until > now() + interval '1 h 300 ms' FROM claims.requests WHERE queue = 'clock'; COMMIT;
SELECT t.held_shortly('clock2', 3);
BEGIN; SELECT pg_sleep(0.4); SELECT t.state_of('SELECT claims.settle_requests(t.u(3))'); ROLLBACK;
SELECT t.held_shortly('clock3', 4);
BEGIN; SELECT pg_sleep(0.4); SELECT t.state_of($$SELECT claims.extend_requests(t.u(4), '1 h')$$); ROLLBACK;
BEGIN; SELECT pg_sleep(0.4); SELECT claims.settle_requests(t.u(2)); SELECT settled_at > now() + interval '300 ms' FROM claims.requests WHERE queue = 'clock'; ROLLBACK;
DROP FUNCTION t.held_shortly;
DELETE FROM claims.requests;
DELETE FROM claims.lost_holds;
