-- Settings: their list, who may change them, and that functions leave the caller's settings alone.
-- a value that a cell sets before the library is loaded does not apply afterwards
SET SESSION AUTHORIZATION regress_claims_one;
SET claims.max_batch_size = 100000;
SET claims.outcome_retention = '1s';
RESET SESSION AUTHORIZATION;
SELECT t.clean();
SET client_min_messages = error;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call(format('SELECT claims.begin_update(1, %L)', t.creates(VARIADIC ARRAY(SELECT 'm' || n FROM generate_series(1, 2001) n))));
SHOW claims.max_batch_size;
SHOW claims.outcome_retention;
RESET client_min_messages;
-- every setting has a description that says more than its name
SELECT name, setting, unit, context FROM pg_settings WHERE name LIKE 'claims.%' ORDER BY name;
SELECT name FROM pg_settings WHERE name LIKE 'claims.%' AND (short_desc = '' OR length(short_desc) < 20) ORDER BY name;
-- every role may change wait_timeout
SET claims.wait_timeout = '20ms';
SHOW claims.wait_timeout;
SET claims.wait_timeout = '2s';
SHOW claims.wait_timeout;
SET claims.wait_timeout = 0;
SELECT t.state_of($$SET claims.wait_timeout = -1$$);
SELECT t.call($$SET claims.wait_timeout = 'soon'$$);
-- every role may change lease_wait and lease_priority, within their bounds
SET claims.lease_wait = '60s';
SET claims.lease_priority = -10;
SET claims.lease_priority = 10;
SELECT setting, t.state_of(format('SET claims.%s', setting))
  FROM unnest(ARRAY['lease_wait = 60001', 'lease_wait = -2', 'lease_priority = 11', 'lease_priority = -11']) setting;
SHOW claims.lease_wait;
SHOW claims.lease_priority;
RESET claims.lease_wait;
RESET claims.lease_priority;
-- other roles may not change the other settings
SELECT t.call($$SET claims.max_batch_size = 5$$);
SELECT t.call($$SET claims.outcome_retention = '1s'$$);
-- a setting that is not the extension's belongs to the application
SET claims.user_id = '7';
BEGIN;
SET LOCAL claims.user_id = '8';
SELECT t.call($$SELECT claims.begin_update(1, t.creates('mine'), lease_uuid => t.u(2699))$$);
SHOW claims.user_id;
ROLLBACK;
SHOW claims.user_id;
RESET claims.user_id;

-- all settings of the caller, also lock_timeout, are unchanged after a success and after each kind of error
CREATE TEMP TABLE settings_before AS SELECT name, setting FROM pg_settings WHERE name NOT IN ('transaction_read_only', 'in_hot_standby');
CREATE FUNCTION pg_temp.changed() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT p.name || ': ' || b.setting || ' -> ' || p.setting FROM pg_settings p JOIN settings_before b USING (name)
      WHERE p.setting IS DISTINCT FROM b.setting $$;
SET lock_timeout = '3210ms';
SET statement_timeout = '65s';
SET plan_cache_mode = force_custom_plan;
SET default_transaction_isolation = 'read committed';
UPDATE settings_before b SET setting = p.setting FROM pg_settings p WHERE p.name = b.name;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b'), lease_uuid => t.u(2600))$$);
SELECT pg_temp.changed();
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b'))$$);
SELECT pg_temp.changed();
SELECT jsonb_array_length(conflicts) FROM claims.try_begin_update(1, t.creates('a', 'b'));
SELECT pg_temp.changed();
SELECT t.call($$SELECT claims.begin_update(1, '[{}]')$$);
SELECT t.call($$SELECT claims.commit_update(1, t.u(2600))$$);
SELECT t.call($$SELECT claims.rollback_update(1, t.u(2600))$$);
SELECT t.call($$SELECT claims.rollback_update(1, t.u(2601))$$);
SELECT count(*) FROM claims.settle_leases(1, ARRAY[t.u(2600), t.u(2602)]);
SELECT count(*) FROM claims.list_records(1);
SELECT pg_temp.changed();
-- settings are unchanged after an error without a surrounding subtransaction
SELECT claims.begin_update(1, t.creates('a', 'b'));
SELECT pg_temp.changed();
SHOW lock_timeout;
-- SET LOCAL in a transaction and after a savepoint
BEGIN;
SET LOCAL lock_timeout = '1234ms';
SELECT t.call($$SELECT claims.begin_update(1, t.creates('c'), lease_uuid => t.u(2603))$$);
SHOW lock_timeout;
SAVEPOINT s;
SELECT claims.begin_update(1, t.creates('a'));
ROLLBACK TO s;
SHOW lock_timeout;
SELECT claims.commit_update(1, t.u(2603));
SHOW lock_timeout;
COMMIT;
SHOW lock_timeout;
-- lock_timeout of 0 and of 1 ms give the same answers
SET lock_timeout = 0;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('d'), lease_uuid => t.u(2604))$$);
SHOW lock_timeout;
SET lock_timeout = 1;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('e'), lease_uuid => t.u(2605))$$);
SELECT t.call($$SELECT claims.commit_update(1, t.u(2605))$$);
SHOW lock_timeout;
RESET lock_timeout;
-- settings for the format of texts, numbers and dates change nothing
SET extra_float_digits = -15;
SET bytea_output = 'escape';
SET DateStyle = 'German';
SET IntervalStyle = 'sql_standard';
SET TimeZone = 'Pacific/Kiritimati';
SET standard_conforming_strings = off;
SET quote_all_identifiers = on;
SET array_nulls = off;
SET transform_null_equals = on;
SET enable_indexscan = off;
SET xmloption = document;
SET row_security = off;
SELECT t.call('SELECT claims.begin_update(1, t.creates(''f''), t.destroys(''e''), t.u(2606))');
SELECT bucket_value, status FROM claims.get_record('ROUTES', 'f');
SELECT right(lease_uuid::text, 4) FROM claims.list_leases(1, (SELECT cursor FROM claims.list_leases(1, max_results => 1)));
SELECT bucket_value
  FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', (SELECT cursor FROM claims.list_records(1, 'RAILS_TABLE_ROUTES', max_results => 1)));
SELECT t.call('SELECT claims.commit_update(1, t.u(2606))');
SELECT t.call('SELECT claims.begin_update(1, t.creates(''f''))');
RESET ALL;
RESET SESSION AUTHORIZATION;
-- a client with another encoding
SET client_encoding = 'LATIN1';
SELECT claims.begin_update(1, jsonb_build_array(t.claim(convert_from('\xc3a9', 'UTF8'))), lease_uuid => t.u(2607));
SELECT claims.rollback_update(1, t.u(2607));
RESET client_encoding;
SELECT count(*) FROM claims.check();
