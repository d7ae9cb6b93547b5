-- Savepoints and subtransactions: a caught error leaves nothing behind.
SELECT t.clean();
SELECT t.have(2, 'theirs');
SET SESSION AUTHORIZATION regress_claims_one;
-- a conflict caught in PL/pgSQL: the transaction continues, and nothing of the failed batch remains
BEGIN;
DO $$
BEGIN
    PERFORM claims.begin_update(1, t.creates('a'), lease_uuid => t.u(2700));
    BEGIN
        PERFORM claims.begin_update(1, t.creates('b', 'theirs', 'c'), lease_uuid => t.u(2701));
        RAISE 'not reached';
    EXCEPTION WHEN unique_violation THEN
        PERFORM claims.begin_update(1, t.creates('b', 'c'), lease_uuid => t.u(2701));
    END;
    BEGIN
        PERFORM claims.begin_update(1, '[]', t.destroys('theirs'), t.u(2702));
    EXCEPTION WHEN insufficient_privilege THEN
        RAISE NOTICE 'not ours';
    END;
    BEGIN
        PERFORM claims.begin_update(1, t.creates('a'), '[]', t.u(2702));
    EXCEPTION WHEN lock_not_available THEN
        RAISE NOTICE 'leased';
    END;
    BEGIN
        PERFORM claims.begin_update(1, '[]', t.destroys('nothing'), t.u(2702));
    EXCEPTION WHEN no_data_found THEN
        RAISE NOTICE 'missing';
    END;
    BEGIN
        PERFORM claims.begin_update(1, t.creates('a', 'a'), '[]', t.u(2702));
    EXCEPTION WHEN invalid_parameter_value THEN
        RAISE NOTICE 'malformed';
    END;
    BEGIN
        PERFORM claims.commit_update(1, t.u(2702));
    EXCEPTION WHEN no_data_found THEN
        RAISE NOTICE 'unknown';
    END;
END $$;
SELECT * FROM t.state();
SELECT t.leases();
COMMIT;
SELECT claims.lease_outcome(1, t.u(2702)) IS NULL;
SELECT claims.commit_update(1, t.u(2701));
SELECT * FROM t.state();
-- an error after a savepoint
BEGIN;
SELECT claims.begin_update(1, t.creates('d'), lease_uuid => t.u(2703));
SAVEPOINT s;
SELECT claims.begin_update(1, t.creates('e', 'theirs'), lease_uuid => t.u(2704));
SELECT 1;
ROLLBACK TO s;
SELECT claims.lease_outcome(1, t.u(2704)) IS NULL;
SELECT count(*) FROM claims.get_record('ROUTES', 'e');
SELECT claims.begin_update(1, t.creates('e'), lease_uuid => t.u(2704));
ROLLBACK TO s;
-- after ROLLBACK TO the uuid and the bucket can be used again
SELECT claims.lease_outcome(1, t.u(2704)) IS NULL;
SELECT claims.begin_update(1, t.creates('e'), lease_uuid => t.u(2705));
SAVEPOINT s2;
SELECT claims.commit_update(1, t.u(2705));
SELECT claims.lease_outcome(1, t.u(2705));
ROLLBACK TO s2;
SELECT claims.lease_outcome(1, t.u(2705));
SELECT claims.rollback_update(1, t.u(2705));
ROLLBACK TO s2;
SELECT claims.lease_outcome(1, t.u(2705));
SELECT claims.rollback_update(1, t.u(2706));
ROLLBACK TO s2;
SELECT claims.begin_update(1, t.creates('f'), lease_uuid => t.u(2706));
RELEASE s2;
COMMIT;
SELECT * FROM t.state();
SELECT claims.lease_outcome(1, t.u(2703)), claims.lease_outcome(1, t.u(2704)), claims.lease_outcome(1, t.u(2705)), claims.lease_outcome(1, t.u(2706));
-- settle_leases and try_begin_update in a savepoint that is rolled back
BEGIN;
SAVEPOINT s;
SELECT right(lease_uuid::text, 4), outcome, settled
  FROM claims.settle_leases(1, ARRAY[t.u(2703), t.u(2705), t.u(2799)], ARRAY[t.u(2706), t.u(2707)]) ORDER BY 1;
ROLLBACK TO s;
SELECT claims.lease_outcome(1, t.u(2703)), claims.lease_outcome(1, t.u(2706)), claims.lease_outcome(1, t.u(2707)) IS NULL;
SELECT lease_uuid, t.mask(conflicts) FROM claims.try_begin_update(1, t.creates('theirs', 'g'), lease_uuid => t.u(2708));
SELECT * FROM claims.try_begin_update(1, t.creates('g'), lease_uuid => t.u(2708));
COMMIT;
SELECT claims.lease_outcome(1, t.u(2708));
-- a hundred nested savepoints
BEGIN;
DO $$
BEGIN
    FOR i IN 1..100 LOOP
        BEGIN
            PERFORM claims.begin_update(1, t.creates('deep' || i), lease_uuid => t.u(2800 + i));
            IF i % 2 = 0 THEN RAISE SQLSTATE 'ZZ000'; END IF;
        EXCEPTION WHEN SQLSTATE 'ZZ000' THEN NULL;
        END;
    END LOOP;
END $$;
COMMIT;
SELECT count(*) FROM t.state() WHERE claim ~ 'deep';
-- a procedure that commits between two calls
CREATE PROCEDURE pg_temp.p() LANGUAGE plpgsql AS $$
BEGIN
    PERFORM claims.begin_update(1, t.creates('proc'), lease_uuid => t.u(2901));
    COMMIT;
    PERFORM claims.commit_update(1, t.u(2901));
    ROLLBACK;
    PERFORM claims.rollback_update(1, t.u(2901));
END $$;
CALL pg_temp.p();
SELECT claims.lease_outcome(1, t.u(2901));
-- begin_update in a trigger: the application's row and its claim commit or roll back together
RESET SESSION AUTHORIZATION;
CREATE TABLE t.routes (id int PRIMARY KEY, path text);
CREATE FUNCTION t.claim_route() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM claims.commit_update(1, claims.begin_update(1, t.creates(NEW.path))); RETURN NEW; END $$;
CREATE TRIGGER claim BEFORE INSERT ON t.routes FOR EACH ROW EXECUTE FUNCTION t.claim_route();
GRANT ALL ON t.routes TO regress_claims_one;
SET SESSION AUTHORIZATION regress_claims_one;
INSERT INTO t.routes VALUES (1, 'trig');
INSERT INTO t.routes VALUES (1, 'trig2');
INSERT INTO t.routes VALUES (2, 'theirs');
SELECT * FROM t.routes;
SELECT bucket_value, status FROM claims.get_records('[{"type": 1, "value": "trig"}, {"type": 1, "value": "trig2"}]');
RESET SESSION AUTHORIZATION;
DROP TABLE t.routes; DROP FUNCTION t.claim_route();
SELECT count(*) FROM claims.check();
