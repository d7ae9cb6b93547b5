#!/usr/bin/env bash
# A Citus cluster that changes while cells save on all of its nodes: a node is added, shards move to it in each of the ways that Citus has,
# another node is emptied and removed. Acknowledged calls survive. Then a dump is restored into
# a database without Citus, and into a new one that is distributed again.
. "$(dirname "$0")/../citus.bash"

citus_cluster 2 -c wal_level=logical
citus_service
sql "SELECT claims.commit_update(1, claims.begin_update(1, $(numbered before 500)))" >/dev/null
sql "SELECT claims.add_bucket_type(100, 'HANDLES', 'casefold', 'reject')" >/dev/null
handle() { claims_of "$1" | sed 's/"ROUTES"/"HANDLES"/'; }
sql "SELECT claims.commit_update(1, claims.begin_update(1, $(handle Paypal)))" >/dev/null
sql "SELECT claims.reserve_names('ROUTES', '{admin,root}', 'a test')" >/dev/null
citus_spread 8
shards_on() { on_coordinator; sql "SELECT count(*) FROM pg_dist_shard s JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node n USING (groupid) WHERE s.logicalrelid = 'claims.claims'::regclass AND n.nodeport = ${CLUSTER_PORT[$1]}"; }
as_one() { psql -XqAt -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate -c 'SET ROLE script_claims_one' -c "$1" 2>&1 | sed 's/^ERROR:  //'; }
calls_on() {
  on_node "$1"
  expect "a cell's save on $1" "$(as_one "SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of "cell-$1-$2")))")" t
  expect "what another node has, read on $1" "$(sql "SELECT count(*) FROM claims.get_record('ROUTES', 'before-7')")" 1
  expect "a name that is taken, on $1" "$(as_one "SELECT claims.begin_update(1, $(claims_of before-7))")" 23505
  on_coordinator
  expect "what $1 has saved, read elsewhere" "$(sql "SELECT count(*) FROM claims.get_record('ROUTES', 'cell-$1-$2')")" 1
}

# --- a node comes ---------------------------------------------------------------------------------------------------------------
clients add coordinator worker1 worker2
sleep 1
citus_start worker3
citus_join worker3
expect 'nobody has a right on it yet' "$(on_worker 3; as_one "SELECT claims.begin_update(1, $(claims_of early))")" 42501
on_coordinator
sql 'SELECT claims.refresh_grants()' >/dev/null
calls_on worker3 1
sleep 1
stop_clients
judge_clients add '55P03|55000|40P01|40001'
expect 'it keeps no shards yet' "$(shards_on worker3)" 0

