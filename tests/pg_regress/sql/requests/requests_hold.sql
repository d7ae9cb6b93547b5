-- Requests held beyond a transaction: in-progress once the caller commits, and new again when the hold expires.
DELETE FROM claims.requests;
ALTER TABLE claims.requests ALTER id RESTART;
SET claims.notify_requests = off;
SELECT count(claims.enqueue_request('q', e, r))
  FROM (VALUES ('a', 'create'), ('a', 'update'), ('b', 'update'), ('b', 'update'), ('c', 'update')) v(e, r);
SELECT t.take('q', 1, hold => '1 min');
SELECT t.requests('q');
SELECT ceil(extract(epoch FROM hold_until - clock_timestamp()) / 20) * 20 FROM claims.requests WHERE hold_until IS NOT NULL;
-- a held entity is not taken by others, also when an update arrives; its holder takes and settles both
SELECT claims.enqueue_request('q', 'a', 'update');
SELECT t.take('q', 2, hold => '1 min');
SELECT claims.enqueue_request('q', 'b', 'update');
SELECT t.take('q', 1, hold => '1 min');
SELECT t.take('q', 3);
SELECT claims.settle_requests(t.u(1));
SELECT t.state_of('SELECT claims.settle_requests(t.u(1))');
SELECT t.requests('q');
-- a rolled-back take leaves everything new
BEGIN;
SELECT t.take('q', 1, hold => '1 min');
ROLLBACK;
SELECT t.requests('q') LIMIT 2;
SELECT t.state_of('SELECT claims.settle_requests(t.u(1))');
-- extend_requests never shortens a hold
SELECT claims.extend_requests(t.u(2), '100 min');
SELECT claims.extend_requests(t.u(2), '1 s');
SELECT round(extract(epoch FROM min(hold_until) - clock_timestamp()) / 60) FROM claims.requests WHERE hold_until IS NOT NULL;
SELECT t.state_of('SELECT claims.extend_requests(t.u(1), ''1 min'')');
SELECT claims.settle_requests(t.u(2), 'gave up');
SELECT t.requests('q');

SET debug_discard_caches = 0; -- holds are so many milliseconds
-- an expired hold can be neither settled nor extended
DELETE FROM claims.requests;
ALTER TABLE claims.requests ALTER id RESTART;
SELECT count(claims.enqueue_request('q', e, r)) FROM (VALUES ('a', 'update'), ('b', 'update')) v(e, r);
SELECT t.take('q', 1, hold => '2 s');
SELECT t.take('q', 1, hold => '1 min');
SELECT pg_sleep(2.1);
SELECT t.call('SELECT claims.settle_requests(t.u(1))');
SELECT t.call('SELECT claims.extend_requests(t.u(1), ''1 min'')');
SELECT t.requests('q');
-- an expired request is taken as a new one, with one attempt more
SELECT t.take('q', 2, hold => '2 s');
SELECT t.requests('q');
-- a process cannot settle or extend what another process has taken over
SELECT claims.settle_requests(t.u(1));
SELECT t.state_of('SELECT claims.extend_requests(t.u(1), ''1 min'')');
SELECT pg_sleep(2.1);
-- an expired request has its old place in the order, and after_id applies to it
SELECT claims.enqueue_request('q', 'z', 'update');
SELECT t.take('q', 3, 1);
BEGIN;
SELECT t.take('q', 3);
SELECT t.take('q', 3);
ROLLBACK;
-- a take without a hold: requests that are not settled are new after the transaction
BEGIN;
SELECT t.take('q', 3);
COMMIT;
SELECT t.requests('q');
-- the session finds such a request again, although it looked behind it before
SELECT t.take('q', 3);
BEGIN;
SELECT t.take('q', 3), claims.settle_requests(t.u(3));
COMMIT;
SELECT t.requests('q');

-- an expired create is taken before its updates; updates are taken with the expired ones of their entity
DELETE FROM claims.requests;
ALTER TABLE claims.requests ALTER id RESTART;
SELECT count(claims.enqueue_request('q', e, r)) FROM (VALUES ('a', 'create'), ('a', 'update'), ('b', 'update')) v(e, r);
SELECT t.take('q', 1, hold => '2 s');
SELECT t.take('q', 1, hold => '2 s');
SELECT claims.enqueue_request('q', 'b', 'update');
SELECT pg_sleep(2.1);
SELECT t.take('q', 2, hold => '1 min');
SELECT t.take('q', 2, hold => '1 min');
SELECT t.take('q', 2, hold => '1 min');
SELECT claims.settle_requests(t.u(2));
SELECT t.take('q', 2, hold => '1 min');
SELECT t.requests('q');
RESET debug_discard_caches;
-- a create that arrives while updates are held is taken before them
SELECT claims.enqueue_request('h', 'x', 'update') < claims.enqueue_request('h', 'y', 'update');
SELECT request_type, entity FROM claims.take_requests('h', t.u(8), 0, '1 microsecond');
SELECT claims.enqueue_request('h', 'x', 'create') < claims.enqueue_request('h', 'x', 'update');
BEGIN; SELECT request_type, entity FROM claims.take_requests('h', t.u(9)); SELECT claims.settle_requests(t.u(9)); COMMIT;
BEGIN; SELECT request_type, entity FROM claims.take_requests('h', t.u(9)); SELECT claims.settle_requests(t.u(9)); COMMIT;
BEGIN; SELECT request_type, entity FROM claims.take_requests('h', t.u(9)); SELECT claims.settle_requests(t.u(9)); COMMIT;
DELETE FROM claims.requests WHERE queue = 'h';
ALTER TABLE claims.requests ALTER id RESTART WITH 5;
-- one call settles requests taken for the transaction and requests held
SELECT claims.enqueue_request('q', 'c', 'update');
BEGIN;
SELECT t.take('q', 2);
SELECT claims.settle_requests(t.u(2));
COMMIT;
SELECT t.requests('q');
-- a take in a transaction, its settling, and its result
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
-- the clock decides, not the start of the transaction
CREATE FUNCTION t.held_shortly(queue text, process int) RETURNS boolean LANGUAGE sql AS $$
    SELECT claims.enqueue_request(queue, 'e', 'update') IS NOT NULL AND t.take(queue, process, 0, '200 ms') IS NOT NULL $$;
SELECT t.held_shortly('clock', 1);
BEGIN; SELECT pg_sleep(0.4); SELECT t.take('clock', 2, 0, '1 h') IS NOT NULL;
SELECT hold_until > now() + interval '1 h 300 ms' FROM claims.requests WHERE queue = 'clock'; COMMIT;
SELECT t.held_shortly('clock2', 3);
BEGIN; SELECT pg_sleep(0.4); SELECT t.state_of('SELECT claims.settle_requests(t.u(3))'); ROLLBACK;
SELECT t.held_shortly('clock3', 4);
BEGIN; SELECT pg_sleep(0.4); SELECT t.state_of($$SELECT claims.extend_requests(t.u(4), '1 h')$$); ROLLBACK;
BEGIN;
SELECT pg_sleep(0.4);
SELECT claims.settle_requests(t.u(2));
SELECT settled_at > now() + interval '300 ms' FROM claims.requests WHERE queue = 'clock';
ROLLBACK;
DROP FUNCTION t.held_shortly;
DELETE FROM claims.requests;
DELETE FROM claims.lost_holds;
