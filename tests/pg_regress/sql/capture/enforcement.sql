-- Enforcement of claimed columns: off, observe, enforce, and the share of names for which the mode holds.
SET client_min_messages = error;
SELECT t.clean();
CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO regress_claims_one, regress_claims_two;
CREATE TABLE app.routes (id bigint PRIMARY KEY, path text, nick text, owner_id bigint, kind text);
CREATE TABLE app.users (id bigint PRIMARY KEY, username text);
ALTER TABLE app.routes OWNER TO regress_claims_one;
DO $$ BEGIN EXECUTE format('CREATE SERVER regress_claims_enforced FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_enforced OPTIONS (user 'postgres');
CREATE SERVER regress_claims_lost FOREIGN DATA WRAPPER claims_service;
CREATE USER MAPPING FOR PUBLIC SERVER regress_claims_lost OPTIONS (user 'postgres');
SET claims.service_timeout = '5min'; SET claims.observe_timeout = '1min';
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'owner_id', 'RAILS_TABLE_ROUTES');
SELECT claims.claim_attribute('app.users', 'username', 'ROUTES', 'USER', 'id', 'RAILS_TABLE_USERS');
-- t.settle() waits until the sessions at the service are idle, and recovers what is left
CREATE FUNCTION t.settle() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    WHILE EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active') LOOP
        PERFORM pg_sleep(0.01);
        PERFORM pg_stat_clear_snapshot();
    END LOOP;
    RETURN (SELECT pending FROM claims.reconcile(1, 'regress_claims_enforced'));
END $$;
CREATE FUNCTION t.owned() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', bucket_value, cell_id, subject_type, subject_id, replace(source_type, 'RAILS_TABLE_', ''), source_id, status)
      FROM claims.records ORDER BY 1 $$;
-- t.observed() returns the observations since the last call
CREATE FUNCTION t.observed() RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN
    RETURN QUERY SELECT concat_ws(' ', o.table_name, o.attribute, o.outcome, o.bucket_type, o.bucket_value, o.holder_cell_id, o.count)
      FROM claims.observations o ORDER BY 1;
    PERFORM claims.purge_observations('0 s');
END $$;
-- arguments
SELECT t.call($$SELECT claims.set_enforcement(NULL, 'path', 'observe', 'why')$$);
SELECT t.call($$SELECT claims.set_enforcement('app.routes', NULL, 'observe', 'why')$$);
SELECT t.call($$SELECT claims.set_enforcement('app.routes', 'path', NULL, 'why')$$);
SELECT t.call($$SELECT claims.set_enforcement('app.routes', 'path', 'on', 'why')$$);
SELECT t.call($$SELECT claims.set_enforcement('app.routes', 'path', 'observe', NULL)$$);
SELECT t.call($$SELECT claims.set_enforcement('app.routes', 'path', 'observe', ' ')$$);
SELECT t.call($$SELECT claims.set_enforcement('app.routes', 'path', 'observe', 'why', NULL)$$);
SELECT t.call(format($$SELECT claims.set_enforcement('app.routes', 'path', 'observe', 'why', %L)$$, share))
  FROM unnest('{-1,100.0001,NaN,Infinity,-Infinity}'::text[]) share;
