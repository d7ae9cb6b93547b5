-- The change feed: its rows, their order, its readers, and how long rows are kept.
SELECT t.clean();
DELETE FROM claims.change_sets;
UPDATE claims.change_horizon SET xid = '0', id = 0, at = '2000-01-01 00:00:00+00';

-- t.until_decided() waits until no open transaction (autovacuum has some, too) holds readers back
CREATE PROCEDURE t.until_decided() LANGUAGE plpgsql AS $$
BEGIN
    FOR round IN 1..3000 LOOP
        EXIT WHEN coalesce((SELECT max(xid) < pg_snapshot_xmin(pg_current_snapshot()) FROM claims.change_sets), true);
        COMMIT;
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
-- t.told() returns the next changes of a reader, and remembers the reader's cursor
CREATE TABLE t.place (after text);
INSERT INTO t.place VALUES (NULL);
CREATE FUNCTION t.told(max_results int DEFAULT 1000, bucket_type text DEFAULT NULL) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    c record;
    lines text[] := '{}';
    now_after text;
BEGIN
    FOR c IN SELECT * FROM claims.list_changes((SELECT p.after FROM t.place p), told.max_results, told.bucket_type) LOOP
        lines := lines || concat_ws(' ', c.op, c.bucket_type, c.bucket_value, coalesce(c.old_cell_id::text, '-'), coalesce(c.new_cell_id::text, '-'),
            CASE WHEN c.lease_uuid::text LIKE '00000000-0000-4000-8000-%' THEN 'lease ' || ltrim(right(c.lease_uuid::text, 12), '0')
              WHEN c.lease_uuid IS NOT NULL THEN 'some lease' END, c.actor);
        now_after := c.cursor;
    END LOOP;
    UPDATE t.place p SET after = coalesce(now_after, p.after);
    RETURN QUERY SELECT * FROM unnest(lines);
END $$;

-- the feed is off by default, and then records nothing
SELECT t.have(1, 'before');
SHOW claims.change_feed;
SHOW claims.notify_changes;
SHOW claims.change_retention;
SELECT count(*) FROM claims.change_sets;
-- only superusers can switch the feed on
SET SESSION AUTHORIZATION regress_claims_one;
SET claims.change_feed = on;
SET claims.notify_changes = on;
SET claims.change_retention = 0;
RESET SESSION AUTHORIZATION;
SET claims.change_feed = on;

-- a commit records destroys, then replacements, then creates
SELECT t.have(1, 'a', 'b');
CALL t.until_decided();
SELECT t.told();
SELECT claims.begin_update(1, t.creates('b', 'c') || t.claim('someone', 'USERNAMES'), t.destroys('a', 'b'), t.u(1));
-- an outstanding lease is in no change
SELECT count(*) FROM claims.changes WHERE lease_uuid = t.u(1);
SET SESSION AUTHORIZATION regress_claims_one;
SELECT claims.commit_update(1, t.u(1));
RESET SESSION AUTHORIZATION;
SELECT claims.commit_update(1, t.u(1));
CALL t.until_decided();
SELECT t.told();
-- the columns of list_changes
SELECT c.op, c.bucket_type, c.bucket_value, c.old_cell_id, c.old_cell_name, c.new_cell_id, c.new_cell_name, c.actor,
    clock_timestamp() - c.at < '1 min' AS now, c.id > lag(c.id) OVER () AS later, c.xid = lag(c.xid) OVER () AS same
  FROM claims.list_changes() c WHERE c.lease_uuid = t.u(1);
-- the view claims.changes shows type numbers
SELECT op, bucket_type, bucket_value, old_cell_id, new_cell_id, actor FROM claims.changes WHERE lease_uuid = t.u(1) ORDER BY id;
-- a change has the time of its claim
SELECT r.updated_at = c.at FROM claims.records r JOIN claims.changes c ON c.bucket_value = r.bucket_value AND c.op = 'replace';

