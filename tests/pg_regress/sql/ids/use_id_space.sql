-- Sequences that draw from ranges of ids: who may declare them, and what is refused. (ids.sh tests them with a service.)
GRANT CREATE ON SCHEMA public TO regress_claims_one;
SET ROLE regress_claims_one;
CREATE TABLE rows (id bigserial, small smallserial, name text);
CREATE SEQUENCE down INCREMENT -1;
CREATE UNLOGGED TABLE passing (id int);
CREATE TEMP SEQUENCE temporary;
SELECT nextval('rows_id_seq');

-- from the declaration on the sequence has no ids, until the first range
SELECT t.call($$SELECT claims.use_id_space('rows_id_seq', 'rows')$$);
SELECT t.call($$SELECT nextval('rows_id_seq')$$);
SELECT t.call($$SELECT claims.use_id_space('rows_small_seq', 'rows', 100)$$);
SELECT t.call($$SELECT nextval('rows_small_seq')$$);
-- setval() cannot bring it back to ids of others
SELECT t.call($$SELECT setval('rows_id_seq', 5)$$);
RESET ROLE;
SELECT sequence_name, id_space, low_water, cell_id, id_range, next_range FROM claims.id_sequences ORDER BY 1;
SELECT problem, detail FROM claims.check();
SET ROLE regress_claims_one;

-- what cannot draw from ranges
SELECT t.call($$SELECT claims.use_id_space('down', 'rows')$$);
SELECT t.call($$SELECT claims.use_id_space('temporary', 'rows')$$);
SELECT t.call($$SELECT claims.use_id_space('rows', 'rows')$$);
SELECT t.call($$SELECT claims.use_id_space(1::oid::regclass, 'rows')$$);
SELECT t.call($$SELECT claims.use_id_space(NULL, 'rows')$$);
SELECT t.call($$SELECT claims.use_id_space('rows_id_seq', '')$$);
SELECT t.call($$SELECT claims.use_id_space('rows_id_seq', 'rows', 0)$$);
SELECT t.call($$SELECT claims.use_id_space('rows_id_seq', 'rows', 500000001)$$);
SELECT t.call($$SELECT claims.use_id_space('down', NULL)$$);
-- only the owner, or an administrator
RESET ROLE; SET ROLE regress_claims_two;
SELECT t.call($$SELECT claims.use_id_space('public.rows_id_seq', 'rows')$$);
SELECT t.call($$SELECT claims.use_id_space('public.rows_id_seq', NULL)$$);
SELECT t.call($$SELECT claims.refill_ids(1, 'service')$$);
SELECT t.call($$SELECT claims.refill_ids(NULL, 'service')$$);
RESET ROLE; SET ROLE regress_claims_nobody;
SELECT t.call($$SELECT claims.use_id_space('public.rows_id_seq', 'rows')$$);
RESET ROLE;
SELECT t.call($$SELECT claims.refill_ids(1, NULL)$$);
SELECT t.call($$SELECT claims.refill_ids(1, 'no service')$$);
BEGIN READ ONLY; SELECT t.call($$SELECT claims.refill_ids(1, 'service')$$); ROLLBACK;

-- check() finds a sequence that counts elsewhere, begins again, or is gone
UPDATE claims.id_sequences SET id_range = '[1001,2001)' WHERE sequence_name = 'rows_id_seq'::regclass;
ALTER SEQUENCE rows_id_seq MINVALUE 1001 MAXVALUE 2000 START 1001 RESTART 1001;
SELECT problem, detail FROM claims.check();
ALTER SEQUENCE rows_id_seq CYCLE;
SELECT problem, detail FROM claims.check();
ALTER SEQUENCE rows_id_seq NO CYCLE MAXVALUE 9223372036854775807;
SELECT problem, detail FROM claims.check();
ALTER SEQUENCE rows_id_seq MAXVALUE 2000;
SELECT problem, detail FROM claims.check();
UPDATE claims.id_sequences SET id_range = '[1,3)' WHERE sequence_name = 'rows_small_seq'::regclass;
ALTER SEQUENCE rows_small_seq MINVALUE 1 MAXVALUE 2 START 1 RESTART 1;
SELECT problem, detail FROM claims.check();
ALTER TABLE rows DROP COLUMN small;
SELECT problem, regexp_replace(detail, 'number \d+', 'number <oid>') FROM claims.check();

-- repeated with another low-water mark a sequence that fits keeps its ids; one that does not begins anew
SET ROLE regress_claims_one;
SELECT nextval('rows_id_seq');
SELECT t.call($$SELECT claims.use_id_space('rows_id_seq', 'rows', 50)$$);
SELECT nextval('rows_id_seq');
ALTER SEQUENCE rows_id_seq CYCLE;
SELECT t.call($$SELECT claims.use_id_space('rows_id_seq', 'rows', 60)$$);
SELECT t.call($$SELECT nextval('rows_id_seq')$$);
RESET ROLE;
SELECT sequence_name, low_water, id_range FROM claims.id_sequences WHERE sequence_name = 'rows_id_seq'::regclass;
-- without the space it keeps its limits
SET ROLE regress_claims_one;
SELECT t.call($$SELECT claims.use_id_space('rows_id_seq', NULL)$$);
RESET ROLE;

-- metrics: ids left in the ranges of a sequence, from its first id to the last one of the next range; by the increment; 0 without a range
CREATE FUNCTION t.ids() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', name, labels, value) FROM claims.metrics() WHERE name LIKE 'claims\_id%' ORDER BY name COLLATE "C", labels $$;
DELETE FROM claims.id_sequences;
SET ROLE regress_claims_one;
SELECT t.call($$SELECT claims.use_id_space('rows_id_seq', 'rows', 50)$$);
RESET ROLE;
SELECT t.ids();
UPDATE claims.id_sequences SET cell_id = 1, id_range = '[1001,2001)';
ALTER SEQUENCE rows_id_seq MINVALUE 1001 MAXVALUE 2000 START 1001 RESTART 1001 NO CYCLE;
SELECT t.ids();
SELECT nextval('rows_id_seq'), nextval('rows_id_seq');
SELECT t.ids();
UPDATE claims.id_sequences SET next_range = '[5001,5101)';
SELECT t.ids();
ALTER SEQUENCE rows_id_seq INCREMENT 10;
SELECT t.ids();
SELECT setval('rows_id_seq', 2000);
UPDATE claims.id_sequences SET next_range = NULL;
SELECT t.ids();
-- a sequence that is gone has none
DROP TABLE rows;
SELECT t.ids();
-- of an id space: those that no block has reserved
BEGIN;
INSERT INTO claims.id_spaces (number, name, first_id, last_id, block_size, next_id, reason, role) VALUES
  (9901, 'metric_a', 1, 100, 10, 31, 'test', 'x'),
  (9902, 'metric_b', -9223372036854775807, 9223372036854775806, 10, 9223372036854775807, 'test', 'x');
SELECT t.ids();
ROLLBACK;