SELECT t.call($$SELECT claims.set_enforcement('app.routes', 'nick', 'observe', 'why')$$);
SELECT t.call($$SELECT claims.set_enforcement('app.routes', 'path', 'observe', 'why', declaration => 'nothing')$$);
SELECT t.call($$SELECT claims.set_enforcement(1234567, 'path', 'observe', 'why')$$);
-- the table's owner and administrators, nobody else
SET ROLE regress_claims_one; SELECT t.call($$SELECT claims.set_enforcement('app.routes', 'path', 'observe', 'by the owner', 12.5)$$);
SET ROLE regress_claims_two; SELECT t.call($$SELECT claims.set_enforcement('app.routes', 'path', 'off', 'why')$$);
SELECT t.call('TABLE claims.observations'); SELECT t.call($$SELECT claims.purge_observations('0 s')$$);
RESET ROLE;
SELECT attribute, declaration, enforcement, share FROM claims.claimed_columns ORDER BY 1;
SELECT action, role, reason, arguments - 'table_name' FROM claims.admin_log WHERE action = 'set_enforcement' ORDER BY id DESC LIMIT 1;
-- observe: what is free is claimed, what is taken or leased elsewhere fails nothing, and is counted
SELECT claims.set_enforcement('app.routes', 'path', 'observe', 'test');
SELECT claims.automatic(1, 'regress_claims_enforced');
SELECT t.have(2, 'taken', 'taken too'), claims.begin_update(2, t.creates('leased'), lease_uuid => t.u(7201)) IS NULL;
INSERT INTO app.routes VALUES (1, 'free', NULL, 10), (2, 'taken', NULL, 20), (3, 'leased', NULL, 30), (4, 'free too', NULL, 40);
SELECT t.settle(); SELECT t.owned(); SELECT t.observed();
-- the first of each kind and name is kept, and counted again
INSERT INTO app.routes VALUES (5, 'taken', NULL, 50); UPDATE app.routes SET path = 'taken too' WHERE id = 5;
UPDATE app.routes SET path = 'taken' WHERE id = 5;
SELECT outcome, bucket_value, count, first_at < last_at FROM claims.observations ORDER BY 1, 2; SELECT t.observed();
-- names that are given up, replaced and swapped
UPDATE app.routes SET path = CASE path WHEN 'free' THEN 'free too' ELSE 'free' END WHERE id IN (1, 4);
UPDATE app.routes SET path = 'renamed' WHERE id = 1; DELETE FROM app.routes WHERE id = 2;
SELECT t.settle(); SELECT t.owned(); SELECT t.observed();
-- a transaction that is rolled back, also to a savepoint, counts nothing
BEGIN; INSERT INTO app.routes VALUES (6, 'taken', NULL, 60); ROLLBACK;
BEGIN; SAVEPOINT s; INSERT INTO app.routes VALUES (6, 'taken', NULL, 60); ROLLBACK TO s; INSERT INTO app.routes VALUES (7, 'seven', NULL, 70); COMMIT;
SELECT t.observed();
-- nothing else fails a save: no subject, a name in two rows, a name that is too long
INSERT INTO app.routes VALUES (8, 'no subject', NULL, NULL), (9, 'same', NULL, 90), (10, 'same', NULL, 100), (11, repeat('x', 2000), NULL, 110);
SELECT t.observed();
DELETE FROM app.routes WHERE id IN (8, 9, 10, 11); SELECT t.observed();
-- the enforced names of a transaction fail it, and the observed ones do not; all three modes in one transaction
SELECT claims.claim_attribute('app.routes', 'nick', 'ROUTES', 'GROUP', 'owner_id', 'RAILS_TABLE_GROUPS');
SELECT claims.set_enforcement('app.routes', 'nick', 'off', 'test');
BEGIN; INSERT INTO app.users VALUES (1, 'user'); INSERT INTO app.routes VALUES (12, 'taken', 'taken too', 120), (13, 'thirteen', 'nick', 130); COMMIT;
SELECT t.settle(); SELECT t.owned(); SELECT t.observed();
\set VERBOSITY terse
BEGIN; INSERT INTO app.users VALUES (2, 'taken'); INSERT INTO app.routes VALUES (14, 'fourteen', NULL, 140); COMMIT;
\set VERBOSITY default
SELECT t.settle(); SELECT t.owned(); SELECT t.observed();
-- a name that goes from an observed column to an enforced one must be claimed, also within one row
SELECT claims.set_enforcement('app.routes', 'nick', 'enforce', 'test');
\set VERBOSITY terse
UPDATE app.routes SET path = NULL, nick = 'taken' WHERE id = 12;
\set VERBOSITY default
UPDATE app.routes SET path = NULL, nick = 'thirteen' WHERE id = 13;
SELECT t.settle(); SELECT t.owned(); SELECT t.observed();
-- a name that goes from an enforced column to an observed one stays claimed
UPDATE app.routes SET path = 'thirteen', nick = NULL WHERE id = 13;
SELECT t.settle(); SELECT t.owned(); SELECT t.observed();
-- one name in an enforced and in an observed row: the enforced one has it
BEGIN; INSERT INTO app.users VALUES (3, 'both'); INSERT INTO app.routes VALUES (15, 'both', NULL, 150); COMMIT;
SELECT t.settle(); SELECT t.owned(); SELECT t.observed();
-- a condition that fails: an error where it is enforced, and none where it is observed
SELECT claims.unclaim_attribute('app.routes', 'nick');
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'owner_id', 'RAILS_TABLE_ROUTES', condition => '100 / (id - 16) > -1000');
INSERT INTO app.routes VALUES (16, 'sixteen', NULL, 160), (17, 'seventeen', NULL, 170);
SELECT t.observed();
SELECT claims.set_enforcement('app.routes', 'path', 'enforce', 'test');
SELECT t.call($$UPDATE app.routes SET path = 'sechzehn' WHERE id = 16 RETURNING id$$);
-- a column of the declaration that is gone
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'GROUP', 'owner_id', 'RAILS_TABLE_ROUTES');
SELECT claims.set_enforcement('app.routes', 'path', 'observe', 'test');
ALTER TABLE app.routes RENAME owner_id TO group_id;
INSERT INTO app.routes VALUES (18, 'eighteen', NULL, 180); SELECT t.observed();
SELECT claims.set_enforcement('app.routes', 'path', 'enforce', 'test');
SELECT t.call($$INSERT INTO app.routes VALUES (19, 'nineteen', NULL, 190) RETURNING id$$);
SELECT claims.set_enforcement('app.routes', 'path', 'off', 'test');
INSERT INTO app.routes VALUES (19, 'nineteen', NULL, 190); SELECT t.observed();
ALTER TABLE app.routes RENAME group_id TO owner_id;
-- two declarations of a column, one of them observed, that both hold: the enforced one claims
SELECT claims.set_enforcement('app.routes', 'path', 'enforce', 'test');
SELECT claims.claim_attribute('app.routes', 'path', 'ROUTES', 'PROJECT', 'owner_id', 'RAILS_TABLE_ROUTES', declaration => 'projects');
SELECT claims.set_enforcement('app.routes', 'path', 'observe', 'test', declaration => 'projects');
INSERT INTO app.routes VALUES (20, 'twenty', NULL, 200);
SELECT t.settle(); SELECT * FROM t.owned() o WHERE o ~ 'twenty'; SELECT t.observed();
SELECT claims.unclaim_attribute('app.routes', 'path', 'projects');
-- share: by the hash of the canonical form; the others are observed. 'ada' is at 99.1916 %, 'gitlab-org' at 25.0806 %
SELECT t.have(2, 'ada', 'gitlab-org');
SELECT claims.set_enforcement('app.routes', 'path', 'enforce', 'test', 25.0806);
INSERT INTO app.routes VALUES (21, 'ada', NULL, 210), (22, 'gitlab-org', NULL, 220); SELECT t.observed();
DELETE FROM app.routes WHERE id IN (21, 22);
SELECT claims.set_enforcement('app.routes', 'path', 'enforce', 'test', 25.0807);
INSERT INTO app.routes VALUES (21, 'ada', NULL, 210); SELECT t.observed();
\set VERBOSITY terse
INSERT INTO app.routes VALUES (22, 'gitlab-org', NULL, 220);
SELECT claims.set_enforcement('app.routes', 'path', 'enforce', 'test');
INSERT INTO app.routes VALUES (22, 'ada', NULL, 220);
\set VERBOSITY default
SELECT claims.set_enforcement('app.routes', 'path', 'off', 'test', 50);
INSERT INTO app.routes VALUES (22, 'gitlab-org', NULL, 220), (23, 'ada', NULL, 230); SELECT t.observed();
-- a new mode is for transactions that write the table for the first time after it
SELECT claims.set_enforcement('app.routes', 'path', 'observe', 'test');
BEGIN; INSERT INTO app.routes VALUES (24, 'twenty-four', NULL, 240);
SELECT claims.set_enforcement('app.routes', 'path', 'enforce', 'test');
INSERT INTO app.routes VALUES (25, 'taken', NULL, 250); COMMIT;
SELECT t.observed();
SELECT count(*) FROM app.routes WHERE id IN (24, 25);
\set VERBOSITY terse
INSERT INTO app.routes VALUES (26, 'taken', NULL, 260);
\set VERBOSITY default
-- after SET CONSTRAINTS, and with begin_pending, which returns the lease of the enforced names
SELECT claims.set_enforcement('app.routes', 'path', 'observe', 'test');
BEGIN; SET CONSTRAINTS ALL IMMEDIATE; INSERT INTO app.routes VALUES (26, 'taken', NULL, 260), (27, 'twenty-seven', NULL, 270); COMMIT;
SELECT t.settle(); SELECT * FROM t.owned() o WHERE o ~ 'twenty-seven'; SELECT t.observed();
SELECT claims.automatic(NULL, NULL);
BEGIN; INSERT INTO app.routes VALUES (28, 'taken', NULL, 280), (29, 'twenty-nine', NULL, 290);
SELECT * FROM t.pending();
SELECT claims.begin_pending(1, 'regress_claims_enforced') IS NULL; COMMIT;
SELECT t.settle(); SELECT * FROM t.owned() o WHERE o ~ 'twenty-nine'; SELECT t.observed();
-- a service that takes fewer records in a batch: the names are claimed in more leases
SELECT claims.automatic(1, 'regress_claims_enforced');
SELECT claims.set_cell_limits(1, 'test', max_batch_size => 3);
INSERT INTO app.routes SELECT 100 + n, CASE n WHEN 5 THEN 'taken' ELSE 'part ' || n END, NULL, 100 FROM generate_series(1, 10) n;
SELECT t.settle(); SELECT count(*) FROM t.owned() o WHERE o ~ '^part'; SELECT t.observed();
-- a name that passes from row to row needs two records in one lease: it is refused where only one may be, and its claim remains
SELECT claims.set_cell_limits(1, 'test', max_batch_size => 1);
UPDATE app.routes SET path = CASE id WHEN 101 THEN 'part 1 too' ELSE 'part 1' END WHERE id IN (101, 102);
SELECT t.settle(); SELECT * FROM t.owned() o WHERE o ~ '^part [12] '; SELECT t.observed();
SELECT claims.set_cell_limits(1, 'test');
DELETE FROM app.routes WHERE id > 100; SELECT t.settle(); SELECT t.owned(); SELECT t.observed();
-- a name and its look-alike are in one lease, however many names are between them
SELECT claims.add_bucket_type(123, 'HANDLES', 'username', 'reject');
CREATE TABLE app.handles (id bigint PRIMARY KEY, handle text);
SELECT claims.claim_attribute('app.handles', 'handle', 'HANDLES', 'USER', 'id', 'RAILS_TABLE_USERS');
SELECT claims.set_enforcement('app.handles', 'handle', 'observe', 'test');
INSERT INTO app.handles SELECT n, 'o' || n FROM generate_series(1, 600) n;
SELECT t.settle(); SELECT count(*) FROM claims.claims WHERE bucket_type = 123;
UPDATE app.handles SET handle = U&'\043E' || id;
SELECT t.settle(); SELECT count(*), count(*) FILTER (WHERE bucket_value LIKE U&'\043E%') FROM claims.claims WHERE bucket_type = 123;
SELECT t.observed();
DELETE FROM app.handles; SELECT t.settle(); SELECT count(*) FROM claims.claims WHERE bucket_type = 123;
-- the canonical form decides on which side of a share a name is: 'ada' is at 99.1916 %, 'Ada' would be at 60.0179 %
SELECT claims.commit_update(2, claims.begin_update(2, jsonb_build_array(t.claim('ada', 'HANDLES'))));
SELECT claims.set_enforcement('app.handles', 'handle', 'enforce', 'test', 99);
INSERT INTO app.handles VALUES (1, 'Ada'); SELECT t.observed();
\set VERBOSITY terse
SELECT claims.set_enforcement('app.handles', 'handle', 'enforce', 'test', 99.2);
INSERT INTO app.handles VALUES (2, 'Ada');
\set VERBOSITY default
SELECT count(*) FROM app.handles;
SELECT claims.unclaim_attribute('app.handles', 'handle');
-- a transaction records a thousand names, and counts the others without theirs
SELECT claims.commit_update(2, claims.begin_update(2, (SELECT jsonb_agg(t.claim('held ' || n)) FROM generate_series(1, 1500) n)));
INSERT INTO app.routes SELECT 1000 + n, 'held ' || n, NULL, 100 FROM generate_series(1, 1500) n;
SELECT count(*), count(bucket_value), sum(count) FROM claims.observations; SELECT claims.purge_observations('0 s');
DELETE FROM app.routes WHERE id > 1000; SELECT count(*) FROM claims.observed;
-- more names than a transaction may claim: none is claimed, and the save goes on
BEGIN; INSERT INTO app.routes SELECT 1000 + n, 'big ' || n, NULL, 100 FROM generate_series(1, 200001) n; COMMIT;
SELECT count(*) FROM app.routes WHERE id > 1000; SELECT count(*) FROM t.owned() o WHERE o ~ '^big'; SELECT t.observed();
BEGIN; SELECT claims.skip_capture('test'); DELETE FROM app.routes WHERE id > 1000; COMMIT;
-- the server that was chosen is gone
SELECT claims.automatic(1, 'regress_claims_lost');
ALTER SERVER regress_claims_lost RENAME TO regress_claims_found;
INSERT INTO app.routes VALUES (40, 'lost', NULL, 400); SELECT t.observed();
-- REPEATABLE READ and SERIALIZABLE
SELECT claims.automatic(1, 'regress_claims_enforced');
BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO app.routes VALUES (30, 'taken', NULL, 300); COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO app.routes VALUES (31, 'taken', NULL, 310); COMMIT;
BEGIN; INSERT INTO app.routes VALUES (32, 'taken', NULL, 320); PREPARE TRANSACTION 'regress_claims_enforced';
COMMIT PREPARED 'regress_claims_enforced';
SELECT count(*) FROM claims.observed; SELECT t.observed();
-- metrics have counts and no names
INSERT INTO app.routes VALUES (33, 'taken', NULL, 330);
SELECT name, labels, value FROM claims.metrics() WHERE name ~ 'observ';
-- a table that is dropped is forgotten
DROP TABLE app.routes; SELECT count(*) FROM claims.observed;
SELECT claims.automatic(NULL, NULL);
SELECT claims.rollback_update(2, t.u(7201));
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
DROP SCHEMA app CASCADE; DROP SERVER regress_claims_enforced CASCADE; DROP SERVER regress_claims_found CASCADE;
DROP FUNCTION t.settle, t.owned, t.observed;
SELECT t.clean();