-- nothing of a rolled-back lease, transaction or savepoint is recorded
SELECT claims.begin_update(1, t.creates('d'), t.destroys('c'), t.u(2));
SELECT claims.rollback_update(1, t.u(2));
SELECT claims.rollback_update(1, t.u(3));
BEGIN; SELECT t.have(1, 'e'); ROLLBACK;
BEGIN; SAVEPOINT s; SELECT t.have(1, 'f'); ROLLBACK TO s; SELECT t.have(1, 'g'); SAVEPOINT s; SELECT t.have(1, 'h'); COMMIT;
CALL t.until_decided();
SELECT t.told();
SELECT count(DISTINCT xid) FROM claims.changes WHERE bucket_value IN ('g', 'h');

-- settle_leases records the leases that it settles, and nothing of those that it cannot
SELECT claims.begin_update(1, t.creates('many ' || n), '[]', t.u(10 + n)) FROM generate_series(1, 3) n;
SELECT claims.begin_update(1, '[]', t.destroys('g'), t.u(14));
UPDATE claims.claims SET status = 1 WHERE bucket_value = 'many 2';
SELECT * FROM claims.settle_leases(1, ARRAY[t.u(14), t.u(11), t.u(12)], ARRAY[t.u(13)]);
CALL t.until_decided();
SELECT t.told();
UPDATE claims.claims SET status = 2 WHERE bucket_value = 'many 2';
SELECT claims.rollback_update(1, t.u(12));

-- a batch of more than 1,000 claims makes several rows, with each change once
SET claims.max_batch_size = 3000;
SELECT claims.commit_update(2, claims.begin_update(2, (SELECT jsonb_agg(t.claim('big ' || n, id => n)) FROM generate_series(1, 2500) n)));
SELECT count(*), sum(cardinality(bucket_values)) FROM claims.change_sets WHERE new_cell_id = 2;
SELECT count(*), count(DISTINCT id), count(DISTINCT bucket_value) FROM claims.changes WHERE new_cell_id = 2;
-- pages of a batch return each change once
CALL t.until_decided();
CREATE TABLE t.got (n bigint GENERATED ALWAYS AS IDENTITY, id bigint, bucket_value text, cursor text);
DO $$
DECLARE
    here text := (SELECT p.after FROM t.place p);
    got bigint;
BEGIN
    FOR round IN 1..100 LOOP
        INSERT INTO t.got (id, bucket_value, cursor) SELECT c.id, c.bucket_value, c.cursor
          FROM claims.list_changes(here, 333) WITH ORDINALITY c ORDER BY c.ordinality;
        GET DIAGNOSTICS got = ROW_COUNT;
        EXIT WHEN got = 0;
        here := (SELECT g.cursor FROM t.got g ORDER BY g.n DESC LIMIT 1);
    END LOOP;
    UPDATE t.place SET after = here;
END $$;
SELECT count(*), count(DISTINCT bucket_value), bool_and(ordered)
  FROM (SELECT bucket_value, id > lag(id, 1, 0::bigint) OVER (ORDER BY n) AS ordered FROM t.got) g;
DROP TABLE t.got;

-- verify_records records its corrections
SELECT discrepancy, bucket_value, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL,
    jsonb_build_array(t.claim('b', id => 2), t.claim('c', id => 2), t.claim('found', id => 3), t.claim('someone', 'USERNAMES', 3)), '0 s', true);
CALL t.until_decided();
SELECT t.told();
SELECT discrepancy, bucket_value, outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '0 s');
SELECT t.told();

-- force_rollback records nothing: readers never saw its creates, and its destroys stay
SELECT claims.begin_update(1, t.creates('forced', 'c'), t.destroys('c', 'b'), t.u(20));
SELECT claims.force_rollback(1, t.u(20), 'the cell is gone') -> 'freed' -> 0 -> 'bucket';
CALL t.until_decided();
SELECT t.told();

