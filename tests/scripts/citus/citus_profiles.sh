#!/usr/bin/env bash
# Another profile for a type with distributed names: claims move between shards, and only their names change; no node claims by the old profile
# meanwhile, also if a node has crashed between the two phases of the change.
. "$(dirname "$0")/../citus.bash"

# Recovery comes when it is called.
CITUS_SETTINGS='-c citus.recover_2pc_interval=-1'
citus_cluster 2
citus_service
sql "SELECT claims.add_bucket_type(100, 'HANDLES'), claims.add_bucket_type(101, 'OTHERS')" >/dev/null
citus_spread 8

handle() { printf '[{"bucket": {"type": "%s", "value": "%s"}, "subject": {"type": "GROUP", "id": 1}, "source": {"type": "RAILS_TABLE_ROUTES", "id": 1}}]' "${2:-HANDLES}" "$1"; }
take() { sql "SELECT claims.commit_update($1, claims.begin_update($1, '$(handle "$2" "${3:-HANDLES}")'))" >/dev/null; }
set_profile() { sql "SELECT count(*) FROM claims.set_profile('HANDLES', '$1', 'a test', ${2:-NULL}, false)"; }
taking() { sqlstate "SELECT claims.begin_update(2, '$(handle "$1" "${2:-HANDLES}")')"; }
# The columns of each claim that must not change with its name.
rest() { sql "SELECT md5(string_agg(concat_ws(' ', uuid, coalesce(display_value, bucket_value), subject_type, subject_id, source_type, source_id, creator_id, lease_uuid, status, created_at, updated_at), ',' ORDER BY uuid)) FROM claims.claims WHERE bucket_type = 100"; }
nothing_is_wrong() { expect "$1: check() finds nothing" "$(sql "SELECT coalesce(string_agg(problem || ' ' || coalesce(detail, ''), ', '), '-') FROM claims.check()")" -; }
free() { sql "SELECT claims.settle_leases(c, '{}', ARRAY(SELECT lease_uuid FROM claims.list_leases(c))) FROM unnest('{1,2}'::bigint[]) c" >/dev/null; }

# --- names move ------------------------------------------------------------------------------------------------------------
sql "SELECT claims.commit_update(1, claims.begin_update(1, (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'HANDLES', 'value', 'Name-' || n),
       'subject', jsonb_build_object('type', 'GROUP', 'id', n), 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', n))) FROM generate_series(1, 1500) n)))" >/dev/null
take 2 plain; take 1 Ada; take 2 ada; take 1 Ada OTHERS
sql "SELECT claims.reserve_names('HANDLES', '{Root,Admin}', 'a test')" >/dev/null
expect 'on a worker' "$(on_worker 1; message "SELECT * FROM claims.set_profile('HANDLES', 'casefold', 'a test')")" 'distributed claims are administered on the coordinator'
expect 'what is in the way' "$(sql "SELECT canonical || ' ' || bucket_values::text || ' ' || cell_ids::text FROM claims.set_profile('HANDLES', 'casefold', 'a test')")" 'ada {Ada,ada} {1,2}'
expect 'and refuses it' "$(sqlstate "SELECT * FROM claims.set_profile('HANDLES', 'casefold', 'a test', dry_run => false)")" 23505
sql "SELECT claims.commit_update(2, claims.begin_update(2, '[]', '[{\"bucket\": {\"type\": \"HANDLES\", \"value\": \"ada\"}}]'))" >/dev/null
before=$(rest)
expect 'out of the way' "$(set_profile casefold)" 0
expect 'all is as it was but for the names' "$(rest)" "$before"
expect 'which are others' "$(sql "SELECT count(*) FROM claims.claims WHERE bucket_type = 100 AND bucket_value = lower(bucket_value) AND display_value <> bucket_value")" 1503
for node in "${NODES[@]}"; do
  expect "a name, $node" "$($node; sql "SELECT bucket_value || ' ' || display_value || ' ' || cell_id FROM claims.get_record('HANDLES', 'NAME-700')")" 'name-700 Name-700 1'
  expect "it is taken, $node" "$($node; taking nAme-3)" 23505
  expect "it is reserved, $node" "$($node; taking ROOT)" 23505
  expect "another type, $node" "$($node; sql "SELECT count(*) FROM claims.get_record('OTHERS', 'ada')")" 0