# --- shards move ------------------------------------------------------------------------------------------------------------------
clients move coordinator worker1 worker2 worker3
sleep 1
# Reference tables first. (citus_rebalance_start does that by itself.)
sql 'SELECT replicate_reference_tables()' >/dev/null
for way in block_writes force_logical auto; do
  read -r shard from_host from_port < <(sql "SELECT s.shardid, n.nodename, n.nodeport FROM pg_dist_shard s JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node n USING (groupid)
    WHERE s.logicalrelid = 'claims.claims'::regclass AND n.nodeport <> ${CLUSTER_PORT[worker3]} ORDER BY s.shardid LIMIT 1" | tr '|' ' ')
  expect "a shard moves by $way" "$(sql "SELECT 'moved' FROM (SELECT citus_move_shard_placement($shard, '$from_host', $from_port, '${CLUSTER_DIR[worker3]}', ${CLUSTER_PORT[worker3]}, '$way')) x" 2>&1 | tail -1)" moved
done
expect 'they are there' "$(shards_on worker3)" 3
# Leases too, and all that is left is done by Citus: one node is emptied.
expect 'a node is emptied' "$(sql "SELECT 'emptied' FROM (SELECT citus_drain_node('${CLUSTER_DIR[worker1]}', ${CLUSTER_PORT[worker1]}, 'force_logical')) x" 2>&1 | tail -1)" emptied
expect 'it keeps no shards any more' "$(shards_on worker1)" 0
sleep 1
stop_clients
judge_clients move '55P03|55000|40P01|40001'
calls_on worker1 2

# A transaction that continues after a shard that it has read was moved: Citus would write into the old copy.
shard_of() { sql "SELECT s.shardid, n.nodename, n.nodeport FROM pg_dist_placement s JOIN pg_dist_node n USING (groupid) WHERE s.shardid = get_shard_id_for_distribution_column('claims.claims', '$1')"; }
name=moved
read -r shard from_host from_port < <(shard_of "$name" | tr '|' ' ')
to=worker2
[ "$from_port" != "${CLUSTER_PORT[$to]}" ] || to=worker3
move_it="SELECT 'moved' FROM (SELECT citus_move_shard_placement($shard, '$from_host', $from_port, '${CLUSTER_DIR[$to]}', ${CLUSTER_PORT[$to]}, 'block_writes')) x"
on_worker 1
open_session reader
expect 'what it has read' "$(ask reader 'BEGIN'; ask reader "SELECT count(*) FROM claims.get_record('ROUTES', '$name')")" $'\n0'
expect 'the shard moves' "$(on_coordinator; sql "$move_it")" moved
on_worker 1
expect 'it is refused to write' "$(ask reader 'SAVEPOINT s'; ask reader "SELECT claims.begin_update(1, $(claims_of "$name"))")" $'\n55P03'
expect 'and to read' "$(ask reader 'ROLLBACK TO s'; ask reader "SELECT count(*) FROM claims.get_record('ROUTES', '$name')")" $'\n55P03'
expect 'repeated, it goes on' "$(ask reader 'ROLLBACK'; ask reader "SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of "$name")))")" $'\nt'
expect 'and what it claims is there' "$(on_coordinator; sql "SELECT count(*) FROM claims.get_record('ROUTES', '$name')")" 1
on_coordinator
sql "SELECT citus_remove_node('${CLUSTER_DIR[worker1]}', ${CLUSTER_PORT[worker1]})" >/dev/null
calls_on worker2 3
calls_on worker3 3
expect_clean 'without it'
expect 'nothing was lost' "$(sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'before-%' AND status = 1")" 500

# --- dump and restore -----------------------------------------------------------------------------------------------------------------
sql "SELECT claims.begin_update(1, $(claims_of held), lease_uuid => '$(lease 1)')" >/dev/null
contents="SELECT md5(string_agg(c.bucket_value || c.status || c.creator_id || coalesce(c.lease_uuid::text, ''), ',' ORDER BY bucket_value COLLATE \"C\")) FROM claims.claims c"
before=$(sql "$contents")
pg_dump --extension=claims --schema=claims 2>/dev/null >"$CLAIMS_TMP/dump"
restored() {
  export PGDATABASE=$1
  psql -Xq <"$CLAIMS_TMP/dump" >/dev/null 2>"$CLAIMS_TMP/restore.log" || true
  expect "$1: all claims" "$(sql "$contents")" "$before"
  expect "$1: in one database" "$(sql 'SELECT distributed FROM claims.version()')" f
  expect_clean "$1"
  expect "$1: the lease goes on" "$(sql "SELECT claims.lease_outcome(1, '$(lease 1)')")" outstanding
  expect "$1: a cell saves" "$(as_one "SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of "$1")))")" t
  expect "$1: a reserved name" "$(sqlstate "SELECT claims.begin_update(1, $(claims_of admin))")" 23505
  expect "$1: a name that looks like another" "$(sqlstate "SELECT claims.begin_update(2, $(handle 'pаypal'))")" 23505
  expect "$1: what distributed tables do not have is there again" "$(sql "SELECT count(*) FROM claims.prepare_transfer('$(lease 9)', 1, 2, '[{\"type\": \"GROUP\", \"ids\": [424242]}]', 'a test')")" 1
}
sql postgres "CREATE DATABASE alone ENCODING 'UTF8' TEMPLATE template0" 2>/dev/null
(restored alone)

# Into a new database of the cluster, which is distributed then.
CITUS_DATABASE=again
for name in coordinator worker2 worker3; do use_cluster "$name"; citus_database; done
on_coordinator
sql "SELECT citus_set_coordinator_host('$PGHOST', $PGPORT)" >/dev/null
for name in worker2 worker3; do citus_join "$name"; done
(restored again)
sql "SELECT claims.cancel_transfer('$(lease 9)', 'a test')" >/dev/null
before=$(sql "$contents")
citus_spread 8
expect 'all claims are in it' "$(sql "$contents")" "$before"
expect_clean 'distributed again'
expect 'the lease ends there' "$(on_worker 3; as_one "SELECT claims.commit_update(1, '$(lease 1)')")" t
calls_on worker2 4
echo ok
