#!/usr/bin/env bash
# Four clients claim names while claims.distribute() runs, while a shard moves to another node, and while nodes are killed: acknowledged claims exist
# afterwards, failed calls left no rows, and check() finds nothing.
. "$(dirname "$0")/../citus.bash"

citus_cluster 2 -c wal_level=logical
citus_service
sql "SELECT claims.commit_update(1, claims.begin_update(1, $(numbered before 2000)))" >/dev/null
all=(coordinator coordinator worker1 worker2)

clients distribute coordinator coordinator coordinator coordinator
sleep 2
citus_spread 8
sleep 2
stop_clients
judge_clients distribute '55P03|0A000|55000'
expect 'what was there before is' "$(sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'before-%' AND status = 1")" 2000

clients move "${all[@]}"
sleep 2
read -r shard from from_port to to_port < <(sql "SELECT s.shardid || ' ' || f.nodename || ' ' || f.nodeport || ' ' || t.nodename || ' ' || t.nodeport
   FROM pg_dist_shard s JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node f USING (groupid) JOIN pg_dist_node t ON t.groupid NOT IN (0, f.groupid)
  WHERE s.logicalrelid = 'claims.claims'::regclass ORDER BY s.shardid LIMIT 1")
expect 'a shard moves' "$(sql "SELECT 'moved' FROM (SELECT citus_move_shard_placement($shard, '$from', $from_port, '$to', $to_port, 'force_logical')) x" 2>&1 | tail -1)" moved
sleep 2
stop_clients
judge_clients move '55P03|55000|40P01|40001'

clients kill "${all[@]}"
sleep 2
for _ in $(seq 1 "${CITUS_KILLS:-1}"); do
  for name in worker1 worker2 coordinator; do
    restart_cluster "$name" immediate
    sleep 3
  done
done
stop_clients
citus_recover
expect 'nothing is left prepared' "$(prepared_on 1) $(prepared_on 2)" '0 0'
# A client whose connection broke got no answer: its lease may stay outstanding.
judge_clients kill '55P03|55000|40P01|08006|08003|08001|57P01|57P02|57P03'
echo ok