-- release_records records destroys; reserved names and names held by leases stay
SELECT claims.reserve_names('ROUTES', '{admin}', 'ours');
SELECT claims.begin_update(1, '[]', t.destroys('c'), t.u(21));
SELECT claims.release_records(1, 'gone', dry_run => true) > 0;
SELECT claims.release_records(1, 'gone', 2);
SELECT claims.release_records(1, 'gone');
SELECT claims.release_records(1, 'gone');
SELECT claims.unreserve_names('ROUTES', '{admin}', 'not any more');
CALL t.until_decided();
SELECT * FROM t.told() AS told ORDER BY told COLLATE "C";
SELECT claims.rollback_update(1, t.u(21));
SELECT claims.release_records(2, 'gone', 1500);
SELECT count(*), sum(cardinality(bucket_values)) FROM claims.change_sets WHERE old_cell_id = 2;
CALL t.until_decided();
SELECT count(*) FROM t.told(2000);
-- release_records of a type that refuses look-alikes
SELECT claims.add_bucket_type(171, 'FEED_LOOKS', 'casefold', 'reject');
SELECT claims.commit_update(2, claims.begin_update(2, jsonb_build_array(t.claim('paypal', 'FEED_LOOKS'))));
SELECT claims.release_records(2, 'gone');
CALL t.until_decided();
SELECT count(*), count(*) FILTER (WHERE told LIKE 'destroy % 2 - postgres') FROM t.told(2000) AS told;

-- set_profile records the old name as destroyed and the canonical one as created
SELECT claims.add_bucket_type(170, 'FEED_NAMES');
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(t.claim('Straße', 'FEED_NAMES'), t.claim('ok', 'FEED_NAMES'))));
SELECT claims.commit_update(2, claims.begin_update(2, jsonb_build_array(t.claim('Other', 'FEED_NAMES'))));
SELECT claims.reserve_names('FEED_NAMES', '{Root}', 'ours');
SELECT claims.set_profile('FEED_NAMES', 'casefold', 'one spelling');
CALL t.until_decided();
SELECT t.told();
SELECT claims.set_profile('FEED_NAMES', 'casefold', 'one spelling', dry_run => false);
CALL t.until_decided();
SELECT t.told();

-- filter by bucket type, and max_results
SELECT t.have(1, 'r1', 'r2');
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(t.claim('u1', 'USERNAMES'))));
SELECT t.have(1, 'r3');
CALL t.until_decided();
SELECT t.told(max_results => 1);
SELECT t.told(bucket_type => 'USERNAMES');
SELECT t.told(bucket_type => '4');
SELECT t.told(bucket_type => 'ROUTES');

-- change_cursor is the place of the newest change; a reader that starts there misses nothing
UPDATE t.place SET after = claims.change_cursor();
SELECT t.told();
SELECT t.have(1, 'r4');
CALL t.until_decided();
SELECT t.told();
SELECT claims.change_cursor() = (SELECT after FROM t.place);

-- invalid arguments are refused
SELECT t.call('SELECT * FROM claims.list_changes(max_results => NULL)');
SELECT t.call('SELECT * FROM claims.list_changes(max_results => 0)');
SELECT t.call('SELECT * FROM claims.list_changes(max_results => 100001)');
SELECT t.call($$SELECT * FROM claims.list_changes('nonsense')$$);
SELECT t.call($$SELECT * FROM claims.list_changes('')$$);
SELECT t.call($$SELECT * FROM claims.list_changes(bucket_type => 'NO_SUCH')$$);
SELECT t.call($$SELECT * FROM claims.bucket_history(NULL, 'a')$$);
SELECT t.call($$SELECT * FROM claims.bucket_history('ROUTES', NULL)$$);
SELECT t.call($$SELECT * FROM claims.bucket_history('ROUTES', '')$$);
SELECT t.call($$SELECT claims.purge_changes(NULL)$$);
SELECT t.call($$SELECT claims.purge_changes('-1 s')$$);

-- routers read the feed; cells and other roles do not; bucket_history and purge_changes are for administrators
SELECT r.rolname, f.name, has_function_privilege(r.rolname, f.name, 'EXECUTE')
  FROM (VALUES ('regress_claims_router'), ('regress_claims_one'), ('regress_claims_nobody')) r (rolname),
       (VALUES ('claims.list_changes(text, int, text)'), ('claims.change_cursor()'), ('claims.bucket_history(text, text)'),
         ('claims.purge_changes(interval)')) f (name);
