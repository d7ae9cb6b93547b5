-- skip_capture: nothing is captured in the rest of the transaction; foreign keys and other triggers work.
SET client_min_messages = warning;
CREATE SCHEMA skip;
CREATE TABLE skip.groups (id bigint PRIMARY KEY);
CREATE TABLE skip.routes (id bigint PRIMARY KEY, path text UNIQUE, group_id bigint REFERENCES skip.groups ON DELETE CASCADE);
CREATE TABLE skip.seen (path text);
CREATE FUNCTION skip.sees() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO skip.seen VALUES (coalesce(NEW.path, OLD.path));
    RETURN NULL;
END $$;
CREATE TRIGGER sees AFTER INSERT OR DELETE ON skip.routes FOR EACH ROW EXECUTE FUNCTION skip.sees();
SELECT claims.claim_attribute('skip.routes', 'path', 'ROUTES', 'GROUP', 'group_id', 'RAILS_TABLE_ROUTES');
INSERT INTO skip.groups VALUES (1), (2);
-- changes before the call are pending, later ones are not
BEGIN;
INSERT INTO skip.routes VALUES (1, 'before', 1);
SELECT claims.skip_capture('the customer moves');
INSERT INTO skip.routes VALUES (2, 'after', 1);
UPDATE skip.routes SET path = 'renamed' WHERE id = 1;
SELECT * FROM t.pending();
-- foreign keys and other triggers work
DELETE FROM skip.groups WHERE id = 1;
SELECT count(*) FROM skip.routes;
SELECT string_agg(path, ' ' ORDER BY path) FROM skip.seen;
SELECT t.call('INSERT INTO skip.routes VALUES (3, ''x'', 99)');
SELECT * FROM t.pending();
COMMIT;
-- the next transaction is captured, also after a rollback
BEGIN; INSERT INTO skip.routes VALUES (4, 'next', 2); SELECT * FROM t.pending(); ROLLBACK;
BEGIN; SELECT claims.skip_capture('x'); ROLLBACK;
BEGIN; INSERT INTO skip.routes VALUES (4, 'next', 2); SELECT * FROM t.pending(); ROLLBACK;
-- skip_capture follows savepoints
BEGIN;
SAVEPOINT a;
SELECT claims.skip_capture('x');
ROLLBACK TO a;
INSERT INTO skip.routes VALUES (5, 'captured', 2);
SELECT * FROM t.pending();
SAVEPOINT b;
SAVEPOINT c;
SELECT claims.skip_capture('x');
RELEASE c;
INSERT INTO skip.routes VALUES (6, 'skipped', 2);
ROLLBACK TO b;
INSERT INTO skip.routes VALUES (7, 'captured too', 2);
SELECT * FROM t.pending();
SAVEPOINT d;
SELECT claims.skip_capture('x');
RELEASE d;
INSERT INTO skip.routes VALUES (8, 'skipped', 2);
SAVEPOINT e;
SELECT claims.skip_capture('again');
ROLLBACK TO e;
INSERT INTO skip.routes VALUES (9, 'still skipped', 2);
SELECT * FROM t.pending();
ROLLBACK;
-- TRUNCATE is still refused
BEGIN;
SELECT claims.skip_capture('x');
SELECT t.call('TRUNCATE skip.routes');
ROLLBACK;
-- skip_capture needs a reason, is not for cells, and is refused in a read-only transaction
SELECT t.call('SELECT claims.skip_capture(NULL)');
SELECT t.call('SELECT claims.skip_capture('''')');
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call('SELECT claims.skip_capture(''x'')');
RESET SESSION AUTHORIZATION;
BEGIN READ ONLY;
SELECT claims.skip_capture('x');
ROLLBACK;
SELECT action, reason FROM claims.admin_log WHERE action = 'skip_capture' ORDER BY id DESC LIMIT 1;
SELECT claims.unclaim_attribute('skip.routes', 'path');
DROP SCHEMA skip CASCADE;
