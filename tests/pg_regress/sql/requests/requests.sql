-- Requests: first come, first served; a create before its updates; an entity is with one process at a time.
DELETE FROM claims.requests;
ALTER TABLE claims.requests ALTER id RESTART;
SET claims.notify_requests = off;
-- ids ascend, and payloads are stored unchanged
SELECT claims.enqueue_request('q', 'a', 'update', '{"n": 1}'), claims.enqueue_request('q', 'b', 'create', '[1, "x"]'),
    claims.enqueue_request('q', 'b', 'update', 'null'),
       claims.enqueue_request('q', 'a', 'update'), claims.enqueue_request('q', 'c', 'update'), claims.enqueue_request('q', 'b', 'update');
SELECT t.requests('q');
-- all updates of an entity are taken together, by id; a create alone, and its updates after it
CALL t.work('q', 1);
SELECT t.requests('q');
SELECT count(*) FROM claims.requests WHERE created_at > settled_at OR settled_at > clock_timestamp();

-- in one transaction: updates wait until their create is settled
DELETE FROM claims.requests;
SELECT count(claims.enqueue_request('q', e, r)) FROM (VALUES ('d', 'create'), ('d', 'update'), ('e', 'create')) v(e, r);
BEGIN;
SELECT t.take('q', 1);
SELECT t.take('q', 1);
SELECT t.take('q', 1);
SELECT claims.settle_requests(t.u(1));
SELECT t.take('q', 1);
SELECT claims.settle_requests(t.u(1));
SELECT t.take('q', 1);
COMMIT;
SELECT t.requests('q');

-- a second create is refused while the first one's row exists, and is another entity in another queue
SELECT t.call('SELECT claims.enqueue_request(''q'', ''d'', ''create'')');
SELECT claims.enqueue_request('q2', 'd', 'create') > 0;
SELECT claims.purge_requests('q', '0');
SELECT claims.enqueue_request('q', 'd', 'create') > 0;
SELECT t.take('q2', 1), t.take('q', 1);

-- settle_requests without a take fails with 55000; a rolled-back take leaves its requests new
DELETE FROM claims.requests;
ALTER TABLE claims.requests ALTER id RESTART;
SELECT count(claims.enqueue_request('q', 'e' || n, 'update')) FROM generate_series(1, 4) n;
SELECT t.call('SELECT claims.settle_requests(t.u(1))');
SELECT t.take('q', 1);
SELECT t.call('SELECT claims.settle_requests(t.u(1))');
BEGIN;
SELECT t.take('q', 1);
ROLLBACK;
SELECT t.state_of('SELECT claims.settle_requests(t.u(1))');
BEGIN;
SAVEPOINT s;
SELECT t.take('q', 1);
ROLLBACK TO s;
SELECT t.state_of('SELECT claims.settle_requests(t.u(1))');
SELECT t.take('q', 1);
SAVEPOINT s;
SELECT claims.settle_requests(t.u(1));
ROLLBACK TO s;
SELECT t.take('q', 1);
-- settle_requests settles all takes of its process, and no other's
SELECT t.state_of('SELECT claims.settle_requests(t.u(2))');
SELECT claims.settle_requests(t.u(1));
SELECT t.state_of('SELECT claims.settle_requests(t.u(1))');
SELECT t.take('q', 2);
COMMIT;
-- a request that was not settled is new
SELECT t.requests('q');

-- after_id limits the search, except for updates of an entity that is taken
DELETE FROM claims.requests;
ALTER TABLE claims.requests ALTER id RESTART;
SELECT count(claims.enqueue_request('q', e, r)) FROM (VALUES ('a', 'update'), ('b', 'create'), ('a', 'update'), ('c', 'update')) v(e, r);
SELECT t.take('q', 1, 1);
SELECT t.take('q', 1, 2);
SELECT t.take('q', 1, 3);
SELECT t.take('q', 1, 4);
SELECT t.take('q', 1, -5);
SELECT t.requests('q');

-- a failed create blocks its entity until it is retried; a failed update does not
DELETE FROM claims.requests;
ALTER TABLE claims.requests ALTER id RESTART;
SELECT count(claims.enqueue_request('q', e, r)) FROM (VALUES ('f', 'create'), ('f', 'update'), ('g', 'update')) v(e, r);
BEGIN;
SELECT t.take('q', 1), claims.settle_requests(t.u(1), 'no room');
COMMIT;
BEGIN;
SELECT t.take('q', 2), claims.settle_requests(t.u(2), '');
COMMIT;
SELECT claims.enqueue_request('q', 'f', 'update'), claims.enqueue_request('q', 'g', 'update');
CALL t.work('q', 3);
SELECT t.requests('q');
SELECT claims.retry_requests('q', 'f'), claims.retry_requests('q', 'g'), claims.retry_requests('q', 'h'), claims.retry_requests('q2', 'f');
SELECT t.requests('q');
CALL t.work('q', 4);
SELECT t.requests('q');
SELECT claims.retry_requests('q', 'f');

-- a create goes before an update that is older
SELECT claims.enqueue_request('q', 'u', 'update') - claims.enqueue_request('q', 'u', 'create');
CALL t.work('q', 5);

