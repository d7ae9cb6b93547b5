#!/usr/bin/env bash
# Operating distributed claims: release_records frees claims that no lease holds, on all nodes, without waiting; metrics() returns the same on every
# node, for all nodes, and still works when one is down.
. "$(dirname "$0")/../citus.bash"

CITUS_SETTINGS='-c shared_preload_libraries=citus,claims -c claims.databases=spread'
citus_cluster 2
citus_service
sql "SELECT claims.grant_monitor('script_claims_router')" >/dev/null
citus_spread 8
names() { sql "SELECT string_agg('$1-' || n, ' ') FROM generate_series(1, $2) n"; }
left() { sql "SELECT count(*) FROM claims.claims WHERE creator_id = $1 AND bucket_value LIKE '$2-%'"; }
# shellcheck disable=SC2046
have 2 $(names gone 30)
have 1 other
released() { psql -XqAt -c "SELECT claims.release_records(2, 'a test'${1:+, $1})" 2>/dev/null; }

# --- release_records ----------------------------------------------------------------------------------------------------------------
expect 'on several nodes' "$(sql "SELECT count(DISTINCT p.groupid) FROM generate_series(1, 30) n JOIN pg_dist_placement p ON p.shardid = get_shard_id_for_distribution_column('claims.claims', 'gone-' || n)")" 2
expect 'a dry run' "$(sql "SELECT claims.release_records(2, 'a test', dry_run => true)")" 30
expect 'not on a worker' "$(on_worker 1; sqlstate "SELECT claims.release_records(2, 'a test')")" 0A000
expect 'a leased one' "$(on_worker 1; sql "SELECT claims.begin_update(2, '[]', '[$(bucket gone-1)]', '$(lease 1)')")" "$(lease 1)"
on_worker 2; open_session holder
on_coordinator
list=
for number in {11..20}; do list="$list${list:+, }$(bucket "gone-$number")"; done
ask holder "BEGIN; SELECT claims.begin_update(2, '[]', '[$list]', '$(lease 2)')" >/dev/null
started=$(date +%s%3N)
expect 'up to a number' "$(released 5)" 5
for _ in 1 2 3; do expect 'more of them, passing over what is in other hands' "$(released 4)" 4; done
expect 'the rest' "$(released 100)" 2
expect 'none' "$(released)" 0
[ $(($(date +%s%3N) - started)) -lt 20000 ] || { echo 'FAILED: somebody was waited for' >&2; exit 1; }
expect 'what was in other hands is there' "$(left 2 gone)" 11
ask holder ROLLBACK >/dev/null
expect 'rolled back with the caller' "$(sql "BEGIN; SELECT claims.release_records(2, 'a test'); ROLLBACK" 2>/dev/null)" 10
expect 'all there' "$(left 2 gone)" 11
psql -Xq -c 'SET citus.function_opens_transaction_block = off' -c "SELECT claims.release_records(2, 'a test') / 0" >/dev/null 2>&1 || true
expect 'all there after an error, whatever the caller sets' "$(left 2 gone)" 11
expect 'all that is free' "$(released)" 10
sql "SELECT claims.rollback_update(2, '$(lease 1)')" >/dev/null
expect 'and what was leased' "$(released)" 1
expect "another cell's stay" "$(sql "SELECT count(*) FROM claims.get_record('ROUTES', 'other')")" 1
expect 'free for others, on a worker' "$(on_worker 2; sql "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim gone-7)]'))")" t
sql "SELECT claims.add_bucket_type(100, 'LOOKS', 'casefold', 'reject')" >/dev/null
looks() { printf '[{"bucket": {"type": "LOOKS", "value": "%s"}, "subject": {"type": "GROUP", "id": 1}, "source": {"type": "RAILS_TABLE_ROUTES", "id": 1}}]' "$1"; }
sql "SELECT claims.commit_update(2, claims.begin_update(2, '$(looks paypal)'))" >/dev/null
expect 'with its look' "$(released)" 1
expect 'which another name may have' "$(on_worker 1; sql "SELECT claims.commit_update(1, claims.begin_update(1, '$(looks 'pаypal')'))")" t
expect 'then the cell can go' "$(sqlstate "SELECT claims.remove_cell(2, 'a test')")" 00000
sql "SELECT claims.register_cell(2, 'script_claims_two', 'two', NULL)" >/dev/null
expect 'they are written down' "$(sql "SELECT sum((counts ->> 'released')::int) FROM claims.admin_log WHERE action = 'release_records'")" 31

