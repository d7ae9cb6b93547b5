-- check() returns no row for intact tables, and finds every kind of damage.
SELECT t.clean();
SELECT t.have(1, 'active', 'going'); SELECT t.have(2, 'theirs');
SELECT claims.begin_update(1, t.creates('coming', 'coming2'), t.destroys('going'), t.u(1800));
SELECT claims.begin_update(2, t.creates('their coming'), lease_uuid => t.u(1801));
SELECT claims.begin_update(1, t.creates('settled'), lease_uuid => t.u(1802)), claims.rollback_update(1, t.u(1802));
SELECT count(*) FROM claims.check();
-- pg_temp.damage() damages tables without their constraints, calls check(), and rolls back
CREATE FUNCTION pg_temp.damage(statement text) RETURNS TABLE (touched bigint, problem text, violations bigint) LANGUAGE plpgsql AS $$
DECLARE c record; n bigint; found jsonb;
BEGIN
    BEGIN
        FOR c IN SELECT conrelid::regclass AS r, conname FROM pg_constraint
          WHERE conrelid IN ('claims.claims'::regclass, 'claims.claim_leases'::regclass) AND contype IN ('c', 'u', 'p')
            AND conname <> 'claims_bucket' LOOP
            EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.r, c.conname);
        END LOOP;
        IF statement LIKE 'INSERT INTO claims.claims %' THEN -- a bucket twice
            ALTER TABLE claims.claims DROP CONSTRAINT claims_bucket;
        END IF;
        EXECUTE statement;
        GET DIAGNOSTICS n = ROW_COUNT;
        SELECT jsonb_agg(to_jsonb(k)) INTO found FROM claims.check() k
          WHERE k.problem <> 'table is not as the extension has created it';
        RAISE 'undo' USING ERRCODE = 'ZZ000';
    EXCEPTION WHEN SQLSTATE 'ZZ000' THEN NULL;
    END;
    RETURN QUERY SELECT n, coalesce(p.problem, 'none'), count(p.problem) FROM (SELECT 1) one
        LEFT JOIN (SELECT k->>'problem' AS problem FROM jsonb_array_elements(found) k) p ON true GROUP BY p.problem ORDER BY p.problem COLLATE "C";
END $$;
SELECT * FROM pg_temp.damage('SELECT 1');
-- a bucket twice, where the unique index is missing
SELECT * FROM pg_temp.damage($$INSERT INTO claims.claims SELECT * FROM claims.claims WHERE false$$);
-- lease_uuid is NULL exactly when the status is 1
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET status = 2 WHERE bucket_value = 'active'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET status = 3 WHERE bucket_value = 'active'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET status = 0 WHERE bucket_value = 'active'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET status = 1 WHERE bucket_value = 'coming'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET lease_uuid = NULL WHERE bucket_value = 'coming'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET lease_uuid = t.u(1800) WHERE bucket_value = 'active'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET status = 0 WHERE bucket_value = 'coming'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET status = 4 WHERE bucket_value = 'coming'$$);
-- every lease_uuid names an outstanding lease of the same cell
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET lease_uuid = t.u(1899), status = 2 WHERE bucket_value = 'active'$$);
SELECT * FROM pg_temp.damage($$DELETE FROM claims.claim_leases WHERE uuid = t.u(1801)$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET lease_uuid = t.u(1802), status = 3 WHERE bucket_value = 'active'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET lease_uuid = t.u(1801), status = 3 WHERE bucket_value = 'active'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET creator_id = 2 WHERE bucket_value = 'coming'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claim_leases SET creator_id = 1 WHERE uuid = t.u(1801)$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET lease_uuid = t.u(1801) WHERE bucket_value = 'coming'$$);
-- an outstanding lease holds exactly the claims of its payload: one missing, one too many, one with the other status
SELECT * FROM pg_temp.damage($$DELETE FROM claims.claims WHERE bucket_value = 'coming2'$$);
SELECT * FROM pg_temp.damage($$DELETE FROM claims.claims WHERE bucket_value = 'going'$$);
SELECT * FROM pg_temp.damage($$DELETE FROM claims.claims WHERE lease_uuid = t.u(1800)$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET status = 1, lease_uuid = NULL WHERE bucket_value = 'going'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET status = 3, lease_uuid = t.u(1800) WHERE bucket_value = 'active'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET status = 2, lease_uuid = t.u(1800) WHERE bucket_value = 'active'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET status = 3 WHERE bucket_value = 'coming'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET status = 2 WHERE bucket_value = 'going'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET bucket_value = 'else' WHERE bucket_value = 'coming'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET bucket_type = 4 WHERE bucket_value = 'coming'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claim_leases SET payload = payload #- '{create_records,0}' WHERE uuid = t.u(1800)$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claim_leases SET payload = payload #- '{destroy_records,0}' WHERE uuid = t.u(1800)$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claim_leases
      SET payload = jsonb_set(payload, '{create_records}', (payload->'create_records') || t.claim('nowhere')) WHERE uuid = t.u(1800)$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claim_leases SET payload = '{}' WHERE uuid = t.u(1800)$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claim_leases SET payload = 'null' WHERE uuid = t.u(1800)$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claim_leases SET payload = '[{"create_records": 7}]' WHERE uuid = t.u(1800)$$);
