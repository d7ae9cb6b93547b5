#!/usr/bin/env bash
# Four clients claim names while claims.distribute() spreads the tables, while a shard moves to another node, and while nodes are
# killed: what a client was told is there afterwards, what failed left nothing, and check() finds nothing.
. "$(dirname "$0")/common.bash"
. "$(dirname "$0")/citus.bash"

CLAIMS_TMP=${CLAIMS_TMP:-$(mktemp -d)}
CITUS_SETTINGS='-c wal_level=logical -c max_connections=60'
citus_cluster 2
on_coordinator
sql "CREATE EXTENSION claims"
fresh_roles
sql "SELECT claims.register_cell(1, 'script_claims_one', 'one', NULL)" >/dev/null
sql "SELECT claims.commit_update(1, claims.begin_update(1, (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', 'before-' || n),
       'subject', jsonb_build_object('type', 'GROUP', 'id', n), 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', n))) FROM generate_series(1, 2000) n)))" >/dev/null

# clients PHASE: four of them in the background, until the file `stop` is there. Each writes down what it was told.
clients() {
  local number
  rm -f "$CLAIMS_TMP/stop"
  pids=()
  for number in 1 2 3 4; do
    client "$1" "$number" &
    pids+=($!)
  done
}
client() {
  local round=0
  [ "$1" = distribute ] || case $2 in 3) on_worker 1 ;; 4) on_worker 2 ;; esac
  while [ ! -e "$CLAIMS_TMP/stop" ]; do
    round=$((round + 1))
    # Twenty saves in one session.
    for save in $(seq 1 20); do
      name=$1-$2-$round-$save
      list="$(claim "$name")" names=$name
      # Every fourth of nine names, in several shards of each node.
      [ $((save % 4)) != 0 ] || for more in b c d e f g h i; do list="$list, $(claim "$name-$more")" names="$names $name-$more"; done
      printf "SELECT string_to_table('%s', ' ') FROM (SELECT claims.commit_update(1, claims.begin_update(1, '[%s]')) AS done) x WHERE done;\n" "$names" "$list"
    done | psql -XqAt -v VERBOSITY=verbose >>"$CLAIMS_TMP/told.$1.$2" 2>>"$CLAIMS_TMP/errors.$1" || sleep 0.2
  done
}
stop_clients() { touch "$CLAIMS_TMP/stop"; wait "${pids[@]}" || true; }
# judge PHASE: all that was told is there.
judge() {
  cat "$CLAIMS_TMP/told.$1".* | LC_ALL=C sort >"$CLAIMS_TMP/told"
  sql "SELECT bucket_value FROM claims.claims WHERE status = 1 AND bucket_value LIKE '$1-%'" | LC_ALL=C sort >"$CLAIMS_TMP/there"
  # What it is instead, where it is not.
  LC_ALL=C comm -23 "$CLAIMS_TMP/told" "$CLAIMS_TMP/there" | while read -r name; do sql "SELECT 'not ACTIVE: ' || '$name' || coalesce((SELECT ' status ' || status FROM claims.claims WHERE bucket_value = '$name'), ' is not there')"; done >&2
  expect "$1: all that was told is there" "$(LC_ALL=C comm -23 "$CLAIMS_TMP/told" "$CLAIMS_TMP/there" | head -3)" ''
  expect "$1: something was told" "$([ "$(wc -l <"$CLAIMS_TMP/told")" -gt 50 ] && echo yes)" yes
  # Citus has no SQLSTATE of its own for a node that is gone in the middle of a call.
  expect "$1: errors" "$(grep -vE 'XX000: (server closed the connection|failure on connection marked|could not commit transaction|terminating connection|SSL SYSCALL error)' "$CLAIMS_TMP/errors.$1" | sed -nE 's/.*ERROR:  ([0-9A-Z]{5}).*/\1/p' | sort -u | grep -vE "^($2)$" | tr '\n' ' ')" ''
  sql "SELECT claims.settle_leases(1, '{}', ARRAY(SELECT lease_uuid FROM claims.list_leases(1, max_results => 1000)))" >/dev/null
  expect "$1: check() finds nothing" "$(sql "SELECT coalesce(string_agg(problem || ' ' || coalesce(detail, ''), ', '), '-') FROM claims.check()")" -
}

clients distribute
sleep 2
expect 'distributed under load' "$(sql "SELECT claims.distribute(8, 'a test')" 2>/dev/null)" 8
sleep 2
stop_clients
judge distribute '55P03|0A000|55000'
expect 'what was there before is' "$(sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'before-%' AND status = 1")" 2000

clients move
sleep 2
read -r shard from from_port to to_port < <(sql "SELECT s.shardid || ' ' || f.nodename || ' ' || f.nodeport || ' ' || t.nodename || ' ' || t.nodeport
   FROM pg_dist_shard s JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node f USING (groupid) JOIN pg_dist_node t ON t.groupid NOT IN (0, f.groupid)
  WHERE s.logicalrelid = 'claims.claims'::regclass ORDER BY s.shardid LIMIT 1")
expect 'a shard moves' "$(sql "SELECT 'moved' FROM (SELECT citus_move_shard_placement($shard, '$from', $from_port, '$to', $to_port, 'force_logical')) x" 2>&1 | tail -1)" moved
sleep 2
stop_clients
judge move '55P03|55000|40P01|40001'

clients kill
sleep 2
for _ in $(seq 1 "${CITUS_KILLS:-1}"); do
  for name in worker1 worker2 coordinator; do
    restart_cluster "$name" immediate
    sleep 3
  done
done
stop_clients
# Each node recovers what it has coordinated.
for node in 'on_worker 1' 'on_worker 2' on_coordinator; do
  $node
  sql 'SELECT recover_prepared_transactions()' >/dev/null
done
for number in 1 2; do expect "nothing is left prepared on worker $number" "$(on_worker "$number"; sql "SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'citus_%'")" 0; done
# A client whose connection broke was told nothing: what it began may stay outstanding.
judge kill '55P03|55000|40P01|08006|08003|08001|57P01|57P02|57P03'
echo ok
