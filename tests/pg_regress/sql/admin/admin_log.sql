-- Admin actions: who may call them, the reason they need, and their record in admin_log.
SELECT t.clean();
BEGIN;
DELETE FROM claims.admin_log;
-- a reason is a text with 1 to 1,000 characters that are not all whitespace
SELECT t.call($$SELECT claims.set_mode('settle_only', NULL)$$);
SELECT t.call($$SELECT claims.set_mode('settle_only', '')$$);
SELECT t.call($$SELECT claims.set_mode('settle_only', E' \t\n')$$);
SELECT t.call($$SELECT claims.set_mode('settle_only', repeat('x', 1001))$$);
SELECT t.call($$SELECT claims.set_mode('settle_only', repeat('é', 1000))$$);
-- the caller's rights are checked before the reason
SET LOCAL SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.set_mode('settle_only', NULL)$$);
RESET SESSION AUTHORIZATION;
-- every function with an argument `reason` refuses NULL, the empty string and whitespace; add_unique, which needs no reason, the last two
SELECT p.proname, string_agg(DISTINCT (SELECT c FROM t.call(format('SELECT claims.%I(%s)', p.proname,
        (SELECT string_agg(format('%I => %s', a.name, CASE a.name WHEN 'reason' THEN given WHEN 'condition' THEN 'NULL' ELSE
          CASE format_type(a.type, NULL)
            WHEN 'bigint' THEN '1' WHEN 'integer' THEN '1' WHEN 'uuid' THEN 't.u(1)' WHEN 'text' THEN $$'ROUTES'$$ WHEN 'name' THEN $$'x'$$
            WHEN 'text[]' THEN $$'{x}'$$ WHEN 'jsonb' THEN $$'[]'$$ WHEN 'interval' THEN $$'1 s'$$ WHEN 'boolean' THEN 'true'
            WHEN 'regclass' THEN $$'claims.claims'$$ WHEN 'regclass[]' THEN $$'{claims.claims}'$$ WHEN 'oid[]' THEN $$'{1}'$$
            WHEN 'numeric' THEN '1' END END), ', ')
           FROM unnest(p.proargtypes::oid[], p.proargnames[1:p.pronargs]) a (type, name)))) c LIMIT 1), ', ')
  FROM pg_proc p, unnest(ARRAY['NULL', $$''$$, $$' '$$]) given
 WHERE p.pronamespace = 'claims'::regnamespace AND 'reason' = ANY (p.proargnames[1:p.pronargs])
   GROUP BY p.oid, p.proname ORDER BY p.proname COLLATE "C";
-- a failed admin action is not recorded
SELECT count(*) FROM claims.admin_log WHERE reason NOT LIKE 'é%';
DELETE FROM claims.admin_log;
-- admin_log records the session's role, the current role, the arguments, the reason and the time
SET LOCAL SESSION AUTHORIZATION regress_claims_admin;
SELECT claims.set_mode('settle_only', 'a "quoted" reason', 2);
SET LOCAL ROLE postgres;
SELECT claims.set_mode('open', 'done', cell_id => 2);
RESET SESSION AUTHORIZATION;
SELECT session_role, role, action, arguments, reason, clock_timestamp() - at < '1 min' AS now FROM claims.admin_log ORDER BY id;
-- admin actions without a reason are recorded, too
DELETE FROM claims.admin_log;
SELECT claims.register_cell(3, 'regress_claims_nobody', 'Three'), claims.grant_read('regress_claims_nobody'),
    claims.revoke_read('regress_claims_nobody');
SELECT action, arguments, reason FROM claims.admin_log ORDER BY id;
-- cells cannot read admin_log
SET LOCAL SESSION AUTHORIZATION regress_claims_one;
SELECT t.call('SELECT * FROM claims.admin_log');
RESET SESSION AUTHORIZATION;
-- an admin action that is rolled back is not in admin_log
SAVEPOINT s;
SELECT claims.set_mode('read_only', 'never mind');
ROLLBACK TO s;
SELECT count(*) FROM claims.admin_log WHERE action = 'set_mode';
-- an admin action is written to the server's log
SET LOCAL client_min_messages = log;
SELECT claims.set_mode('open', 'to be read', 1);
ROLLBACK;
