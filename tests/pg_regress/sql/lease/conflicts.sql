-- Every reason for a conflict, their order, and their SQLSTATE.
SELECT t.clean();
SELECT t.have(1, 'mine', 'mine2'); SELECT t.have(2, 'theirs', 'theirs2', 'theirs3');
SELECT claims.begin_update(1, t.creates('my lease'), t.destroys('mine2'), t.u(1100));
SELECT claims.begin_update(2, t.creates('their lease'), t.destroys('theirs2'), t.u(1101));
SET SESSION AUTHORIZATION regress_claims_one;
-- not_owner: another cell's claim that is active, destroyed or created by a lease
SELECT t.call($$SELECT claims.begin_update(1, '[]', t.destroys('theirs'))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', t.destroys('theirs2'))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', t.destroys('their lease'))$$);
-- missing: no claim on the bucket
SELECT t.call($$SELECT claims.begin_update(1, '[]', t.destroys('nothing'))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', '[{"bucket": {"type": "USERNAMES", "value": "mine"}}]')$$);
-- taken: a claim of another cell, and of the own cell
SELECT t.call($$SELECT claims.begin_update(1, t.creates('theirs'))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('mine'))$$);
-- leased: creates and destroys of claims that a lease of either cell holds
SELECT t.call($$SELECT claims.begin_update(1, t.creates('their lease'))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('theirs2'))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('my lease'))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('mine2'))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', t.destroys('my lease'))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', t.destroys('mine2'))$$);
-- an equal value of another type is another bucket
SELECT t.call($$SELECT claims.begin_update(1, jsonb_build_array(t.claim('theirs', 'USERNAMES')), '[]', t.u(1102))$$);
SELECT claims.rollback_update(1, t.u(1102));

-- all conflicts in the order of the batch; the first one's reason gives the SQLSTATE
SELECT t.call($$SELECT claims.begin_update(1, t.creates('z-ok', 'their lease', 'theirs', 'a-ok', 'mine', 'theirs2'),
    t.destroys('nothing', 'mine2', 'theirs3', 'absent'))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('theirs'), t.destroys('theirs3'))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('their lease'), t.destroys('nothing', 'theirs3'))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('theirs', 'their lease'), t.destroys('nothing'))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('their lease', 'theirs'))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('their lease', 'my lease'), t.destroys('mine2'))$$);
RESET SESSION AUTHORIZATION;
SELECT * FROM t.state();
SELECT t.leases();

-- the keys of a conflict and their JSON types
SELECT k, jsonb_typeof(c->k) FROM (SELECT conflicts->0 AS c FROM claims.try_begin_update(1, t.creates('their lease'))) s,
    jsonb_object_keys(c) k ORDER BY k;
SELECT k, jsonb_typeof(c->k) FROM (SELECT conflicts->0 AS c FROM claims.try_begin_update(1, '[]', t.destroys('nothing'))) s,
    jsonb_object_keys(c) k ORDER BY k;
-- retryable depends on the reason alone
SELECT DISTINCT c->>'reason', c->>'retryable'
  FROM claims.try_begin_update(1, t.creates('their lease', 'theirs'), t.destroys('nothing', 'theirs3', 'mine2')),
    jsonb_array_elements(conflicts) c ORDER BY 1;
-- lease_age_seconds is the lease's age
UPDATE claims.claim_leases SET created_at = created_at - interval '1 hour' WHERE uuid = t.u(1101);
SELECT (c->>'lease_age_seconds')::numeric BETWEEN 3600 AND 7200
  FROM claims.try_begin_update(1, t.creates('their lease')), jsonb_array_elements(conflicts) c;
SELECT (c->>'lease_age_seconds')::numeric BETWEEN 3600 AND 7200
  FROM claims.try_begin_update(1, t.creates('theirs2')), jsonb_array_elements(conflicts) c;
-- values with quotes, escapes and emoji are returned unchanged
SELECT t.have(2, E'q"\\u0041\'\n\t', 'é😀');
SELECT ARRAY(SELECT c->'bucket'->>'value' FROM claims.try_begin_update(1, t.creates(E'q"\\u0041\'\n\t', 'é😀')),
      jsonb_array_elements(conflicts) c) = ARRAY[E'q"\\u0041\'\n\t', 'é😀'];
DO $$
DECLARE d text;
BEGIN
    PERFORM claims.begin_update(1, t.creates(E'q"\\u0041\'\n\t', 'é😀'));
EXCEPTION WHEN unique_violation THEN
    GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL;
    RAISE NOTICE '%', d::jsonb->0->'bucket'->>'value' = E'q"\\u0041\'\n\t' AND d::jsonb->1->'bucket'->>'value' = 'é😀';
END $$;
-- 1,000 conflicts are all returned
SELECT t.have(2, VARIADIC ARRAY(SELECT 'n' || n FROM generate_series(1, 1000) n));
SELECT jsonb_array_length(conflicts), conflicts->0->'bucket'->>'value', conflicts->999->'bucket'->>'value'
  FROM claims.try_begin_update(1, t.creates(VARIADIC ARRAY(SELECT 'n' || n FROM generate_series(1000, 1, -1) n)));
-- the error as the client sees it, and the next statement works
SELECT claims.begin_update(1, t.creates('theirs'));
SELECT 1;
SELECT count(*) FROM claims.check();