SET SESSION AUTHORIZATION regress_claims_router;
SELECT count(*) > 0 FROM claims.list_changes();
SELECT t.call('SELECT * FROM claims.changes');
RESET SESSION AUTHORIZATION;
GRANT EXECUTE ON FUNCTION claims.bucket_history(text, text), claims.purge_changes(interval) TO regress_claims_nobody;
GRANT USAGE ON SCHEMA claims TO regress_claims_nobody;
SET SESSION AUTHORIZATION regress_claims_nobody;
SELECT t.call($$SELECT * FROM claims.bucket_history('ROUTES', 'a')$$);
SELECT t.call($$SELECT claims.purge_changes('0')$$);
RESET SESSION AUTHORIZATION;
REVOKE ALL ON FUNCTION claims.bucket_history(text, text), claims.purge_changes(interval) FROM regress_claims_nobody;
REVOKE ALL ON SCHEMA claims FROM regress_claims_nobody;
SELECT claims.revoke_read('regress_claims_router');
SELECT has_function_privilege('regress_claims_router', 'claims.list_changes(text, int, text)', 'EXECUTE');
SELECT claims.grant_read('regress_claims_router');
REVOKE EXECUTE ON FUNCTION claims.list_changes(text, int, text) FROM regress_claims_router;
SELECT claims.refresh_grants();
SELECT has_function_privilege('regress_claims_router', 'claims.list_changes(text, int, text)', 'EXECUTE'),
    has_function_privilege('regress_claims_one', 'claims.list_changes(text, int, text)', 'EXECUTE');

-- reading assigns no transaction id, and works in a read-only transaction
BEGIN READ ONLY;
SELECT count(*) > 0 FROM claims.list_changes();
SELECT claims.change_cursor() IS NOT NULL;
SELECT count(*) FROM claims.bucket_history('ROUTES', 'r1');
SELECT pg_current_xact_id_if_assigned() IS NULL;
COMMIT;
-- list_changes does not return changes of the own transaction
BEGIN;
SELECT t.have(1, 'own');
SELECT count(*) FROM claims.list_changes() WHERE bucket_value = 'own';
SELECT count(*) FROM claims.changes WHERE bucket_value = 'own';
SELECT count(*) FROM claims.check();
COMMIT;

-- bucket_history: owners before the feed, in the feed, and now
SELECT t.have(1, 'short');
SELECT claims.commit_update(1, claims.begin_update(1, '[]', t.destroys('short')));
SELECT t.have(2, 'short');
SELECT claims.commit_update(1, claims.begin_update(1, t.creates('r1'), t.destroys('r1')));
SELECT cell_id, cell_name, since IS NOT NULL AS since, until IS NULL AS now, until = lead(since) OVER () AS seamless, op, actor
  FROM claims.bucket_history('ROUTES', 'short');