done
nothing_is_wrong 'folded'
expect 'back' "$(set_profile exact)" 0
expect 'all is as it was' "$(rest)" "$before"
expect 'also what is reserved' "$(sql "SELECT string_agg(bucket_value || coalesce(display_value, ''), ' ' ORDER BY bucket_value) FROM claims.reservations")" 'Admin Root'
expect 'look-alikes' "$(set_profile casefold "'reject'")" 0
for node in "${NODES[@]}"; do expect "one, $node" "$($node; sql "SELECT DISTINCT c ->> 'reason' FROM (SELECT conflicts FROM claims.try_begin_update(2, '$(handle 'аda')')) x, jsonb_array_elements(conflicts) c")" confusable; done
expect 'their looks' "$(sql "SELECT count(*) FROM claims.skeletons WHERE bucket_type = 100")" "$(sql "SELECT count(*) FROM claims.claims WHERE bucket_type = 100")"
nothing_is_wrong 'look-alikes'
expect 'none any more' "$(set_profile exact "'allow'") $(sql "SELECT count(*) FROM claims.skeletons")" '0 0'

# --- beside transactions of other nodes -------------------------------------------------------------------------------------
start() {
  mkfifo "$CLAIMS_TMP/open.in"
  psql -XqAt -v VERBOSITY=sqlstate <"$CLAIMS_TMP/open.in" >"$CLAIMS_TMP/open.said" 2>&1 &
  exec 9>"$CLAIMS_TMP/open.in"
}
tell() { printf '%s;\n\\echo --\n' "$1" >&9; }
heard() { local _; for _ in $(seq 1 200); do [ "$(grep -c '^--$' "$CLAIMS_TMP/open.said" || true)" -lt "$1" ] || break; sleep 0.1; done; grep -v '^--$' "$CLAIMS_TMP/open.said" | tail -1; }
stop() { printf '\\q\n' >&9; exec 9>&-; rm -f "$CLAIMS_TMP/open.in"; wait "$!" 2>/dev/null || true; }
for node in "${NODES[@]}"; do
  $node
  start
  tell "BEGIN; SELECT 'begun' FROM claims.begin_update(1, '$(handle Open OTHERS)')"
  expect "a begin in an open transaction, $node" "$(heard 1)" begun
  on_coordinator
  expect 'is waited for' "$(sqlstate "SET lock_timeout = '700ms'; SELECT * FROM claims.set_profile('HANDLES', 'casefold', 'a test', dry_run => false)")" 55P03
  psql -XqAt -c "SELECT count(*) FROM claims.set_profile('HANDLES', 'casefold', 'a test', dry_run => false)" >"$CLAIMS_TMP/waits.said" 2>&1 &
  waits=$!
  sleep 1
  expect 'it does wait' "$(cat "$CLAIMS_TMP/waits.said")" ''
  expect 'and keeps others out there' "$($node; taking new)" 55P03
  expect 'of every type' "$($node; sqlstate "SELECT claims.begin_update(1, '[$(claim "route-${node// /-}")]')")" 55P03
  tell COMMIT
  heard 2 >/dev/null
  wait "$waits"
  expect 'until it has ended' "$(cat "$CLAIMS_TMP/waits.said")" 0
  stop
  expect 'in effect' "$(on_worker 2; sql "SELECT claims.canonical('HANDLES', 'ADA')")" ada
  set_profile exact >/dev/null
  free
done
start
tell "BEGIN; SELECT count(*) FROM claims.set_profile('HANDLES', 'casefold', 'a test', dry_run => false)"
expect 'a change in an open transaction' "$(heard 1)" 0
for node in "${NODES[@]}"; do
  expect "keeps out, $node" "$($node; taking new)" 55P03
  expect "of every type, $node" "$($node; sqlstate "SELECT claims.begin_update(1, '[$(claim "open-${node// /-}")]')")" 55P03
  expect "and reading, $node" "$($node; sql "SELECT bucket_value FROM claims.get_record('HANDLES', 'Name-7')")" Name-7
done
tell ROLLBACK
heard 2 >/dev/null
stop
expect 'rolled back' "$(on_worker 1; sql "SELECT bucket_value FROM claims.get_record('HANDLES', 'Name-7')")" Name-7
free
nothing_is_wrong 'beside others'

