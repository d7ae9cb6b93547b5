#!/usr/bin/env bash
# A node that was removed from the cluster keeps its catalogs, and its server runs on. What it then writes is refused by the nodes of the shards: no
# name gets two owners, whether the shards have moved since or not, and no lease is begun or settled.
. "$(dirname "$0")/../citus.bash"

citus_cluster 2
citus_service
citus_spread 8
for n in 1 2; do sql "SELECT claims.begin_update(1, $(claims_of "held-$n"), lease_uuid => '$(lease "$n")')" >/dev/null; done
move() { sql "SELECT 'moved' FROM (SELECT citus_move_shard_placement($1, '$2', $3, '$4', $5, 'block_writes')) x" 2>&1 | tail -1; }
drain() { sql "SELECT citus_drain_node('${CLUSTER_DIR[$1]}', ${CLUSTER_PORT[$1]}, 'block_writes')" >/dev/null 2>&1; wait_for 0 cleaned; }
cleaned() { sql 'CALL citus_cleanup_orphaned_resources()' >/dev/null 2>&1; sql 'SELECT count(*) FROM pg_dist_cleanup'; }

citus_start worker3
citus_join worker3
on_coordinator
sql 'SELECT claims.refresh_grants()' >/dev/null
expect 'emptied, and cleaned up' "$(drain worker2)" 0
expect 'it saves while it is a node' "$(on_worker 2; sql "SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of member)))")" t
sql "SELECT citus_remove_node('${CLUSTER_DIR[worker2]}', ${CLUSTER_PORT[worker2]})" >/dev/null

# refused WHEN: by single calls and batches, in transactions, of new leases and of old ones.
refused() {
  local call
  on_worker 2
  for call in "claims.begin_update(1, $(claims_of "$1-a"))" "claims.begin_update(1, $(claims_of "$1"-{a..i}))" "claims.begin_update(1, destroy_records => $(buckets_of member))" \
    "claims.commit_update(1, '$(lease 1)')" "claims.rollback_update(1, '$(lease 2)')" "claims.rollback_update(1, '$(lease 77)')" \
    "claims.import_records(1, $(claims_of "$1-i"))" "claims.import_records(1, $(claims_of "$1"-{i..r}))" "claims.import_records(1, $(claims_of member "$1-i"))" \
    "claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, $(claims_of member "$1-v"), '0', true)" \
    "claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '0', true)" \
    "claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[$(claim member 2)]', '0', true)"; do
    expect "$1: ${call:0:50}" "$(sqlstate "SELECT $call")" 55000
  done
  expect "$1: in a transaction" "$(psql -XqAt -v VERBOSITY=sqlstate -c BEGIN -c "SELECT count(*) FROM claims.get_record('ROUTES', 'member')" -c "SELECT claims.begin_update(1, $(claims_of "$1-a"))" -c COMMIT 2>&1)" $'1\nERROR:  55000'
  expect "$1: what the error says" "$(psql -XqAt -v VERBOSITY=verbose -c "SELECT claims.begin_update(1, $(claims_of "$1-a"))" 2>&1 | grep -cE '^(ERROR:  55000: the node that was called has left the cluster of claims|HINT: +Call another node, and stop the server that was removed)')" 2
  on_coordinator
  expect "$1: the claim from before is as it was" "$(sql "SELECT source_id || ' ' || status FROM claims.get_record('ROUTES', 'member')")" '1 ACTIVE'
  expect "$1: nothing is there" "$(sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE '$1-%'")" 0
  expect "$1: leases are as they were" "$(sql "SELECT string_agg(claims.lease_outcome(1, l), ' ') FROM unnest('{$(lease 1),$(lease 2)}'::uuid[]) l")" 'outstanding outstanding'
}
refused removed
# Every shard moves, so that the catalogs of the removed node name other nodes than those which have them.
while read -r shard host port; do
  to=worker1
  [ "$port" != "${CLUSTER_PORT[worker1]}" ] || to=worker3
  expect "shard $shard moves" "$(move "$shard" "$host" "$port" "${CLUSTER_DIR[$to]}" "${CLUSTER_PORT[$to]}")" moved
done < <(sql "SELECT min(s.shardid), n.nodename, n.nodeport FROM pg_dist_shard s JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node n USING (groupid) JOIN pg_dist_partition d USING (logicalrelid)
   WHERE d.logicalrelid IN ('claims.claims'::regclass, 'claims.claim_leases'::regclass) GROUP BY s.shardid, 2, 3 ORDER BY 1" | tr '|' ' ')
on_worker 2
for name in a b c d e f g h; do
  state=$(sqlstate "SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of "moved-$name")))")
  expect "moved-$name at the removed node" "$([ "$state" != 00000 ] && echo refused)" refused
done
on_coordinator
for name in a b c d e f g h; do
  expect "moved-$name has one owner" "$(sql "SELECT claims.commit_update(2, claims.begin_update(2, $(claims_of "moved-$name")))")" t
done
settle_all
expect_clean 'in the end'
echo ok