-- a payload that could not be taken is refused: too long as text, or too deep
DELETE FROM claims.requests;
SELECT t.call($$SELECT claims.enqueue_request('q', 'large', 'update', to_jsonb(repeat(E'\x01', 11200000)))$$);
SELECT t.state_of($$SELECT claims.enqueue_request('q', 'large', 'update', to_jsonb(repeat('x', 67108864)))$$);
SELECT t.state_of($$SELECT claims.enqueue_request('q', 'large', 'create', jsonb_build_object(repeat('x', 67108864), 1))$$);
SELECT t.state_of($$SELECT claims.enqueue_request('q', 'large', 'update', (SELECT jsonb_agg(1e131071) FROM generate_series(1, 520)))$$);
SELECT t.state_of($$SELECT claims.enqueue_request('q', 'large', 'update', (repeat('[', 1001) || repeat(']', 1001))::jsonb)$$);
SELECT t.state_of($$SELECT claims.enqueue_request('q', 'large', 'update', (repeat('{"a":', 1001) || '1' || repeat('}', 1001))::jsonb)$$);
SELECT count(*) FROM claims.requests;
-- payloads just within the limits are taken unchanged
CREATE TABLE t.sent AS SELECT n, CASE n WHEN 1 THEN to_jsonb(repeat(E'\x01', 11180000)) WHEN 2 THEN (repeat('[', 1000) || repeat(']', 1000))::jsonb
                                       WHEN 3 THEN (SELECT jsonb_agg(1e131071) FROM generate_series(1, 500))
                                       ELSE to_jsonb(repeat('"', 33000000)) END AS payload
  FROM generate_series(1, 4) n;
SELECT count(claims.enqueue_request('q', 'large ' || n, 'update', payload)) FROM t.sent;
SELECT count(*) FROM generate_series(1, 4) g, LATERAL (SELECT * FROM claims.take_requests('q', t.u(g))) r JOIN t.sent s ON s.payload = r.payload;
DROP TABLE t.sent;

-- purge_requests keeps failed creates, young requests and unsettled ones
DELETE FROM claims.requests;
ALTER TABLE claims.requests ALTER id RESTART;
SELECT count(claims.enqueue_request('q', e, r))
  FROM (VALUES ('a', 'create'), ('b', 'create'), ('c', 'update'), ('d', 'update'), ('e', 'update')) v(e, r);
BEGIN; SELECT t.take('q', 1), claims.settle_requests(t.u(1), 'no'); COMMIT;
BEGIN; SELECT t.take('q', 1), claims.settle_requests(t.u(1)); COMMIT;
BEGIN; SELECT t.take('q', 1), claims.settle_requests(t.u(1), 'no'); COMMIT;
BEGIN; SELECT t.take('q', 1), claims.settle_requests(t.u(1)); COMMIT;
SELECT claims.purge_requests('q', '1 hour');
SELECT claims.purge_requests('q2', '0');
UPDATE claims.requests SET settled_at = settled_at - interval '2 hours' WHERE id = 4;
SELECT claims.purge_requests('q', '1 hour');
SELECT claims.purge_requests('q', '0');
SELECT t.requests('q');
-- purge_requests deletes more rows than one of its statements
SET debug_discard_caches = 0;
SELECT count(claims.enqueue_request('purge', 'p', 'update')) FROM generate_series(1, 20001) n;
RESET debug_discard_caches;
BEGIN; SELECT count(*) FROM claims.take_requests('purge', t.u(1)); SELECT claims.settle_requests(t.u(1)); COMMIT;
SELECT claims.purge_requests('purge', '0');

-- a transaction that enqueues can be prepared only with notify_requests off
BEGIN;
SELECT claims.enqueue_request('p', 'a', 'update') > 0;
PREPARE TRANSACTION 'regress_requests';
SELECT t.take('p', 1);
COMMIT PREPARED 'regress_requests';
BEGIN;
SELECT t.take('p', 1) IS NOT NULL;
PREPARE TRANSACTION 'regress_requests';
SELECT t.take('p', 1);
ROLLBACK PREPARED 'regress_requests';
SELECT t.take('p', 1) IS NOT NULL;
SET claims.notify_requests = on;
BEGIN;
SELECT claims.enqueue_request('p', 'a', 'update') > 0;
PREPARE TRANSACTION 'regress_requests';
ROLLBACK;
DELETE FROM claims.requests;
-- the next request is found at every distance from one that is in hand or settled
DO $$
DECLARE first bigint;
BEGIN
    FOR distance IN 30..34 LOOP
        DELETE FROM claims.requests WHERE queue = 'far';
        first := claims.enqueue_request('far', 'a', 'update');
        PERFORM claims.enqueue_request('far', 'b', 'update');
        UPDATE claims.requests SET id = first + distance WHERE queue = 'far' AND entity = 'b';
        COMMIT;
        ASSERT t.take('far', 1) LIKE '% a%' AND t.take('far', 1) LIKE '% b%', format('in hand, %s', distance);
        ROLLBACK;
        PERFORM t.take('far', 1), claims.settle_requests(t.u(1));
        COMMIT;
        ASSERT t.take('far', 1) LIKE '% b%', format('settled, %s', distance);
        COMMIT;
    END LOOP;
    DELETE FROM claims.requests WHERE queue = 'far';
END $$;
