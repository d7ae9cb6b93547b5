#!/usr/bin/env bash
# The counters of metrics() in shared memory: they count committed calls and answers, and no calls that were rolled back.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c log_min_messages=panic
at shared "CREATE ROLE watch LOGIN; SELECT claims.grant_monitor('watch')" >/dev/null
as_watch() { ( use_cluster shared; export PGUSER=watch; sql "$1" ) }
# counted CELL: begins commits rollbacks fences
counted() {
  as_watch "SELECT concat_ws(' ', sum(value) FILTER (WHERE name = 'claims_begins_total'), sum(value) FILTER (WHERE name = 'claims_commits_total'),
                             sum(value) FILTER (WHERE name = 'claims_rollbacks_total'), sum(value) FILTER (WHERE name = 'claims_fences_total'))
              FROM claims.metrics() WHERE labels ->> 'cell' = '$1'"
}
conflicts() { as_watch "SELECT coalesce(string_agg(labels ->> 'reason' || ' ' || value, ', ' ORDER BY labels ->> 'reason'), '-') FROM claims.metrics() WHERE name = 'claims_conflicts_total' AND labels ->> 'cell' = '$1' AND value > 0"; }
answered() { as_watch "SELECT coalesce(sum(value) FILTER (WHERE name = 'claims_begin_duration_seconds_count'), 0) || ' ' || coalesce(sum(value) FILTER (WHERE name = 'claims_settle_duration_seconds_count'), 0) FROM claims.metrics() WHERE labels ->> 'cell' = '$1'"; }
creates() { printf "'[%s]'" "$(claim "$1" "${2:-1}")"; }

expect 'nothing yet' "$(counted 1)" ''
as_cell 1 "SELECT claims.begin_update(1, $(creates one), lease_uuid => '$(lease 1)')" >/dev/null
expect 'a begin' "$(counted 1)" '1 0 0 0'
as_cell 1 "SELECT claims.begin_update(1, $(creates one), lease_uuid => '$(lease 1)')" >/dev/null
expect 'repeated, it has begun once' "$(counted 1)" '1 0 0 0'
expect 'two answers' "$(answered 1)" '2 0'
as_cell 1 "SELECT claims.commit_update(1, '$(lease 1)'), claims.commit_update(1, '$(lease 1)')" >/dev/null
expect 'a commit; the repeat is none' "$(counted 1) $(answered 1)" '1 1 0 0 2 2'
as_cell 1 "SELECT claims.rollback_update(1, claims.begin_update(1, $(creates two))), claims.rollback_update(1, '$(lease 2)')" >/dev/null 2>&1
expect 'a rollback, and a fence' "$(counted 1)" '2 1 1 1'
as_cell 1 "SELECT count(*) FROM claims.settle_leases(1, ARRAY[claims.begin_update(1, $(creates three)), claims.begin_update(1, $(creates four))], ARRAY[claims.begin_update(1, $(creates five)), gen_random_uuid(), gen_random_uuid()])" >/dev/null
expect 'many at once' "$(counted 1)" '5 3 2 3'

# Destroys that a begin skips, by reason, with its COMMIT; a repeat skips none.
skipped() { as_watch "SELECT coalesce(string_agg(labels ->> 'reason' || ' ' || value, ', ' ORDER BY labels ->> 'reason'), '-') FROM claims.metrics() WHERE name = 'claims_skipped_destroys_total' AND labels ->> 'cell' = '$1' AND value > 0"; }
expect 'nothing is skipped' "$(skipped 2)" -
for _ in once again; do
  as_cell 2 "SELECT claims.begin_update(2, '[]', '[$(bucket one), $(bucket none), $(bucket nothing)]', '$(lease 86)', skip_missing => true)" >/dev/null
done
as_cell 2 "SELECT claims.rollback_update(2, '$(lease 86)')" >/dev/null
as_cell 2 "BEGIN; SELECT claims.begin_update(2, '[]', '[$(bucket none)]', skip_missing => true); ROLLBACK" >/dev/null
expect 'skipped destroys' "$(skipped 2)" 'missing 2, not_owner 1'

# Calls that are rolled back do not count.
as_cell 1 "BEGIN; SELECT claims.begin_update(1, $(creates six)); SELECT claims.rollback_update(1, gen_random_uuid()); ROLLBACK" >/dev/null 2>&1
expect 'a transaction that is rolled back' "$(counted 1)" '5 3 2 3'
as_cell 1 "BEGIN; SELECT claims.begin_update(1, $(creates six)); SAVEPOINT a; SELECT claims.begin_update(1, $(creates seven)); SAVEPOINT b; SELECT claims.begin_update(1, $(creates eight)); RELEASE b; ROLLBACK TO a;
           SAVEPOINT c; SELECT claims.begin_update(1, $(creates nine)); RELEASE c; COMMIT" >/dev/null
