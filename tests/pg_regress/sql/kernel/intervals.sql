-- Durations: every function refuses a negative or unrepresentable one, and names the argument.
SELECT t.clean();
CREATE FUNCTION t.with_intervals() RETURNS TABLE (function regprocedure, argument text) LANGUAGE sql AS $$
    SELECT p.oid::regprocedure, p.proargnames[a.n] FROM pg_proc p, unnest(p.proargtypes::oid[]) WITH ORDINALITY a(type, n)
     WHERE p.pronamespace = 'claims'::regnamespace AND a.type = 'interval'::regtype $$;
CREATE TABLE t.calls (function text, argument text, call text);
INSERT INTO t.calls VALUES
    ('reconcile', 'stale_after', $$claims.reconcile(1, 'nowhere', %L)$$),
    ('judge_leases', 'stale_after', $$claims.judge_leases('[]', %L)$$),
    ('verify', 'recent', $$claims.verify(1, 'nowhere', 'RAILS_TABLE_ROUTES', recent => %L)$$),
    ('verify', 'max_runtime', $$claims.verify(1, 'nowhere', 'RAILS_TABLE_ROUTES', max_runtime => %L)$$),
    ('prepare_transfer', 'max_runtime', $$claims.prepare_transfer(t.u(1), 1, 2, '[{"type": 1, "ids": [1]}]', 'x', %L)$$),
    ('finish_transfer', 'max_runtime', $$claims.finish_transfer(t.u(1), %L)$$),
    ('cancel_transfer', 'max_runtime', $$claims.cancel_transfer(t.u(1), 'x', %L)$$),
    ('begin_import', 'max_runtime', $$claims.begin_import(1, 'nowhere', 'RAILS_TABLE_ROUTES', NULL, 1, %L)$$),
    ('unclaimed_rows', 'max_runtime', $$claims.unclaimed_rows('RAILS_TABLE_ROUTES', 1, 'nowhere', max_runtime => %L)$$),
    ('verify_share', 'recent', $$claims.verify_share(t.u(1), 'w', 'nowhere', recent => %L)$$),
    ('verify_share', 'hold_for', $$claims.verify_share(t.u(1), 'w', 'nowhere', hold_for => %L)$$),
    ('list_discrepancies', 'recent', $$claims.list_discrepancies(1, 'nowhere', 'RAILS_TABLE_ROUTES', recent => %L)$$),
    ('verify_records', 'recent', $$claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', %L)$$),
    ('acquire_expiring', 'ttl', $$claims.acquire_expiring('k', 'c', %L)$$),
    ('renew_expiring', 'ttl', $$claims.renew_expiring('k', 'c', %L)$$),
    ('take_requests', 'hold_for', $$claims.take_requests('q', t.u(1), 0, %L)$$),
    ('extend_requests', 'hold_for', $$claims.extend_requests(t.u(1), %L)$$),
    ('purge_changes', 'older_than', $$claims.purge_changes(%L)$$),
    ('purge_admin_log', 'older_than', $$claims.purge_admin_log(%L)$$),
    ('purge_audit', 'older_than', $$claims.purge_audit(%L)$$),
    ('purge_transfer_subjects', 'older_than', $$claims.purge_transfer_subjects(%L)$$),
    ('purge_observations', 'older_than', $$claims.purge_observations(%L)$$),
    ('purge_requests', 'older_than', $$claims.purge_requests('q', %L)$$),
    ('set_quarantine', 'keep_for', $$claims.set_quarantine('ROUTES', %L, 'x')$$),
    ('read_after', 'timeout', $$claims.read_after(t.u(1), %L)$$);
-- t.calls has every function with a duration: zero rows
SELECT w.function, w.argument FROM t.with_intervals() w
 WHERE NOT EXISTS (SELECT FROM t.calls c WHERE w.function::text LIKE 'claims.' || c.function || '(%' AND w.argument = c.argument)
   -- import_claims hands its max_runtime to begin_import
   AND w.function <> 'claims.import_claims(bigint,text,text,integer,integer,interval)'::regprocedure;
SELECT c.function || ' ' || answer
  FROM t.calls c, unnest('{-1 s,-00:00:00.000001,1 day -25 hours,178000000 years,-178000000 years,1020 years}'::text[]) WITH ORDINALITY i(given, n),
       LATERAL (SELECT string_agg(x, '') AS answer FROM t.call(format('SELECT * FROM ' || c.call, i.given)) x) a
 WHERE answer NOT LIKE '22023: ' || c.argument || ' is out of range  DETAIL: Allowed is %' ORDER BY c.function, c.argument, n;
SELECT DISTINCT ON (c.function, c.argument) c.function, x
  FROM t.calls c, LATERAL (SELECT x FROM t.call(format('SELECT * FROM ' || c.call, '-1 s')) WITH ORDINALITY a(x, n) WHERE n = 2) a
    ORDER BY c.function, c.argument;
-- the limits of the range
SELECT t.call($$SELECT count(*) FROM claims.judge_leases('[]', '0')$$),
    t.call($$SELECT count(*) FROM claims.judge_leases(t.listed('1 s', 7001), '1000 years')$$);
SELECT t.call($$SELECT count(*) FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '0')$$),
       t.call($$SELECT count(*) FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '1000 years')$$);
SELECT t.state_of($$SELECT * FROM claims.verify(1, 'nowhere', 'RAILS_TABLE_ROUTES', recent => '1000 years', max_runtime => '1000 years')$$),
       t.state_of($$SELECT * FROM claims.reconcile(1, 'nowhere', '1000 years')$$);
-- months count as thirty days
SELECT t.call($$SELECT count(*) FROM claims.judge_leases('[]', '1 month -30 days')$$);
SELECT left(x, 60) FROM t.call($$SELECT count(*) FROM claims.judge_leases('[]', '1 month -31 days')$$) x LIMIT 1;
DROP FUNCTION t.with_intervals;
DROP TABLE t.calls;
