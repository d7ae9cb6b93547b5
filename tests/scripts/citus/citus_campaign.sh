#!/usr/bin/env bash
# The crash campaign with a service whose tables are distributed: two cells with their workers save the same names at random, by all nodes of the
# service, while nodes, cells and backends are killed, the network breaks, shards move, and nodes join and leave. The server of a node that has left
# goes on running, and clients save there: none of these saves may succeed. At the end the rows of both cells are compared with the claims of the
# service. CAMPAIGN_SECONDS is how long it takes.
# test: long
export CITUS_DATABASE=postgres CAMPAIGN_WORKERS=yes
. "$(dirname "$0")/../disturb.bash"
. "$(dirname "$0")/../citus.bash"

seconds=${CAMPAIGN_SECONDS:-30}
"$CLAIMS_ROOT/scripts/clients"

# The settings of start_cells are those of the cells, which have workers.
start_shared() {
  citus_cluster 2 -c synchronous_commit=on -c log_min_messages=panic -c deadlock_timeout=20ms -c citus.recover_2pc_interval=2s -c max_connections=150
  CLUSTER_DIR[shared]=${CLUSTER_DIR[coordinator]} CLUSTER_PORT[shared]=${CLUSTER_PORT[coordinator]}
}
start_cells -c deadlock_timeout=20ms -c shared_preload_libraries=claims -c claims.databases=postgres -c claims.reconcile_interval=1s
# The service's coordinator has two names, and is stopped once.
trap 'unset "CLUSTER_DIR[shared]"; cleanup' EXIT
on_coordinator
citus_spread 8
prepare_cells 3s

# The nodes that cells call.
members=(coordinator worker1 worker2)
publish() {
  local name
  for name in "${members[@]}"; do echo "${CLUSTER_DIR[$name]}:${CLUSTER_PORT[$name]}"; done >"$CLAIMS_TMP/nodes.new"
  mv "$CLAIMS_TMP/nodes.new" "$CLAIMS_TMP/nodes"
}
publish
CAMPAIGN_NODES=$CLAIMS_TMP/nodes CAMPAIGN_SHARED=${CLUSTER_DIR[coordinator]}:${CLUSTER_PORT[coordinator]} \
CAMPAIGN_CELL1=${CLUSTER_DIR[cell1]}:${CLUSTER_PORT[cell1]} CAMPAIGN_CELL2=${CLUSTER_DIR[cell2]}:${CLUSTER_PORT[cell2]} \
CAMPAIGN_PASSWORD=$CELLS_PASSWORD CAMPAIGN_PROXY=$proxy CAMPAIGN_CUT=$CLAIMS_TMP/cut CAMPAIGN_OVER=$CLAIMS_TMP/over CAMPAIGN_ENOUGH=$CLAIMS_TMP/enough \
  "$CLAIMS_CLIENTS/campaign" &
campaign=$!

declare -A COUNTED=()
counted() { COUNTED[$1]=$((${COUNTED[$1]:-0} + 1)); }
# coordinated SQL: on the coordinator, again until it succeeds: a connection to a node that was killed may still be in use.
coordinated() { (on_coordinator; PGOPTIONS='-c client_min_messages=error' wait_until sql "$1"); }

# --- shards that move ---------------------------------------------------------------------------------------------------------
# No shard moves while a part of a commit waits for its second phase. Parts of commits that go on come and go, so this waits for the old ones.
recovered() {
  local name old
  for name in "${members[@]}"; do (on_node "$name"; sql 'SELECT recover_prepared_transactions()' >/dev/null) || return 1; done
  for name in "${members[@]}"; do
    old=$(on_node "$name"; sql "SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'citus_%' AND prepared < now() - interval '1 second'") || return 1
    [ "$old" = 0 ] || return 1
  done
}
# moves SHARDS: these move to other nodes at random. A move may fail where it meets calls.
moves() {
  local shard from from_port to to_port
  wait_until recovered
  while IFS='|' read -r shard from from_port to to_port; do
    if (on_coordinator; sql "SELECT citus_move_shard_placement($shard, '$from', $from_port, '$to', $to_port, 'block_writes')" >/dev/null 2>&1); then
      counted 'shards moved'
    else
      counted 'moves refused'
    fi
  done < <(on_coordinator; sql "$1")
}
random_moves() {
  moves "SELECT s.shardid, f.nodename, f.nodeport, t.nodename, t.nodeport
           FROM (SELECT DISTINCT ON (logicalrelid) * FROM pg_dist_shard WHERE logicalrelid IN ('claims.claims'::regclass, 'claims.claim_leases'::regclass)
                  ORDER BY logicalrelid, random()) s
           JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node f USING (groupid)
           JOIN LATERAL (SELECT * FROM pg_dist_node WHERE shouldhaveshards AND groupid <> f.groupid ORDER BY random() + s.shardid * 0 LIMIT 1) t ON true"
}

