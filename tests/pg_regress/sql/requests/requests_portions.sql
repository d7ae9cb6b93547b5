-- A take returns at most 16 MiB of text, the first requests by id; the next take returns more.
SET claims.notify_requests = off;
DELETE FROM claims.requests;
DELETE FROM claims.lost_holds;
ALTER TABLE claims.requests ALTER id RESTART;
-- t.portion() shows a take's ids, number and MiB, and checks the limit
CREATE FUNCTION t.portion(queue text, process int, after bigint DEFAULT 0, hold interval DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN count(*) > 0 THEN
               format('%s to %s: %s of %s MiB', min(id), max(id), count(*), (coalesce(sum(length(payload::text)), 0) / 1048576.0)::numeric(9, 1)) END
           || CASE WHEN count(*) > 1 AND sum(coalesce(length(payload::text), 0) + octet_length(entity)) > 16777216 THEN ' TOO MUCH' ELSE '' END
           || CASE WHEN array_agg(id) <> array_agg(id ORDER BY id) THEN ' DISORDER' ELSE '' END
      FROM claims.take_requests(queue, t.u(process), after, hold) $$;
CREATE FUNCTION t.large(queue text, entity text, requests int, megabytes numeric DEFAULT 1) RETURNS bigint LANGUAGE sql AS $$
    SELECT count(claims.enqueue_request(queue, entity, 'update', to_jsonb(repeat('x', (megabytes * 1048576)::int))))
      FROM generate_series(1, requests) $$;
-- t.work_in_portions() takes and settles until nothing is left
CREATE PROCEDURE t.work_in_portions(queue text, hold interval DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE got text;
BEGIN
    FOR round IN 1..100 LOOP
        got := t.portion(queue, round, 0, hold);
        EXIT WHEN got IS NULL;
        RAISE INFO '%', got;
        COMMIT;
        -- without a hold they have come back
        IF hold IS NULL THEN got := t.portion(queue, round); END IF;
        RAISE INFO '  settled %', claims.settle_requests(t.u(round));
        COMMIT;
    END LOOP;
END $$;

-- 40 updates of 1 MiB of text, stored compressed: the text counts
SELECT t.large('q', 'e', 40);
SELECT sum(pg_column_size(payload)) < 1048576 FROM claims.requests;
-- nothing more of an entity is taken until the portion is settled, then the rest, also in the same transaction
BEGIN;
SELECT t.portion('q', 1);
SELECT t.portion('q', 1), t.portion('q', 2);
SELECT claims.settle_requests(t.u(1));
SELECT t.portion('q', 1);
SELECT claims.settle_requests(t.u(1), 'no');
SELECT t.portion('q', 1), claims.settle_requests(t.u(1));
SELECT t.portion('q', 1);
ROLLBACK;
-- a portion in a savepoint
BEGIN;
SAVEPOINT s;
SELECT t.portion('q', 1);
ROLLBACK TO s;
SELECT t.portion('q', 2);
ROLLBACK;
-- a take that finds a later update of the entity begins with its first one
BEGIN;
SELECT t.portion('q', 1, 38);
ROLLBACK;
BEGIN;
SELECT t.portion('q', 1, 9);
ROLLBACK;
SELECT count(*) FROM claims.requests WHERE status = 'new' AND attempts = 0;
CALL t.work_in_portions('q');
SELECT status, attempts, count(*) FROM claims.requests GROUP BY 1, 2;

-- a take with a hold holds the whole entity
DELETE FROM claims.requests;
ALTER TABLE claims.requests ALTER id RESTART;
SELECT t.large('q', 'e', 20);
SELECT t.portion('q', 1, 0, '1 min');
SELECT t.portion('q', 1, 0, '1 min'), t.portion('q', 2), t.portion('q', 2, 0, '1 min');
SELECT status, count(*) FROM claims.requests GROUP BY 1 ORDER BY 1;
SELECT claims.settle_requests(t.u(1));
CALL t.work_in_portions('q', '1 min');
SELECT status, attempts, count(*) FROM claims.requests GROUP BY 1, 2;

-- a hold of more than a portion, as version 1.0.0 made them, is taken over with a hold
CREATE FUNCTION t.expired(process int) RETURNS bigint LANGUAGE sql AS $$
    DELETE FROM claims.requests; DELETE FROM claims.lost_holds;
    ALTER TABLE claims.requests ALTER id RESTART;
    SELECT t.large('q', 'e', 20);
    WITH held AS (UPDATE claims.requests
      SET status = 'in-progress', process_id = t.u(process), attempts = 1, hold_until = clock_timestamp() - interval '1 s' RETURNING 1)
    SELECT count(*) FROM held $$;
SELECT t.expired(1);
SELECT t.portion('q', 2, 0, '1 min');
SELECT status, process_id, attempts, count(*) FROM claims.requests GROUP BY 1, 2, 3 ORDER BY 1;
SELECT t.call('SELECT claims.settle_requests(t.u(1))');
SELECT sum(requests) FROM claims.lost_holds WHERE process_id = t.u(1);
SELECT claims.settle_requests(t.u(2));
SELECT t.portion('q', 2, 0, '1 min'), claims.settle_requests(t.u(2));
-- such a hold is taken over for a transaction
SELECT t.expired(1);
BEGIN;
SELECT t.portion('q', 2), claims.settle_requests(t.u(2));
COMMIT;
SELECT status, process_id, attempts, count(*) FROM claims.requests GROUP BY 1, 2, 3 ORDER BY 1;
-- such a hold is taken again by its own process
SELECT t.expired(1);
INSERT INTO claims.lost_holds (queue, process_id, requests) VALUES ('q', t.u(1), 7);
SELECT t.portion('q', 1, 0, '1 min'), claims.settle_requests(t.u(1));
SELECT count(*) FROM claims.lost_holds;

-- a request larger than a portion is a portion of its own
DELETE FROM claims.requests;
ALTER TABLE claims.requests ALTER id RESTART;
SELECT t.large('q', 'e', 2), t.large('q', 'e', 1, 20), t.large('q', 'e', 1, 30), t.large('q', 'e', 2), t.large('q', 'f', 1, 17);
SELECT claims.enqueue_request('q', 'g', 'create', to_jsonb(repeat('x', 20 * 1048576)));
CALL t.work_in_portions('q');
-- many entities of 12 MiB each
SELECT t.large('many', 'e' || n, 3, 4) FROM generate_series(1, 4) n;
CALL t.work_in_portions('many');
-- entities of 2 kB without payload: the text of the entity counts
SET debug_discard_caches = 0;
SELECT count(claims.enqueue_request('w', repeat('😀', 512), 'update')) FROM generate_series(1, 9000);
RESET debug_discard_caches;
BEGIN;
SELECT count(*) BETWEEN 7000 AND 8192, min(id) = (SELECT min(id) FROM claims.requests WHERE queue = 'w') FROM claims.take_requests('w', t.u(1));
SELECT claims.settle_requests(t.u(1)) + count(*) FROM claims.take_requests('w', t.u(1));
ROLLBACK;
DELETE FROM claims.requests;

-- requests that are not returned are not read from the TOAST table
ALTER TABLE claims.requests ALTER payload SET STORAGE EXTERNAL;
SELECT t.large('q', 'e', 40);
CREATE FUNCTION t.pieces_read() RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid))::bigint
      FROM pg_class c JOIN pg_index i ON i.indrelid = c.reltoastrelid WHERE c.oid = 'claims.requests'::regclass $$;
BEGIN;
SELECT t.portion('q', 1);
SELECT t.pieces_read() BETWEEN 7000 AND 12000;
ROLLBACK;
ALTER TABLE claims.requests ALTER payload SET STORAGE EXTENDED;
DELETE FROM claims.requests;
DELETE FROM claims.lost_holds;
DROP PROCEDURE t.work_in_portions;
DROP FUNCTION t.portion, t.large, t.expired, t.pieces_read;
