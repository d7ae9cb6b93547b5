-- Many leases or corrections in one call, some of which fail: the others share one subtransaction (their rows have one xmin).
SELECT t.clean();
-- unknown leases are fenced in one subtransaction
SELECT outcome, settled, count(*)
  FROM claims.settle_leases(1, '{}', ARRAY(SELECT t.u(n) FROM generate_series(880000, 880099) n)) GROUP BY 1, 2;
SELECT count(*), count(DISTINCT xmin::text) AS writers FROM claims.lease_outcomes WHERE lease_uuid BETWEEN t.u(880000) AND t.u(880099);
-- three of a hundred leases are damaged
SELECT count(claims.begin_update(1, t.creates('m' || n), '[]', t.u(n))) FROM generate_series(880100, 880199) n;
DELETE FROM claims.claims WHERE bucket_value IN ('m880100', 'm880150', 'm880199');
SELECT outcome, settled, count(*)
  FROM claims.settle_leases(1, ARRAY(SELECT t.u(n) FROM generate_series(880100, 880199) n)) GROUP BY 1, 2 ORDER BY 2;
SELECT count(*), count(DISTINCT xmin::text) AS writers FROM claims.lease_outcomes WHERE lease_uuid BETWEEN t.u(880100) AND t.u(880199);
SELECT count(*), count(DISTINCT xmin::text) AS writers FROM claims.claims WHERE bucket_value LIKE 'm%' AND status = 1;
SELECT t.clean();
-- three of a hundred claims cannot be added
CREATE FUNCTION t.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE unique_violation; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON claims.claims FOR EACH ROW WHEN (NEW.bucket_value IN ('v1', 'v50', 'v100')) EXECUTE FUNCTION t.refuse();
SELECT discrepancy, outcome, count(*), CASE WHEN count(*) < 10 THEN array_agg(bucket_value ORDER BY bucket_value) END
  FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL,
         (SELECT jsonb_agg(t.claim('v' || n, 'ROUTES', n)) FROM generate_series(1, 100) n), '1 hour', true) GROUP BY 1, 2 ORDER BY 2;
SELECT count(*), count(DISTINCT xmin::text) AS writers FROM claims.claims;
DROP FUNCTION t.refuse CASCADE;
-- the remaining corrections succeed once the trigger is dropped
SELECT discrepancy, outcome, count(*)
  FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL,
         (SELECT jsonb_agg(t.claim('v' || n, 'ROUTES', n)) FROM generate_series(1, 100) n), '1 hour', true) GROUP BY 1, 2;
SELECT count(*) FROM claims.check();
SELECT t.clean();