SELECT *
  FROM pg_temp.damage($$UPDATE claims.claim_leases SET payload = '{"create_records": "x", "destroy_records": {"a": 1}}' WHERE uuid = t.u(1800)$$);
SELECT * FROM pg_temp.damage($$INSERT INTO claims.claim_leases SELECT (jsonb_populate_record(l, jsonb_build_object('uuid', t.u(1890)))).*
      FROM claims.claim_leases l WHERE uuid = t.u(1800)$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET subject_id = 'other' WHERE bucket_value = 'coming'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET subject_type = 1 WHERE bucket_value = 'coming'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET source_id = 'other' WHERE bucket_value = 'coming'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET source_type = 1 WHERE bucket_value = 'coming'$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claim_leases
      SET payload = jsonb_set(payload, '{create_records}', (payload->'create_records') || (payload->'create_records'->0)) WHERE uuid = t.u(1800)$$);
SELECT * FROM pg_temp.damage($$UPDATE claims.claim_leases
      SET payload = jsonb_set(payload, '{destroy_records}', payload->'create_records') WHERE uuid = t.u(1801)$$);
-- the payload does not name subject and source of a destroy, so they are not compared
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET subject_id = 'other' WHERE bucket_value = 'going'$$);
-- a bucket twice
SELECT * FROM pg_temp.damage($$INSERT INTO claims.claims SELECT * FROM claims.claims WHERE bucket_value = 'active'$$);
SELECT * FROM pg_temp.damage($$INSERT INTO claims.claims SELECT (jsonb_populate_record(c, jsonb_build_object('creator_id', 2, 'uuid', t.u(1891)))).*
      FROM claims.claims c WHERE bucket_value = 'active'$$);
-- two damages are reported in at least two rows
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET status = 2 WHERE bucket_value IN ('active', 'theirs')$$);
-- the columns of a reported row
BEGIN;
DO $$
DECLARE
    c name;
BEGIN
    FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = 'claims.claims'::regclass AND contype = 'c' LOOP
        EXECUTE format('ALTER TABLE claims.claims DROP CONSTRAINT %I', c);
    END LOOP;
END $$;
UPDATE claims.claims SET status = 2 WHERE bucket_value = 'active';
SELECT * FROM claims.check();
-- a repaired row is not reported any more
UPDATE claims.claims SET status = 1 WHERE bucket_value = 'active';
SELECT count(*) FROM claims.check();
ROLLBACK;
-- the unique index refuses a second claim of a bucket
SELECT left(c, 5) FROM t.call($$INSERT INTO claims.claims SELECT (jsonb_populate_record(c, jsonb_build_object('uuid', t.u(1891)))).*
      FROM claims.claims c WHERE bucket_value = 'active'$$) c LIMIT 1;
-- a hundred damaged claims are reported in a hundred rows
SELECT t.have(1, VARIADIC ARRAY(SELECT 'n' || n FROM generate_series(1, 100) n));
SELECT * FROM pg_temp.damage($$UPDATE claims.claims SET lease_uuid = t.u(1899), status = 2 WHERE bucket_value ~ '^n\d'$$);
SELECT count(*) FROM claims.check();
-- check() works in a read-only transaction and assigns no transaction id
BEGIN READ ONLY;
SELECT count(*) FROM claims.check();
SELECT pg_current_xact_id_if_assigned() IS NULL;
COMMIT;
-- administrators may call check(); cells may not
SET SESSION AUTHORIZATION regress_claims_admin;
SELECT count(*) FROM claims.check();
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT count(*) FROM claims.check()$$);
RESET SESSION AUTHORIZATION;
