-- capture_requests: every change of a table enqueues a request in the same transaction.
DELETE FROM claims.requests;
SET claims.notify_requests = off;
CREATE FUNCTION t.captured() RETURNS SETOF text LANGUAGE sql AS $$
    WITH gone AS (DELETE FROM claims.requests RETURNING *)
    SELECT format('%s %s %s %s', queue, request_type, entity, coalesce(payload::text, 'null')) FROM gone ORDER BY id $$;
CREATE TABLE t.parts (id int PRIMARY KEY, "Entity of" text, n numeric);
SELECT claims.capture_requests('t.parts', 'parts', 'Entity of');
INSERT INTO t.parts VALUES (1, 'x', 1.50), (2, NULL, 2), (3, 'y', NULL);
SELECT t.captured();
UPDATE t.parts SET n = n + 1 WHERE id < 3;
UPDATE t.parts SET "Entity of" = 'z' WHERE id < 3;
UPDATE t.parts SET "Entity of" = NULL WHERE id = 1;
SELECT t.captured();
DELETE FROM t.parts WHERE id < 3;
INSERT INTO t.parts VALUES (3, 'y', 9) ON CONFLICT (id) DO UPDATE SET n = excluded.n;
COPY t.parts FROM stdin;
4	w	7
\.
SELECT t.captured();
-- a rollback removes the requests of its changes
BEGIN;
DELETE FROM t.parts;
ROLLBACK;
SELECT t.captured();
TRUNCATE t.parts;
SELECT t.call('TRUNCATE t.parts');
SELECT t.captured();
-- two queues for one table; a repeated call changes the column; uncapture_requests ends one of them
SELECT claims.capture_requests('t.parts', 'by id', 'id');
SELECT claims.capture_requests('t.parts', 'by id', 'id');
UPDATE t.parts SET n = 0 WHERE id = 4;
SELECT t.captured();
SELECT claims.uncapture_requests('t.parts', 'parts');
SELECT claims.uncapture_requests('t.parts', 'parts');
SELECT claims.uncapture_requests('t.parts', 'nothing of the kind');
UPDATE t.parts SET id = 5 WHERE id = 4;
SELECT t.captured();
-- a renamed column is an error
ALTER TABLE t.parts RENAME id TO number;
SELECT t.call('UPDATE t.parts SET n = 1 WHERE number = 5');
SELECT claims.capture_requests('t.parts', 'by id', 'number');
UPDATE t.parts SET n = 1 WHERE number = 5;
SELECT t.captured();
-- a value that cannot be an entity fails the change
SELECT claims.capture_requests('t.parts', 'by id', 'Entity of');
SELECT t.call('UPDATE t.parts SET "Entity of" = ''''');
SELECT t.call('UPDATE t.parts SET "Entity of" = repeat(''e'', 513)');
-- a row that is too large for a request fails the change
ALTER TABLE t.parts ADD large text;
SELECT t.call('UPDATE t.parts SET "Entity of" = ''large'', large = repeat(E''\x01'', 11200000)');
ALTER TABLE t.parts DROP large;
SELECT t.captured();
SELECT claims.uncapture_requests('t.parts', 'by id');
TRUNCATE t.parts;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 't.parts'::regclass;
-- temporary tables are refused
CREATE TEMP TABLE passing (id int);
SELECT t.call($$SELECT claims.capture_requests('passing', 'q', 'id')$$);
-- partitions: rows that move, nested partitions, later partitions
CREATE TABLE t.split (id int, entity text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE t.split_low PARTITION OF t.split FOR VALUES FROM (0) TO (10);
CREATE TABLE t.split_high PARTITION OF t.split FOR VALUES FROM (10) TO (20);
SELECT claims.capture_requests('t.split', 'split', 'entity');
INSERT INTO t.split VALUES (1, 'one');
INSERT INTO t.split_high VALUES (11, 'eleven');
UPDATE t.split SET id = 12 WHERE id = 1;
SELECT t.captured();
SELECT t.state_of('TRUNCATE t.split'), t.state_of('TRUNCATE t.split_low');
CREATE TABLE t.split_later PARTITION OF t.split FOR VALUES FROM (20) TO (30);
SELECT t.state_of('TRUNCATE t.split_later');
INSERT INTO t.split VALUES (21, 'later');
SELECT t.captured();
SELECT claims.capture_requests('t.split', 'split', 'entity');
SELECT t.state_of('TRUNCATE t.split_later');
-- an attached partition is captured and refuses TRUNCATE without another call
CREATE TABLE t.split_attached (entity text, id int NOT NULL);
TRUNCATE t.split_attached;
ALTER TABLE t.split ATTACH PARTITION t.split_attached FOR VALUES FROM (30) TO (40);
SELECT t.call('TRUNCATE t.split_attached');
INSERT INTO t.split VALUES (31, 'attached'); INSERT INTO t.split_attached VALUES ('by itself', 32);
SELECT t.captured();
-- a detached partition is not captured any more, but refuses TRUNCATE until uncapture_requests
ALTER TABLE t.split DETACH PARTITION t.split_later;
INSERT INTO t.split_later VALUES (22, 'alone');
SELECT t.captured();
SELECT t.state_of('TRUNCATE t.split_later');
SELECT claims.uncapture_requests('t.split_later', 'split');
TRUNCATE t.split_later;
DROP TABLE t.split_later;
INSERT INTO t.split VALUES (13, 'still');
SELECT t.captured();
SELECT claims.uncapture_requests('t.split', 'split');
TRUNCATE t.split;
SELECT t.captured();
-- inherited tables, and writes under session_replication_role = replica, are not captured
CREATE TABLE t.parent (entity text);
CREATE TABLE t.child () INHERITS (t.parent);
SELECT claims.capture_requests('t.parent', 'parent', 'entity');
INSERT INTO t.child VALUES ('child');
UPDATE t.parent SET entity = 'of child';
SET session_replication_role = replica;
INSERT INTO t.parent VALUES ('replicated');
RESET session_replication_role;
INSERT INTO t.parent VALUES ('own');
SELECT t.captured();
DROP TABLE t.parent, t.child;
-- the payload does not depend on the writer's settings
CREATE TABLE t.dated (at timestamptz, n int);
SELECT claims.capture_requests('t.dated', 'dated', 'at');
CREATE PROCEDURE t.write_dated() LANGUAGE sql AS $$ INSERT INTO t.dated SELECT to_timestamp(0) + interval '7 hours' $$;
CALL t.write_dated();
SET TimeZone = 'America/New_York'; SET DateStyle = 'SQL, DMY';
CALL t.write_dated();
SHOW TimeZone;
SELECT t.captured();
-- columns that are added later, arrays, domains, ranges and composite types
CREATE TABLE t.styled (entity float8);
SELECT claims.capture_requests('t.styled', 'styled', 'entity');
ALTER TABLE t.styled ALTER entity TYPE int;
INSERT INTO t.styled VALUES (1);
CREATE DOMAIN t.spans AS interval[];
CREATE TYPE t.stamped AS (at timestamptz);
ALTER TABLE t.styled ADD b bytea DEFAULT '\x01ff', ADD s t.spans DEFAULT '{1 year 2 hours}', ADD f float8 DEFAULT 0.1::float8 * 3,
    ADD r tstzrange DEFAULT '[2020-01-01 00:00+00,)', ADD c t.stamped DEFAULT '("2020-01-01 00:00+00")', ADD d date DEFAULT '2020-02-01';
-- (to_jsonb() of PostgreSQL reads the names of a composite type's fields after it has let the type go: where caches are discarded they are gone)
SET debug_discard_caches = 0;
SET bytea_output = 'escape'; SET IntervalStyle = 'sql_standard'; SET extra_float_digits = -15;
INSERT INTO t.styled (entity) VALUES (2);
RESET bytea_output; RESET IntervalStyle; RESET extra_float_digits; RESET TimeZone; RESET DateStyle;
INSERT INTO t.styled (entity) VALUES (2);
RESET debug_discard_caches;
SELECT t.captured();
DROP TABLE t.dated, t.styled;
-- an update of a captured row waits for its entity's create
SELECT claims.capture_requests('t.parts', 'q', 'Entity of');
SELECT claims.enqueue_request('q', 'x', 'create') > 0;
INSERT INTO t.parts VALUES (1, 'x');
SELECT count(*) FROM claims.take_requests('q', t.u(1), 0, '1 min') WHERE request_type = 'create';
SELECT t.take('q', 1);
SELECT claims.settle_requests(t.u(1));
SELECT request_type, entity FROM claims.take_requests('q', t.u(1));
DROP TABLE t.parts, t.split;
DELETE FROM claims.requests;

-- a partition and its table cannot both be captured for one queue, at any depth
CREATE TABLE t.tree (id int, entity text) PARTITION BY RANGE (id);
CREATE TABLE t.branch PARTITION OF t.tree FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
CREATE TABLE t.leaf PARTITION OF t.branch FOR VALUES FROM (0) TO (10);
SELECT claims.capture_requests('t.tree', 'q', 'entity');
SELECT t.call($$SELECT claims.capture_requests('t.branch', 'q', 'entity')$$);
SELECT t.call($$SELECT claims.capture_requests('t.leaf', 'q', 'entity')$$);
SELECT t.call($$SELECT claims.uncapture_requests('t.leaf', 'q')$$);
SELECT t.state_of('TRUNCATE t.leaf');
SELECT claims.capture_requests('t.leaf', 'another', 'id');
INSERT INTO t.tree VALUES (1, 'e');
SELECT t.captured();
SELECT claims.uncapture_requests('t.leaf', 'another');
SELECT claims.uncapture_requests('t.tree', 'q');
SELECT claims.capture_requests('t.leaf', 'q', 'entity');
SELECT t.call($$SELECT claims.capture_requests('t.tree', 'q', 'entity')$$);
SELECT t.call($$SELECT claims.capture_requests('t.branch', 'q', 'entity')$$);
INSERT INTO t.tree VALUES (2, 'once');
SELECT t.captured();
SELECT claims.uncapture_requests('t.leaf', 'q');
SELECT claims.capture_requests('t.branch', 'q', 'entity'), claims.capture_requests('t.branch', 'q', 'id');
INSERT INTO t.tree VALUES (3, 'by id');
SELECT t.captured();
SELECT table_name, queue, entity_column FROM claims.captured_tables;
-- a claimed table that is attached as a partition
CREATE TABLE t.claimed (id int PRIMARY KEY, entity text UNIQUE);
SELECT claims.claim_attribute('t.claimed', 'entity', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES');
CREATE TABLE t.whole (id int PRIMARY KEY, entity text) PARTITION BY RANGE (id);
ALTER TABLE t.whole ATTACH PARTITION t.claimed FOR VALUES FROM (0) TO (10);
SELECT t.call($$SELECT claims.claim_attribute('t.whole', 'entity', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES')$$);
SELECT claims.unclaim_attribute('t.claimed', 'entity');
-- large columns: only a row that becomes a payload is read, and one that is too large for it is not
CREATE TABLE t.large (id int PRIMARY KEY, entity text, body text);
ALTER TABLE t.large ALTER body SET STORAGE EXTERNAL;
INSERT INTO t.large VALUES (1, NULL, repeat('x', 200000)), (2, 'y', repeat('x', 70000000));
SELECT claims.capture_requests('t.large', 'large', 'entity');
CREATE FUNCTION t.stored() RETURNS bigint LANGUAGE sql AS $$
    SELECT toast_blks_read + toast_blks_hit FROM pg_statio_user_tables WHERE relid = 't.large'::regclass $$;
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT t.stored() AS before \gset
UPDATE t.large SET id = 3 WHERE id = 1;
UPDATE t.large SET id = 4 WHERE id = 2;
SELECT pg_stat_force_next_flush() IS NULL AS done \gset
SELECT t.stored() - :before;
UPDATE t.large SET body = 'small' WHERE id = 2;
DELETE FROM t.large;
SELECT t.captured();
DROP TABLE t.large;
DROP FUNCTION t.stored();
-- the form change: the table that was captured by its name of that moment, the operation, and both versions of the row
CREATE TABLE t."Orders" (id int, entity text, n int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE t.orders_low PARTITION OF t."Orders" FOR VALUES FROM (0) TO (10);
CREATE TABLE t.orders_high PARTITION OF t."Orders" FOR VALUES FROM (10) TO (20);
SELECT t.call($$SELECT claims.capture_requests('t."Orders"', 'orders', 'entity', 'both')$$);
SELECT t.call($$SELECT claims.capture_requests('t."Orders"', 'orders', 'entity', NULL)$$);
SELECT claims.capture_requests('t."Orders"', 'orders', 'entity', payload_form => 'change');
SELECT claims.capture_requests('t."Orders"', 'rows', 'entity');
SELECT queue, payload_form FROM claims.captured_tables ORDER BY queue;
INSERT INTO t."Orders" VALUES (1, 'a', 1);
UPDATE t."Orders" SET entity = 'b' WHERE id = 1;
UPDATE t."Orders" SET id = 11 WHERE id = 1;
DELETE FROM t."Orders";
SELECT t.captured();
ALTER TABLE t."Orders" RENAME TO renamed; ALTER TABLE t.renamed ADD later int DEFAULT 7;
INSERT INTO t.renamed VALUES (2, 'c', NULL);
SELECT t.captured();
-- both versions count for the size of a payload
ALTER TABLE t.renamed ADD large text;
SELECT claims.uncapture_requests('t.renamed', 'rows');
UPDATE t.renamed SET large = repeat('x', 40000000);
DELETE FROM claims.requests;
SELECT t.call($$UPDATE t.renamed SET large = repeat('y', 40000000)$$);
UPDATE t.renamed SET large = NULL;
DELETE FROM claims.requests;
-- a call without the form gives payloads that are rows again
SELECT claims.capture_requests('t.renamed', 'orders', 'entity');
DELETE FROM t.renamed;
SELECT t.captured();
DROP TABLE t.renamed;
-- the history of an entity is read by its index
INSERT INTO claims.requests (queue, entity, request_type, status, settled_at)
    SELECT 'history', 'entity ' || i % 1000, 'update', 'complete', now() FROM generate_series(1, 20000) i;
ANALYZE claims.requests;
EXPLAIN (COSTS OFF) SELECT * FROM claims.requests WHERE queue = 'history' AND entity = 'entity 7' AND settled_at IS NOT NULL ORDER BY id;
DELETE FROM claims.requests;
-- system tables and unknown tables are refused
SELECT t.call($$SELECT claims.capture_requests('pg_catalog.pg_class', 'q', 'relname')$$);
SELECT t.call($$SELECT claims.capture_requests(999999999::oid, 'q', 'c')$$);
SELECT t.call($$SELECT claims.uncapture_requests(999999999::oid, 'q')$$);
DROP TABLE t.tree, t.whole;
SELECT count(*) FROM claims.captured_tables;
DELETE FROM claims.requests;