# --- between the two phases -------------------------------------------------------------------------------------------------------
crash() { local name; for name in "$@"; do restart_cluster "$name" immediate; done; }
prepared_on() { (on_worker "$1"; sql "SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'citus_%'"); }
for crashes in worker1 'worker1 worker2' coordinator; do
  # The coordinator waits for a standby that is not there, with its own commit written, and the workers' parts prepared.
  sql "ALTER SYSTEM SET synchronous_standby_names = 'nobody'" >/dev/null
  sql 'SELECT pg_reload_conf()' >/dev/null
  sleep 0.5
  PGOPTIONS='-c synchronous_commit=on' psql -XqAt -c "SELECT count(*) FROM claims.set_profile('HANDLES', 'casefold', 'a test', dry_run => false)" >"$CLAIMS_TMP/between.said" 2>&1 &
  between=$!
  for _ in $(seq 1 100); do [ "$(prepared_on 1) $(prepared_on 2)" != '1 1' ] || break; sleep 0.1; done
  expect 'prepared' "$(prepared_on 1) $(prepared_on 2)" '1 1'
  for node in "${NODES[@]}"; do expect "nobody claims between the phases, $node" "$($node; taking new)" 55P03; done
  sql "ALTER SYSTEM RESET synchronous_standby_names" >/dev/null
  # shellcheck disable=SC2086
  crash $crashes
  on_coordinator
  sql 'SELECT pg_reload_conf()' >/dev/null
  wait "$between" || true
  # The commit stands. Who has not heard of it claims nothing by the old profile: every spelling of a name that is there is refused.
  for node in "${NODES[@]}"; do
    for name in Name-5 name-5 NAME-5 Name-6 name-6 nAme-9; do expect "$name after a crash of $crashes, $node" "$($node; taking $name | sed 's/23505\|55P03/refused/')" refused; done
  done
  expect 'on the node that crashed' "$(case $crashes in worker1*) on_worker 1; taking free-name ;; *) on_worker 2; taking free-name ;; esac)" 55P03
  sql 'SELECT recover_prepared_transactions()' >/dev/null
  expect 'nothing is left prepared' "$(prepared_on 1) $(prepared_on 2)" '0 0'
  for node in "${NODES[@]}"; do expect "recovered, $node" "$($node; sql "SELECT bucket_value || ' ' || cell_id FROM claims.get_record('HANDLES', 'NAME-5')")" 'name-5 1'; done
  expect 'all is as it was but for the names' "$(rest)" "$before"
  nothing_is_wrong "a crash of $crashes"
  free
  expect 'back' "$(set_profile exact)" 0
done

# --- beside clients on all nodes ----------------------------------------------------------------------------------------------------
words=(alpha beta gamma delta epsilon)
client() {
  local word spelled
  while [ ! -e "$CLAIMS_TMP/stop" ]; do
    for _ in 1 2 3 4 5 6; do
      word=${words[RANDOM % 5]}
      case $((RANDOM % 3)) in 0) spelled=$word ;; 1) spelled=${word^} ;; *) spelled=${word^^} ;; esac
      printf "SELECT claims.commit_update(%s, claims.begin_update(%s, '%s'));\n" "$1" "$1" "$(handle "$spelled")"
      printf "SELECT claims.commit_update(%s, claims.begin_update(%s, '[]', '[{\"bucket\": {\"type\": \"HANDLES\", \"value\": \"%s\"}}]'));\n" "$1" "$1" "$spelled"
    done | psql -XqAt -v VERBOSITY=sqlstate >>"$CLAIMS_TMP/client.$1.$2" 2>&1 || true
  done
}
rm -f "$CLAIMS_TMP/stop"
pids=()
(on_worker 1; client 1 a) & pids+=($!)
(on_worker 2; client 2 b) & pids+=($!)
(on_coordinator; client 2 c) & pids+=($!)
changed=0 same=0
for _ in $(seq 1 25); do
  if set_profile casefold >/dev/null 2>&1; then
    changed=$((changed + 1))
    for _ in 1 2 3 4; do same=$((same + $(sql "SELECT count(*) FROM (SELECT lower(bucket_value) FROM claims.claims WHERE bucket_type = 100 GROUP BY 1 HAVING count(*) > 1) x"))); done
    for _ in $(seq 1 40); do ! set_profile exact >/dev/null 2>&1 || break; done
  fi
done
touch "$CLAIMS_TMP/stop"
wait "${pids[@]}" || true
expect 'it was changed again and again' "$([ "$changed" -gt 2 ] && echo yes)" yes
expect 'never were two spellings of one name there' "$same" 0
expect 'clients were told nothing else than that' "$(cat "$CLAIMS_TMP"/client.* | sed -n 's/^.*ERROR:  //p' | grep -vE '^(23505|55P03|42501|P0002)$' | sort | uniq -c | head -3)" ''
free
nothing_is_wrong 'the end'

# --- rows of the change feed ---------------------------------------------------------------------------------------------------------------
set_profile exact >/dev/null
# Under that profile the clients may have left several spellings of a word.
sql "DELETE FROM claims.claims WHERE bucket_type = 100 AND lower(bucket_value) = ANY (string_to_array('${words[*]}', ' '))"
sql "ALTER DATABASE spread SET claims.change_feed = on"
take 1 Feed
from=$(sql 'SELECT claims.change_cursor()')
expect 'with the feed on' "$(set_profile casefold)" 0
told() { sql "SELECT string_agg(concat_ws(' ', op, bucket_value, old_cell_id, new_cell_id), ', ') FROM claims.list_changes('$from', 10000) WHERE lower(bucket_value) IN ('feed', 'plain', 'root')"; }
for node in "${NODES[@]}"; do
  for _ in $(seq 1 100); do [ -z "$($node; told)" ] || break; sleep 0.1; done
  expect "what is told, $node" "$($node; told)" 'destroy Feed 1, create feed 1'
done
echo ok
