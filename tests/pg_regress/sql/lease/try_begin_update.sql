-- try_begin_update.
SELECT t.clean();
SELECT t.have(1, 'mine'); SELECT t.have(2, 'theirs');
SET SESSION AUTHORIZATION regress_claims_one;
-- without a conflict try_begin_update returns the lease, as begin_update does
SELECT * FROM claims.try_begin_update(1, t.creates('a'), t.destroys('mine'), t.u(1000));
SELECT * FROM t.state();
SELECT substr(lease_uuid::text, 15, 1), conflicts FROM claims.try_begin_update(cell_id => 1, create_records => t.creates('b'));
-- a conflict is returned as a result, nothing is written, and the transaction continues
BEGIN;
CREATE TEMP TABLE work AS SELECT 1 AS x;
SELECT lease_uuid, jsonb_array_length(conflicts) FROM claims.try_begin_update(1, t.creates('c', 'theirs', 'a'), t.destroys('nothing'), t.u(1001));
SELECT lease_uuid IS NULL, t.mask(conflicts) FROM claims.try_begin_update(1, t.creates('c', 'theirs', 'a'), t.destroys('nothing'), t.u(1001));
INSERT INTO work VALUES (2);
SELECT claims.lease_outcome(1, t.u(1001)) IS NULL;
SELECT count(*) FROM claims.get_record('ROUTES', 'c');
-- the uuid can be used for a smaller batch
SELECT * FROM claims.try_begin_update(1, t.creates('c'), lease_uuid => t.u(1001));
COMMIT;
SELECT count(*) FROM work;
SELECT * FROM t.state();
-- other errors are raised
SELECT t.call($$SELECT * FROM claims.try_begin_update(1)$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(1, '[{}]')$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(2, t.creates('z'))$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(NULL, t.creates('z'))$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(1, NULL)$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(1, t.creates('z'), NULL)$$);
-- the conflicts equal those in the DETAIL of begin_update's error
RESET SESSION AUTHORIZATION;
DO $$
DECLARE d text; c jsonb;
BEGIN
    BEGIN
        PERFORM claims.begin_update(1, t.creates('theirs', 'a'), t.destroys('nothing', 'theirs2'));
    EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL;
    END;
    SELECT conflicts INTO c FROM claims.try_begin_update(1, t.creates('theirs', 'a'), t.destroys('nothing', 'theirs2'));
    RAISE NOTICE 'the same: %', ARRAY(SELECT t.mask(d::jsonb)) = ARRAY(SELECT t.mask(c));
END $$;
SELECT count(*) FROM claims.check();