# --- nodes that join and leave --------------------------------------------------------------------------------------------------
added=2
left=
joins() {
  added=$((added + 1))
  citus_start "worker$added"
  on_coordinator
  coordinated "SELECT citus_add_node('${CLUSTER_DIR[worker$added]}', ${CLUSTER_PORT[worker$added]})"
  coordinated "SELECT replicate_reference_tables('block_writes')"
  coordinated 'SELECT claims.refresh_grants()'
  members+=("worker$added")
  publish
  counted 'nodes added'
}
has_no_shards() {
  (on_coordinator; sql 'CALL citus_cleanup_orphaned_resources()' >/dev/null 2>&1
   [ "$(sql "SELECT count(*) FROM pg_dist_cleanup")" = 0 ] &&
     [ "$(sql "SELECT count(*) FROM pg_dist_placement p JOIN pg_dist_node n USING (groupid) JOIN pg_dist_shard s USING (shardid) JOIN pg_dist_partition d USING (logicalrelid)
                WHERE n.nodeport = ${CLUSTER_PORT[$1]} AND d.partmethod <> 'n'")" = 0 ])
}
drains() {
  wait_until recovered
  (on_coordinator; sql "SELECT citus_drain_node('${CLUSTER_DIR[$1]}', ${CLUSTER_PORT[$1]}, 'block_writes')" >/dev/null 2>&1) || true
  has_no_shards "$1"
}
# What cells and workers do on a node ends with their sessions.
sessions_end() { (on_node "$1"; [ "$(sql "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename IN ('cell1', 'cell2')")" = 0 ]); }
leaves() {
  local name=${members[1]}
  wait_until drains "$name"
  members=("${members[0]}" "${members[@]:2}")
  publish
  wait_until sessions_end "$name"
  coordinated "SELECT citus_remove_node('${CLUSTER_DIR[$name]}', ${CLUSTER_PORT[$name]})"
  counted 'nodes removed'
  # The server of the one before goes.
  [ -z "$left" ] || { kill "$strangers" 2>/dev/null || true; wait "$strangers" 2>/dev/null || true; stop_cluster "$left"; }
  left=$name
  strangers_save "$name" &
  strangers=$!
}
# strangers_save NODE: both cells go on calling a node that has left the cluster. The names are those of the campaign.
strangers_save() {
  local cell number=0
  on_node "$1"
  while [ ! -e "$CLAIMS_TMP/over" ]; do
    number=$((number + 1)) cell=$((number % 2 + 1))
    for name in "name$((RANDOM % 60))" "name$((RANDOM % 60))"; do
      PGUSER=cell$cell psql -XqAt -v VERBOSITY=terse -c "SELECT 'SAVED ' || claims.commit_update($cell, claims.begin_update($cell, $(claims_of "$name")))" \
        -c "SELECT 'SAVED ' || claims.commit_update($cell, claims.begin_update($cell, '[]', $(buckets_of "$name")))" \
        -c "SELECT 'SAVED ' || coalesce(outcome, '') FROM claims.verify_records($cell, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '0', true) WHERE outcome = 'corrected'" >>"$CLAIMS_TMP/strangers" 2>&1 || true
    done
  done
}

# --- the campaign ---------------------------------------------------------------------------------------------------------------
any_member() { echo "${members[RANDOM % ${#members[@]}]}"; }
crashes() { crash "$1"; sleep "0.$((RANDOM % 10))"; resume "$1"; }
disturb() {
  case $1 in
    0) crashes coordinator; counted 'crashes of the coordinator' ;;
    1 | 2) crashes "${members[1 + RANDOM % (${#members[@]} - 1)]}"; counted 'crashes of workers' ;;
    3) crashes "cell$((RANDOM % 2 + 1))"; counted 'crashes of cells' ;;
    4) kill_backend "$(any_member)"; kill_backend "cell$((RANDOM % 2 + 1))"; counted 'backends killed' ;;
    5) echo close >"$CLAIMS_TMP/cut"; sleep "$(($2 ? 3 : 1)).$((RANDOM % 10))"; rm "$CLAIMS_TMP/cut"; counted 'cuts' ;;
    6) echo hold >"$CLAIMS_TMP/cut"; sleep "4.$((RANDOM % 10))"; rm "$CLAIMS_TMP/cut"; counted 'silences' ;;
    7) stop_service "$(any_member)" "4.$((RANDOM % 10))"; counted 'stopped nodes' ;;
    8 | 9 | 10) random_moves ;;
    11) joins; random_moves; leaves; random_moves ;;
  esac
}
disturbed=0
end=$((SECONDS + seconds)) limit=$((SECONDS + seconds + 600))
while { [ $SECONDS -lt $end ] || [ $disturbed -lt 12 ] || { [ ! -e "$CLAIMS_TMP/enough" ] && [ $SECONDS -lt $limit ]; }; } && kill -0 $campaign 2>/dev/null; do
  sleep "$((RANDOM % 2)).$((RANDOM % 10))"
  # Each kind once, then at random.
  disturb "$((disturbed < 12 ? 11 - disturbed : RANDOM % 12))" "$((disturbed < 12))"
  disturbed=$((disturbed + 1))
done
for cluster in "${members[@]}" cell1 cell2; do wait_until at "$cluster" 'SELECT 1'; done
wait_until recovered
touch "$CLAIMS_TMP/over"
wait "$strangers"
for what in "${!COUNTED[@]}"; do printf '%8s  %s\n' "${COUNTED[$what]}" "$what"; done | LC_ALL=C sort -k2
printf '%8s  %s\n' "$(grep -c 'ERROR' "$CLAIMS_TMP/strangers")" 'calls at nodes that had left'
expect 'a node that has left refuses every save' "$(grep -c SAVED "$CLAIMS_TMP/strangers" || true)" 0
expect 'it was tried' "$([ "$(grep -c 'has left the cluster of claims' "$CLAIMS_TMP/strangers")" -gt 10 ] && echo yes)" yes
expect 'shards have moved' "$([ "${COUNTED[shards moved]:-0}" -gt 3 ] && echo yes)" yes
# It compares the rows of the cells with the claims of the service.
wait $campaign
echo ok