expect 'savepoints: rolled back and released' "$(counted 1)" '7 3 2 3'
as_cell 1 "BEGIN; SELECT claims.begin_update(1, $(creates ten)); SELECT 1/0; COMMIT" >/dev/null 2>&1 || true
expect 'a failed one' "$(counted 1)" '7 3 2 3'
as_cell 1 "BEGIN; SELECT claims.begin_update(1, $(creates eleven)); PREPARE TRANSACTION 'metrics'" >/dev/null
expect 'a prepared one counts when it is prepared' "$(counted 1)" '8 3 2 3'
as_cell 1 "COMMIT PREPARED 'metrics'"
expect 'and not again' "$(counted 1)" '8 3 2 3'
expect 'begins less what was settled is what is outstanding' "$(as_watch "SELECT value FROM claims.metrics() WHERE name = 'claims_leases' AND labels ->> 'cell' = '1'")" 3
at shared "SELECT claims.force_rollback(cell_id, lease_uuid, 'test') FROM claims.leases" >/dev/null
expect 'forced' "$(counted 1)" '8 3 5 3'
as_cell 1 "DO \$\$ BEGIN FOR i IN 1..1000 LOOP BEGIN PERFORM claims.rollback_update(1, claims.begin_update(1, jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', 'n' || i), 'subject', '{\"type\": \"GROUP\", \"id\": 1}'::jsonb, 'source', '{\"type\": \"RAILS_TABLE_ROUTES\", \"id\": 1}'::jsonb)))); EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END \$\$"
expect 'a thousand in a thousand savepoints' "$(counted 1)" '1008 3 1005 3'

# Conflicts, by their weightiest reason, also where the transaction fails with them.
expect 'none so far' "$(conflicts 2)" -
expect 'taken, raised' "$(state_as_cell 2 "SELECT claims.begin_update(2, $(creates one))")" 23505
expect 'taken, returned' "$(as_cell 2 "SELECT conflicts IS NOT NULL FROM claims.try_begin_update(2, $(creates one))")" t
begin 1 20 held
as_cell 2 "SELECT claims.try_begin_update(2, '[$(claim held), $(claim free)]')" >/dev/null
as_cell 2 "SELECT claims.try_begin_update(2, '[$(claim held), $(claim one)]')" >/dev/null
as_cell 2 "SELECT claims.begin_first(2, '[{\"create_records\": [$(claim one)]}, {\"create_records\": [$(claim free)]}]')" >/dev/null
as_cell 2 "SELECT claims.begin_first(2, '[{\"create_records\": [$(claim one)]}, {\"create_records\": [$(claim held)]}]')" >/dev/null
expect 'by reason' "$(conflicts 2)" 'leased 2, taken 3'
expect 'the one that was had is a begin, beside the one with skipped destroys' "$(counted 2) $(answered 2)" '2 0 1 0 9 1'
expect 'the other cell has none of it' "$(conflicts 1)" -

# Histograms: cumulative, all of them in the last bucket, the sum plausible.
expect 'buckets grow' "$(as_watch "SELECT bool_and(value >= before) FROM (SELECT value, lag(value, 1, 0) OVER (PARTITION BY name, labels ->> 'cell' ORDER BY CASE labels ->> 'le' WHEN '+Inf' THEN 'Infinity' ELSE labels ->> 'le' END::float8) AS before FROM claims.metrics() WHERE name LIKE '%\\_bucket') b")" t
expect 'the last one has them all' "$(as_watch "SELECT bool_and(b.value = c.value) FROM claims.metrics() b JOIN claims.metrics() c ON c.name = replace(b.name, '_bucket', '_count') AND c.labels = b.labels - 'le' WHERE b.labels ->> 'le' = '+Inf'")" t
before=$(as_watch "SELECT value FROM claims.metrics() WHERE name = 'claims_begin_duration_seconds_sum' AND labels ->> 'cell' = '2'")
open holder shared postgres
tell holder "BEGIN; SELECT 1 FROM claims.claims WHERE bucket_value = 'one' FOR UPDATE" >/dev/null
as_cell 1 "SET claims.wait_timeout = '600 ms'; SELECT claims.try_begin_update(1, '[]', '[$(bucket one)]')" >/dev/null
tell holder ROLLBACK >/dev/null
close holder
expect 'one that waited is in a high bucket' "$(as_watch "SELECT count(*) > 0 FROM (SELECT labels, value - lag(value, 1, 0) OVER (ORDER BY CASE labels ->> 'le' WHEN '+Inf' THEN 'Infinity' ELSE labels ->> 'le' END::float8) AS n FROM claims.metrics() WHERE name = 'claims_begin_duration_seconds_bucket' AND labels ->> 'cell' = '1') b WHERE n > 0 AND (labels ->> 'le')::float8 > 0.5")" t
expect 'in flight' "$(conflicts 1)" 'in_flight 1'
expect 'the sum has it' "$(as_watch "SELECT value > 0.6 FROM claims.metrics() WHERE name = 'claims_begin_duration_seconds_sum' AND labels ->> 'cell' = '1'")" t
expect 'of the other cell not' "$(as_watch "SELECT value FROM claims.metrics() WHERE name = 'claims_begin_duration_seconds_sum' AND labels ->> 'cell' = '2'")" "$before"

