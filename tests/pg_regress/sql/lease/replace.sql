-- A bucket in both lists of a batch is replaced: it always has an owner, and another row gets it.
SELECT t.clean();
-- pg_temp.rows() makes one claim for each `name id`
CREATE FUNCTION pg_temp.rows(VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(t.claim(split_part(v, ' ', 1), 'ROUTES', split_part(v, ' ', 2)::bigint) ORDER BY n) FROM unnest(vals) WITH ORDINALITY u(v, n) $$;
SELECT claims.commit_update(1, claims.begin_update(1, pg_temp.rows('a 1', 'b 2', 'c 3')));
CREATE TEMP TABLE was AS SELECT bucket_type, bucket_value, uuid, created_at FROM claims.claims;
CREATE FUNCTION pg_temp.claims() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', bucket_value, status, subject_id, source_id, CASE WHEN c.lease_uuid IS NULL THEN '-' ELSE 'leased' END,
          CASE WHEN w.uuid = c.uuid THEN 'as before' ELSE 'new' END)
      FROM claims.claims c LEFT JOIN was w USING (bucket_type, bucket_value) ORDER BY bucket_value $$;
-- two rows swap names, one name is destroyed, and one is created
SELECT claims.begin_update(1, pg_temp.rows('b 1', 'd 4', 'a 2'), pg_temp.rows('a 1', 'c 3', 'b 2'), t.u(7200));
SELECT pg_temp.claims();
SELECT count(*) FROM claims.check();
-- until the commit readers see the old row
SELECT bucket_value, source_id, status FROM claims.get_records('[{"type": 1, "value": "a"}, {"type": 1, "value": "d"}]');
SELECT payload FROM claims.list_leases(1);
-- verification leaves it alone, whichever of the two rows is expected
SELECT discrepancy, bucket_value, outcome
  FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, pg_temp.rows('b 1', 'd 4', 'a 2'), '0 s', true);
SELECT pg_temp.claims();
-- a repeat returns the lease; another order is another request
SELECT t.call($$SELECT claims.begin_update(1, pg_temp.rows('b 1', 'd 4', 'a 2'), pg_temp.rows('a 1', 'c 3', 'b 2'), t.u(7200))$$);
SELECT t.call($$SELECT claims.begin_update(1, pg_temp.rows('d 4', 'b 1', 'a 2'), pg_temp.rows('a 1', 'c 3', 'b 2'), t.u(7200))$$);
-- a rollback restores the old row
SELECT claims.rollback_update(1, t.u(7200));
SELECT pg_temp.claims();
SELECT count(*) FROM claims.check();
-- a commit gives it to the new row
SELECT claims.begin_update(1, pg_temp.rows('b 1', 'd 4', 'a 2'), pg_temp.rows('a 1', 'c 3', 'b 2'), t.u(7201));
SELECT claims.commit_update(1, t.u(7201)), claims.commit_update(1, t.u(7201));
SELECT pg_temp.claims();
SELECT count(*), bool_and(c.created_at > w.created_at AND c.updated_at = c.created_at) FROM claims.claims c JOIN was w
  USING (bucket_type, bucket_value);
SELECT t.call($$SELECT claims.begin_update(1, pg_temp.rows('b 1', 'd 4', 'a 2'), pg_temp.rows('a 1', 'c 3', 'b 2'), t.u(7201))$$);
SELECT count(*) FROM claims.check();
-- many leases in one call, of several types, one of them rolled back
SELECT claims.begin_update(1, pg_temp.rows('a 9'), t.destroys('a'), t.u(7202)),
    claims.begin_update(1, pg_temp.rows('b 9'), t.destroys('b'), t.u(7203)),
       claims.begin_update(1, pg_temp.rows('d 9') || jsonb_build_array(t.claim('d', 'USERNAMES')), t.destroys('d'), t.u(7204));
SELECT * FROM claims.settle_leases(1, ARRAY[t.u(7202), t.u(7204)], ARRAY[t.u(7203)]);
SELECT bucket_type, bucket_value, source_id, status FROM claims.claims ORDER BY 1, 2;
SELECT count(*) FROM claims.check();