# --- metrics ------------------------------------------------------------------------------------------------------------------------
metric() { sql "SELECT string_agg(value::text, ' ' ORDER BY labels) FROM claims.metrics() WHERE name = '$1'${2:+ AND labels @> '$2'}"; }
holder() { sql "SELECT labels ->> 'name', labels ->> 'node' LIKE '%worker2%' FROM claims.metrics() WHERE name = 'claims_oldest_snapshot_age_seconds'"; }
before=$(metric claims_begins_total '{"cell": "1"}')
for node in "${NODES[@]}"; do for number in 1 2 3; do $node; sql "SELECT claims.begin_update(1, '[$(claim "metric-${node// /-}-$number")]')" >/dev/null; done; done
sqlstate "SELECT claims.begin_update(2, '[$(claim other)]')" >/dev/null
on_worker 2
sqlstate "SELECT claims.begin_update(2, '[$(claim other)]')" >/dev/null
expect 'check() on a worker' "$(sql 'SELECT count(*) FROM claims.check()')" 0
open_session reader
expect 'a snapshot there' "$(ask reader "BEGIN ISOLATION LEVEL REPEATABLE READ; SET application_name = 'the reader'; SELECT 1")" 1
for node in "${NODES[@]}"; do
  $node
  expect "leases, asked on $node" "$(metric claims_leases)" '9 0'
  expect "begins, asked on $node" "$(metric claims_begins_total '{"cell": "1"}')" "$((before + 9))"
  expect "conflicts, asked on $node" "$(metric claims_conflicts_total '{"cell": "2", "reason": "taken"}')" 2
  expect "a histogram, asked on $node" "$(sql "SELECT max(value) FILTER (WHERE labels ->> 'le' = '+Inf') = max(value) FROM claims.metrics() WHERE name = 'claims_begin_duration_seconds_bucket' AND labels ->> 'cell' = '1'")" t
  expect "the last check(), asked on $node" "$(metric claims_check_problems) $(sql "SELECT value < 60 FROM claims.metrics() WHERE name = 'claims_check_age_seconds'")" '0 t'
  # Citus' own daemon has an older one for a moment now and then.
  expect "who holds the oldest snapshot, asked on $node" "$(wait_for 'the reader|t' holder)" 'the reader|t'
  expect "nodes, asked on $node" "$(metric claims_node_up)" '1 1 1'
  expect "each sample once, asked on $node" "$(sql 'SELECT count(*) FROM (SELECT FROM claims.metrics() GROUP BY name, labels HAVING count(*) > 1) x')" 0
  expect "every name, label and value, asked on $node" "$(sql "SELECT count(*) FROM claims.metrics() m WHERE name !~ '^claims_[a-z_]+\$' OR value IS NULL OR labels IS NULL OR EXISTS (SELECT FROM jsonb_each(labels) l WHERE jsonb_typeof(l.value) <> 'string')")" 0
  expect "a monitoring role on $node" "$(sql "SET ROLE script_claims_router; SELECT count(*) > 40 FROM claims.metrics()")" t
  expect "nobody else on $node" "$(sqlstate "SET ROLE script_claims_one; SELECT count(*) FROM claims.metrics()")" 42501
done
ask reader COMMIT >/dev/null
expect 'tables that grow' "$(sql "SELECT string_agg(labels ->> 'table', ' ' ORDER BY labels ->> 'table') FROM claims.metrics() WHERE name = 'claims_table_bytes' AND labels ->> 'table' LIKE 'cl%' AND value > 8 * 8192")" 'claim_leases claims'
on_coordinator
sql 'ANALYZE claims.claims'
expect 'claims, as estimated' "$(sql "SELECT sum(value) FROM claims.metrics() WHERE name = 'claims_claims'")" "$(sql 'SELECT count(*) FROM claims.claims')"
sql "SELECT claims.purge_outcomes()" >/dev/null
sql "INSERT INTO claims.pass_log (id, kind, started_at, ended_at, sqlstate) VALUES (gen_random_uuid(), 'purge', now(), now(), NULL)"
expect 'a pass of another node' "$(on_worker 1; sql "SELECT count(*) FROM claims.metrics() WHERE name = 'claims_pass_age_seconds' AND labels @> '{\"kind\": \"purge\"}' AND value < 60")" 1

# --- a limit of begins per second ----------------------------------------------------------------------------------------------------
sql "SELECT claims.set_cell_limits(1, 'a test', begins_per_second => 3)" >/dev/null
started=$(date +%s)
pids=()
for node in "${NODES[@]}"; do
  $node
  for number in $(seq 1 40); do printf "SELECT count(*) FROM claims.try_begin_update(1, '[%s]');\n" "$(claim "rate-${node// /-}-$number")"; done | psql -XqAt -v VERBOSITY=sqlstate >"$CLAIMS_TMP/rate.${node// /-}" 2>&1 &
  pids+=($!)
done
wait "${pids[@]}" || true
passed=$(cat "$CLAIMS_TMP"/rate.* | grep -cx 1)
refused=$(cat "$CLAIMS_TMP"/rate.* | grep -c 53400)
seconds=$(($(date +%s) - started + 2))
expect 'all are answered' "$((passed + refused))" 120
expect 'no more than that over all nodes together' "$([ "$passed" -le $((3 + 3 * seconds)) ] && [ "$passed" -ge 3 ] && [ "$refused" -gt 0 ] && echo yes)" yes
expect 'when to try again' "$(on_worker 2; psql -XqAt -c "SELECT claims.begin_update(1, '[$(claim a)]'), claims.begin_update(1, '[$(claim b)]'), claims.begin_update(1, '[$(claim c)]'), claims.begin_update(1, '[$(claim d)]')" 2>&1 | grep -c '^HINT')" 1
expect 'others have no limit' "$(on_worker 1; sql "SELECT count(*) FROM generate_series(1, 20) n, claims.lease_outcome(2, gen_random_uuid())")" 20
on_coordinator
sql "SELECT claims.set_cell_limits(1, 'a test')" >/dev/null

# --- the background worker -----------------------------------------------------------------------------------------------------------------
# The worker keeps its intervals over restarts: the next purge is due.
sql "UPDATE claims.pass_log SET started_at = started_at - interval '1 hour', ended_at = ended_at - interval '1 hour' WHERE kind = 'purge'"
restart_cluster coordinator fast
on_coordinator
purged="kind = 'purge' AND ended_at > pg_postmaster_start_time()"
for _ in $(seq 1 150); do [ "$(sql "SELECT count(*) FROM claims.passes WHERE $purged")" = 0 ] || break; sleep 0.2; done
expect 'drops what is old' "$(sql "SELECT string_agg(DISTINCT coalesce(sqlstate || ' ' || message, 'without an error'), ' ') FROM claims.passes WHERE $purged")" 'without an error'

# --- a node that is down --------------------------------------------------------------------------------------------------------------
# kept_on WORKER: the first of the names down-1 to down-40 that this worker keeps.
kept_on() {
  sql "SELECT 'down-' || n FROM generate_series(1, 40) n JOIN pg_dist_placement p ON p.shardid = get_shard_id_for_distribution_column('claims.claims', 'down-' || n)
         JOIN pg_dist_node d USING (groupid) WHERE d.nodeport = ${CLUSTER_PORT[$1]} ORDER BY n LIMIT 1"
}
here=$(kept_on worker1) gone=$(kept_on worker2)
control worker2 stop -m immediate
lease_of() { lease "$((100 + $(tr -dc 0-9 <<<"$1$2")))"; }
for node in on_coordinator 'on_worker 1'; do
  $node
  expect "a begin of its name on $node" "$(sqlstate "SELECT claims.begin_update(1, '[$(claim "$gone")]', lease_uuid => '$(lease_of "$node" 7)')")" 08006
  for call in "get_record('ROUTES', '$gone')" 'list_records(1)' 'list_leases(1)' 'check()' "begin_update(1, '[$(claim "$here"), $(claim "$gone")]')"; do
    expect "with a node down on $node: ${call%%(*}" "$(sqlstate "SELECT * FROM claims.$call")" 08006
  done
  expect "names elsewhere are claimed on $node" "$(sql "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim "$here")]')); SELECT cell_id FROM claims.get_record('ROUTES', '$here')")" $'t\n1'
  expect "and given up on $node" "$(sql "SELECT claims.commit_update(1, claims.begin_update(1, '[]', '[{\"bucket\": {\"type\": \"ROUTES\", \"value\": \"$here\"}}]'))")" t
done
on_coordinator
expect 'administrators need all nodes' "$(sqlstate "SELECT claims.set_mode('open', 'a test', 1)")" 08006
restart_cluster worker2
for node in on_coordinator 'on_worker 1'; do
  $node
  uuid=$(lease_of "$node" 7)
  expect "the same call when it is back, on $node" "$(sql "SELECT claims.begin_update(1, '[$(claim "$gone")]', lease_uuid => '$uuid')")" "$uuid"
  expect "and its end, on $node" "$(sql "SELECT claims.rollback_update(1, '$uuid')")" t
done

# The counters of a node are in its shared memory: since its restart, worker 2 has counted one begin.
on_worker 2
sql "SELECT claims.begin_update(1, '[$(claim metric-after-restart)]')" >/dev/null
with_worker2=$(metric claims_begins_total '{"cell": "1"}')
stop_cluster worker2
for node in on_coordinator 'on_worker 1'; do
  $node
  expect "with a node down, asked on $node" "$(sql "SELECT sum(value), count(*) FROM claims.metrics() WHERE name = 'claims_node_up'")" '2|3'
  expect "the others tell, asked on $node" "$(metric claims_begins_total '{"cell": "1"}')" "$((with_worker2 - 1))"
done
echo ok