# check(), also on behalf of the one who watches.
expect 'nobody has checked' "$(as_watch "SELECT count(*) FROM claims.metrics() WHERE name LIKE 'claims_check%'")" 0
expect 'check' "$(as_watch "SELECT count(*) FROM claims.check()")" 0
expect 'somebody has' "$(as_watch "SELECT string_agg(name || ' ' || (value < 30), ', ' ORDER BY name) FROM claims.metrics() WHERE name LIKE 'claims_check%'")" 'claims_check_age_seconds true, claims_check_future true, claims_check_problems true'
at shared "INSERT INTO claims.claim_leases (uuid, creator_id, payload) VALUES ('$(lease 99)', 1, '{\"x\": 1}')"
found=$(as_watch "SELECT count(*) FROM claims.check()")
expect 'how much it found' "$(as_watch "SELECT value FROM claims.metrics() WHERE name = 'claims_check_problems'")" "$found"
expect 'that is something' "$( [ "$found" -gt 0 ] && echo yes)" yes
at shared "UPDATE claims.claim_leases SET created_at = clock_timestamp() + interval '7 days' WHERE uuid = '$(lease 99)'"
expect 'check() finds what is dated in the future' "$(as_watch "SELECT count(*) FROM claims.check()")" "$((found + 1))"
expect 'which is no violation' "$(as_watch "SELECT string_agg(name || ' ' || value, ', ' ORDER BY name) FROM claims.metrics() WHERE name IN ('claims_check_problems', 'claims_check_future')")" "claims_check_future 1, claims_check_problems $found"
at shared "UPDATE claims.claim_leases SET created_at = clock_timestamp() WHERE uuid = '$(lease 99)'"

# Another database of the same server has counters of its own; a restart begins anew.
( use_cluster shared; sql "CREATE DATABASE other TEMPLATE template0"; sql other "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell1')" >/dev/null )
expect 'another database' "$( (use_cluster shared; sql other "SELECT count(*) FROM claims.counters() WHERE name <> 'claims_lease_waiters'") )" 0
crash shared; resume shared
expect 'after a crash' "$(counted 1)" ''
as_cell 1 "SELECT claims.commit_update(1, '$(lease 20)')" >/dev/null
expect 'it goes on' "$(counted 1)" '0 1 0 0'

# Eight at once: none is lost.
for number in $(seq 1 8); do
  as_cell 2 "DO \$\$ BEGIN FOR i IN 1..500 LOOP PERFORM claims.rollback_update(2, claims.begin_update(2, jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', 'w$number ' || i), 'subject', '{\"type\": \"GROUP\", \"id\": 1}'::jsonb, 'source', '{\"type\": \"RAILS_TABLE_ROUTES\", \"id\": 1}'::jsonb)))); COMMIT; END LOOP; END \$\$" &
done
wait
expect 'eight at once' "$(counted 2)" '4000 0 4000 0'

# One call takes milliseconds on a million claims: here on what a test can afford, many times.
at shared "INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status) SELECT 1, 'big ' || i, 2, '1', 3, i::text, 1 + i % 2, 1 FROM generate_series(1, 300000) i; ANALYZE claims.claims" >/dev/null
at shared 'VACUUM claims.claim_leases'
expect 'it reads no claim' "$(at shared "SELECT count(*) FROM claims.metrics() WHERE name = ''; EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, FORMAT json) SELECT * FROM claims.metrics()" | grep -o '"Shared [HR][a-z]* Blocks": [0-9]*' | head -2 | grep -oE '[0-9]+$' | awk '{ n += $1 } END { print n < 1500 ? "yes" : n }')" yes