SELECT cell_id, since IS NOT NULL AS since, until IS NULL AS now, op FROM claims.bucket_history('1', 'r1');
SELECT cell_id, op FROM claims.bucket_history('FEED_NAMES', 'STRASSE');
SELECT count(*) FROM claims.bucket_history('ROUTES', 'never');
-- bucket_history reads the whole feed without an index on bucket_values, and few rows with one
CREATE FUNCTION t.reads_of(value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    was bigint := pg_stat_get_xact_tuples_returned('claims.change_sets'::regclass) + pg_stat_get_xact_tuples_fetched('claims.change_sets'::regclass);
    answer text := (SELECT string_agg(concat_ws(' ', h.cell_id, h.op), ', ') FROM claims.bucket_history('ROUTES', value) h);
BEGIN
    was := pg_stat_get_xact_tuples_returned('claims.change_sets'::regclass) + pg_stat_get_xact_tuples_fetched('claims.change_sets'::regclass) - was;
    RETURN answer || CASE WHEN was <= 10 THEN ': few reads' ELSE ': many reads' END;
END $$;
BEGIN;
INSERT INTO claims.change_sets (op, new_cell_id, actor, bucket_types, bucket_values)
  SELECT 'create', 2, 'somebody', '{1}', ARRAY['filler ' || n] FROM generate_series(1, 20000) n;
SELECT t.reads_of('short');
CREATE INDEX ON claims.change_sets USING gin (bucket_values);
ANALYZE claims.change_sets;
SELECT t.reads_of('short');
SELECT t.reads_of('filler 7');
ROLLBACK;
DROP FUNCTION t.reads_of;
-- bucket_history of a claim older than the feed, a change not yet readable, a leased create and a reserved name
SET claims.change_feed = off;
SELECT t.have(2, 'unheard', 'half');
SET claims.change_feed = on;
SELECT claims.commit_update(2, claims.begin_update(2, '[]', t.destroys('half')));
SELECT claims.begin_update(2, t.creates('coming'), '[]', t.u(30));
SELECT claims.reserve_names('ROUTES', '{nobody}', 'ours');
SELECT n, h.cell_id, h.since IS NOT NULL AS since, h.until IS NOT NULL AS until, h.op
  FROM unnest(ARRAY['unheard', 'half', 'coming', 'nobody']) n, claims.bucket_history('ROUTES', n) h;
SELECT claims.rollback_update(2, t.u(30)), claims.unreserve_names('ROUTES', '{nobody}', 'done');

-- purge_changes deletes from the start up to the first young change; the cursor of the last deleted change stays valid
CALL t.until_decided();
SELECT count(*) >= 0 FROM t.told();
SELECT claims.purge_changes('1 hour');
UPDATE claims.change_sets SET at = at - interval '2 days' WHERE (xid, id) < (SELECT max(xid), 0 FROM claims.change_sets);
CREATE TABLE t.old AS SELECT (SELECT c.cursor FROM claims.list_changes(max_results => 1) c) AS first,
    (SELECT c.cursor FROM claims.list_changes(max_results => 100000) c
      WHERE c.at < now() - interval '1 day' ORDER BY c.xid DESC, c.id DESC LIMIT 1) AS last, (SELECT count(*) FROM claims.changes) AS changes;
SELECT changes > 1 FROM t.old;
SELECT claims.purge_changes('1 day') = changes - 1 FROM t.old;
SELECT count(*) FROM claims.changes;
SELECT kind, counts ? 'changes' AS changes, sqlstate FROM claims.passes ORDER BY ended_at DESC LIMIT 1;
SELECT count(*) FROM t.old, claims.list_changes(last);
SELECT t.call(format('SELECT * FROM claims.list_changes(%L)', first)) FROM t.old;
SELECT count(*) FROM claims.list_changes();
SELECT claims.purge_changes('0'), claims.purge_changes('0');
SELECT t.told();
SELECT claims.change_cursor() = (SELECT after FROM t.place);
SELECT t.have(2, 'later');
CALL t.until_decided();
SELECT t.told();
-- purge_changes leaves old changes behind a younger one, so the feed has no holes
SELECT t.have(2, 'young');
SELECT t.have(2, 'dated back');
UPDATE claims.change_sets SET at = at - interval '2 days' WHERE bucket_values <> '{young}';
CALL t.until_decided();
UPDATE t.place SET after = NULL;
SELECT t.told();
SELECT claims.purge_changes('1 day');
SELECT bucket_values FROM claims.change_sets ORDER BY xid, id;
SELECT t.told();
-- purge_changes is refused in mode read_only
SELECT claims.set_mode('read_only', 'maintenance');
SELECT t.state_of($$SELECT claims.purge_changes('0')$$);
SELECT claims.set_mode('open', 'done');

-- a transfer is recorded by its switch and its reversal, not by prepare and finish
CALL t.until_decided();
SELECT count(*) >= 0 FROM t.told();
SELECT claims.commit_update(1,
      claims.begin_update(1, (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', 'moves' || n),
    'subject', jsonb_build_object('type', 'GROUP', 'id', 9970), 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', 9970 + n)))
          FROM generate_series(1, 2) n), lease_uuid => t.u(80)));
SELECT marked, finished FROM claims.prepare_transfer(t.u(81), 1, 2, '[{"type": "GROUP", "ids": [9970]}]', 'they move');
SELECT claims.switch_transfer(t.u(81), 'they move');
SELECT claims.switch_transfer(t.u(81), 'once more');
SELECT claims.reverse_transfer(t.u(81), 'not yet');
SELECT marked, finished FROM claims.prepare_transfer(t.u(81), 1, 2, '[{"type": "GROUP", "ids": [9970]}]', 'now');
SELECT claims.switch_transfer(t.u(81), 'now');
SELECT moved, finished FROM claims.finish_transfer(t.u(81));
SELECT claims.commit_update(2, claims.begin_update(2, '[]', '[{"bucket": {"type": "ROUTES", "value": "moves1"}}]', lease_uuid => t.u(82)));
CALL t.until_decided();
SELECT t.told();
SELECT cell_id, until IS NULL FROM claims.bucket_history('ROUTES', 'moves1');
SELECT cell_id, until IS NULL FROM claims.bucket_history('ROUTES', 'moves2');

-- a cursor of another database, or of a change that does not exist, is refused
CREATE TABLE t.cursors AS SELECT claims.change_cursor() AS cursor;
BEGIN;
UPDATE claims.change_horizon SET feed = gen_random_uuid();
SELECT t.call(format('SELECT * FROM claims.list_changes(%L)', cursor)) FROM t.cursors;
ROLLBACK;
BEGIN;
DELETE FROM claims.change_sets;
SELECT t.call(format('SELECT * FROM claims.list_changes(%L)', cursor)) FROM t.cursors;
DELETE FROM claims.change_horizon;
SELECT t.call(format('SELECT * FROM claims.list_changes(%L)', cursor)) FROM t.cursors;
SELECT t.call('SELECT claims.change_cursor()');
ROLLBACK;

-- a page holds at most 16 MiB, and at least one change
BEGIN;
INSERT INTO claims.change_sets (xid, id, op, new_cell_id, actor, bucket_types, bucket_values)
SELECT h.xid, h.id + 1024 * n, 'create', 2, 'somebody', array_fill(1, ARRAY[1000]), array_fill(repeat('x', 2600), ARRAY[1000])
  FROM (SELECT max(xid) AS xid, max(id) AS id FROM claims.change_sets) h, generate_series(1, 8) n;
COMMIT;
SELECT count(*) BETWEEN 5000 AND 6000 AS bounded FROM claims.list_changes(max_results => 100000);
DELETE FROM claims.change_sets WHERE actor = 'somebody';

-- list_changes does not return a change that can still be rolled back
BEGIN;
SELECT t.have(1, 'undecided');
SELECT count(*) FROM claims.list_changes(max_results => 100000) WHERE bucket_value = 'undecided';
ROLLBACK;

-- check() finds changes that were written by hand: of a future transaction, or behind the horizon
SELECT count(*) FROM claims.check();
INSERT INTO claims.change_sets (xid, op, new_cell_id, actor, bucket_types, bucket_values)
  VALUES ('9000000000000000', 'create', 1, 'somebody', '{1}', '{future}'), ('1', 'create', 1, 'somebody', '{1}', '{past}');
UPDATE claims.change_horizon SET xid = '2', id = 1 WHERE xid < '2';
SELECT problem, detail FROM claims.check();
DELETE FROM claims.change_sets WHERE actor = 'somebody';

-- cleans up
RESET claims.change_feed;
RESET claims.max_batch_size;
SELECT t.clean();
SELECT claims.purge_changes('0') > 0;
DELETE FROM claims.bucket_types WHERE id IN (170, 171);
DELETE FROM claims.type_names WHERE kind = 'bucket' AND id IN (170, 171);
DELETE FROM claims.reservations;
DROP TABLE t.place, t.old, t.cursors;
DROP FUNCTION t.told(int, text);
DROP PROCEDURE t.until_decided();