-- conflicts of a replaced bucket are those of a destroy, each once, and never `taken` by the own cell
SELECT t.have(2, 'theirs');
SELECT claims.begin_update(1, t.creates('coming'), t.destroys('b'), t.u(7205));
SELECT t.call($$SELECT claims.begin_update(1, pg_temp.rows('theirs 1'), t.destroys('theirs'))$$);
SELECT t.call($$SELECT claims.begin_update(1, pg_temp.rows('nothing 1'), t.destroys('nothing'))$$);
SELECT t.call($$SELECT claims.begin_update(1, pg_temp.rows('a 1'), pg_temp.rows('a 1'))$$);
SELECT t.call($$SELECT claims.begin_update(1, pg_temp.rows('b 1'), t.destroys('b'))$$);
SELECT t.call($$SELECT claims.begin_update(1, pg_temp.rows('coming 1', 'theirs 2'), t.destroys('d', 'coming'))$$);
SELECT claims.rollback_update(1, t.u(7205));
-- twice in one list is still refused
SELECT t.call($$SELECT claims.begin_update(1, pg_temp.rows('a 1', 'a 2'), t.destroys('a'))$$);
SELECT t.call($$SELECT claims.begin_update(1, pg_temp.rows('a 1'), t.destroys('a', 'd', 'a'))$$);
-- in one transaction, with a savepoint
BEGIN;
SELECT claims.begin_update(1, pg_temp.rows('a 5'), t.destroys('a'), t.u(7206));
SAVEPOINT s;
SELECT claims.commit_update(1, t.u(7206));
SELECT source_id, status FROM claims.get_record('ROUTES', 'a');
ROLLBACK TO s;
SELECT source_id, status FROM claims.get_record('ROUTES', 'a');
SELECT claims.commit_update(1, t.u(7206));
COMMIT;
SELECT source_id, status FROM claims.get_record('ROUTES', 'a');
-- a damaged claim is noticed, and nothing is changed
SELECT claims.begin_update(1, pg_temp.rows('a 6'), t.destroys('a'), t.u(7207));
BEGIN;
UPDATE claims.claims SET status = 2 WHERE bucket_value = 'a' AND bucket_type = 1;
SELECT problem, detail FROM claims.check();
SELECT t.call($$SELECT claims.commit_update(1, t.u(7207))$$);
ROLLBACK;
SELECT claims.commit_update(1, t.u(7207));
-- 2,000 records in one batch
SELECT t.clean();
SELECT t.have(1, VARIADIC ARRAY(SELECT 'n' || n FROM generate_series(1, 1000) n));
SELECT claims.commit_update(1, claims.begin_update(1, pg_temp.rows(VARIADIC ARRAY(SELECT 'n' || n || ' ' || n FROM generate_series(1, 1000) n)),
    t.destroys(VARIADIC ARRAY(SELECT 'n' || n FROM generate_series(1, 1000) n))));
SELECT count(*), bool_and(source_id = substr(bucket_value, 2)) FROM claims.claims;
SELECT count(*) FROM claims.check();
-- a claim that was given to another lease by hand is not replaced: the commit fails and changes nothing
SELECT t.clean();
SELECT claims.commit_update(1, claims.begin_update(1, pg_temp.rows('x 1', 'y 2')));
SELECT claims.begin_update(1, pg_temp.rows('x 3'), t.destroys('x'), t.u(7290)),
    claims.begin_update(1, pg_temp.rows('y 4'), t.destroys('y'), t.u(7291));
UPDATE claims.claims SET lease_uuid = CASE lease_uuid WHEN t.u(7290) THEN t.u(7291) ELSE t.u(7290) END;
SELECT left(c, 5) FROM t.call($$SELECT claims.commit_update(1, t.u(7290))$$) c LIMIT 1;
SELECT bucket_value, status, source_id FROM claims.claims ORDER BY 1;
SELECT t.clean();
