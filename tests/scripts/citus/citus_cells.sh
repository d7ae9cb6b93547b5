#!/usr/bin/env bash
# The databases of cells at a distributed service: automatic mode and capture, recovery, verification, import and the worker, with all nodes and with one
# of three down. The leases of a cell are on the nodes of their first names, so that a save needs no other node.
CITUS_DATABASE=postgres
. "$(dirname "$0")/../citus.bash"
. "$(dirname "$0")/../imports.bash"

CITUS_SETTINGS='-c synchronous_commit=on -c log_min_messages=panic -c shared_preload_libraries=citus,claims'
# The service has shards on all three nodes. The cells call the coordinator, which is the cluster `shared` to them.
start_shared() {
  citus_cluster 2
  sql "SELECT citus_set_node_property('$PGHOST', $PGPORT, 'shouldhaveshards', true)" >/dev/null
  CLUSTER_DIR[shared]=${CLUSTER_DIR[coordinator]} CLUSTER_PORT[shared]=${CLUSTER_PORT[coordinator]}
}
start_cells -c shared_preload_libraries=claims -c claims.databases=postgres -c claims.reconcile_interval=1h
trap 'for session in "${!SESSION_PID[@]}"; do close "$session"; done; unset "CLUSTER_DIR[shared]"; cleanup' EXIT
on_coordinator
# A power of two: then hashes that begin with the same bits are in one shard.
citus_spread 16
for n in 1 2; do
  at "cell$n" "ALTER DATABASE postgres SET claims.service_timeout = '60s'; GRANT USAGE ON FOREIGN SERVER service TO app;
    SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic($n, 'service')" >/dev/null
done
save() { tell app "INSERT INTO routes (name) VALUES ('$1')"; }
# verified CELL [ARGUMENTS]: what verification finds.
verified() { as_app "$1" "SELECT missing, different, extra, held_by_other, finished FROM claims.verify($1, 'service', 'RAILS_TABLE_ROUTES', recent => '0'$2)"; }
# Recovery of both cells, until no lease is left.
recovered() {
  as_app 1 "SELECT FROM claims.reconcile(1, 'service', '0')" >/dev/null 2>&1 || true
  as_app 2 "SELECT FROM claims.reconcile(2, 'service', '0')" >/dev/null 2>&1 || true
  [ "$(at shared 'SELECT count(*) FROM claims.claim_leases') $(tracked 1) $(tracked 2)" = '0 - -' ]
}
until_recovered() { wait_until recovered; }

say 'automatic mode and capture'
open app cell1
expect 'saves' "$(save one)$(save two)$(tell app "BEGIN; SAVEPOINT s; INSERT INTO routes (name) VALUES ('undone'); ROLLBACK TO s; INSERT INTO routes (name) VALUES ('three'); COMMIT")" ''
expect 'are settled' "$(settled) $(claimed 1)" 'soon one three two'
expect 'a name of another cell' "$(as_app 2 "INSERT INTO routes (name) VALUES ('other')") $(save other)" ' ERROR:  23505'
expect 'a rename, a swap and a delete' "$(tell app "UPDATE routes SET name = 'uno' WHERE name = 'one'; BEGIN; UPDATE routes SET name = 'x' WHERE name = 'two'; UPDATE routes SET name = 'two' WHERE name = 'three'; UPDATE routes SET name = 'three' WHERE name = 'x'; COMMIT; DELETE FROM routes WHERE name = 'uno'")$(settled) $(claimed 1)" 'soon three two'
expect 'an abort' "$(tell app "BEGIN; INSERT INTO routes (name) VALUES ('aborted'); SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK")$(settled) $(claimed 1)" 'soon three two'
expect 'many names in one transaction' "$(tell app "INSERT INTO routes (name) SELECT 'many/' || n FROM generate_series(1, 300) n")$(settled) $(at shared "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'many/%' AND status = 1")" 'soon 300'
tell app "DELETE FROM routes WHERE name LIKE 'many/%'" >/dev/null
expect 'is it free?' "$(tell app "SELECT claims.is_available('routes', 'name', 'other'), claims.is_available('routes', 'name', 'free')")" 'f|t'
until_recovered
agree 'automatic mode'

say 'leases are beside their first names'
NODE="SELECT groupid FROM pg_dist_placement WHERE shardid = get_shard_id_for_distribution_column"
# begun NAME: the lease of an uncommitted save; then whether it is on the node of the name.
begun() { tell app "BEGIN; INSERT INTO routes (name) VALUES ('$1'); SELECT claims.begin_pending(1, 'service'); ROLLBACK"; }
is_beside() { at shared "SELECT ($NODE('claims.claims', '$1')) = ($NODE('claims.claim_leases', '$2'::uuid))"; }
open app cell1
save first >/dev/null
# By chance ten of them would be. The search for a uuid may end without one, once in thousands of times.
beside=$(for n in $(seq 30); do is_beside "beside-$n" "$(begun "beside-$n")"; done | grep -c t)
expect 'thirty of thirty, or nearly' "$([ "$beside" -ge 28 ] && echo yes || echo "$beside")" yes
expect 'on three nodes' "$(at shared "SELECT count(DISTINCT ($NODE('claims.claims', 'beside-' || n))) FROM generate_series(1, 30) n")" 3
expect 'the first of several names' "$(tell app "BEGIN; INSERT INTO routes (name) VALUES ('z-last'), ('a-first'); SELECT claims.begin_pending(1, 'service'); ROLLBACK" | { read -r lease; is_beside a-first "$lease"; })" t
until_recovered
# Citus moves the shards of claims and those of leases separately.
read -r moved from from_port to to_port < <(at shared "SELECT s.shardid, f.nodename, f.nodeport, t.nodename, t.nodeport
    FROM pg_dist_shard s JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node f USING (groupid), pg_dist_node t
   WHERE s.shardid = get_shard_id_for_distribution_column('claims.claims', 'moved') AND t.groupid <> f.groupid LIMIT 1" | tr '|' ' ')
at shared "SELECT citus_move_shard_placement($moved, '$from', $from_port, '$to', $to_port, 'block_writes')" >/dev/null
expect 'a claim that was moved is elsewhere than its lease' "$(is_beside moved "$(begun moved)")" f
until_recovered
sed -n '/^### Leases beside/,/^```$/p' "$CLAIMS_ROOT/docs/service/distributed.md" | sed -n '/^```sql$/,/^```$/{//!p;}' | (on_coordinator; psql -Xq -v ON_ERROR_STOP=1) >/dev/null
expect 'until leases follow their claims' "$(is_beside moved "$(begun moved)")" t
expect 'all of them' "$(at shared "SELECT count(*) FROM pg_dist_shard l JOIN pg_dist_placement lp USING (shardid), pg_dist_shard c JOIN pg_dist_placement cp USING (shardid)
  WHERE l.logicalrelid = 'claims.claim_leases'::regclass AND c.logicalrelid = 'claims.claims'::regclass AND c.shardminvalue = l.shardminvalue AND lp.groupid <> cp.groupid")" 0
until_recovered

say 'recovery'
tell app "BEGIN; INSERT INTO routes (name) VALUES ('left'); SELECT claims.begin_pending(1, 'service') IS NOT NULL; COMMIT" >/dev/null
tell app "BEGIN; INSERT INTO routes (name) VALUES ('dies'); SELECT claims.begin_pending(1, 'service') IS NOT NULL" >/dev/null
crash cell1; resume cell1
unset "SESSION_PID[app]"
expect 'after a crash of the cell: what committed is committed, what did not is rolled back' "$(wait_until recovered; claimed 1)" 'first left three two'
agree 'recovery'

say 'the worker'
open app cell1
tell app "BEGIN; INSERT INTO routes (name) VALUES ('by the worker'); SELECT claims.begin_pending(1, 'service') IS NOT NULL; COMMIT" >/dev/null
expect 'settles what committed' "$(wait_for 1 at shared "SELECT count(*) FROM claims.claims WHERE bucket_value = 'by the worker' AND status = 1")" 1
for setting in "claims.verify_interval = '2s'" 'claims.verify_correct = on' 'claims.verify_recent = 0'; do at cell1 "ALTER SYSTEM SET $setting"; done
at cell1 'SELECT pg_reload_conf()' >/dev/null
at cell1 "SET session_replication_role = replica; INSERT INTO routes (name) VALUES ('never captured')" >/dev/null
expect 'verifies and corrects' "$(wait_for 1 at shared "SELECT count(*) FROM claims.claims WHERE bucket_value = 'never captured' AND status = 1")" 1
for setting in claims.verify_interval claims.verify_correct claims.verify_recent; do at cell1 "ALTER SYSTEM RESET $setting"; done
at cell1 'SELECT pg_reload_conf()' >/dev/null
expect 'no pass has failed' "$(at cell1 "SELECT count(*) FROM claims.passes WHERE kind = 'verify' AND sqlstate IS NOT NULL")" 0

say 'verification and import'
at cell1 "SET session_replication_role = replica; INSERT INTO routes (name) SELECT 'old/' || n FROM generate_series(1, 200) n; UPDATE routes SET name = 'TWO' WHERE name = 'two'" >/dev/null
expect 'what differs' "$(verified 1 '')" '201|0|1|0|t'
expect 'an import claims rows from before' "$(state_as_app 1 "$import)") $(state)" '00000 finished'
expect 'a correction the rest' "$(verified 1 ', correct => true' >/dev/null; verified 1 '')" '0|0|0|0|t'

say 'one node is down'
until_recovered
open app cell1
save warm >/dev/null
names=$(seq -f 'down-%g' 60)
up=$(at shared "SELECT string_agg('down-' || n, ' ' ORDER BY n) FROM generate_series(1, 60) n WHERE ($NODE('claims.claims', 'down-' || n)) <> (SELECT groupid FROM pg_dist_node WHERE nodeport = ${CLUSTER_PORT[worker2]})")
halt worker2 immediate
saved_names= states=
for name in $names; do
  said=$(save "$name")
  [ -z "$said" ] && saved_names="$saved_names${saved_names:+ }$name" || states="$states$said "
done
say "$(wc -w <<<"$up") of 60 names are on nodes that are up, $(wc -w <<<"$saved_names") were saved"
expect 'only names on the other nodes are saved' "$(comm -13 <(tr ' ' '\n' <<<"$up" | sort) <(tr ' ' '\n' <<<"$saved_names" | sort))" ''
expect 'all of them, or nearly' "$([ "$(wc -w <<<"$saved_names")" -ge $(($(wc -w <<<"$up") - 2)) ] && echo yes)" yes
expect 'they are many' "$([ "$(wc -w <<<"$up")" -ge 25 ] && echo yes)" yes
expect 'the others are refused' "$(tr ' ' '\n' <<<"${states//ERROR:  /}" | sed '/^$/d' | sort -u)" 08006
expect 'which is no failure of the service' "$(at cell1 'SELECT coalesce(sum(failures), 0) FROM claims.service_state')" 0
active() { as_cell 1 "SELECT count(*) FROM unnest(string_to_array('$saved_names', ' ')) AS name, claims.get_record('ROUTES', name) WHERE status = 'ACTIVE'"; }
expect 'their leases are settled, too' "$(wait_for "$(wc -w <<<"$saved_names")" active)" "$(wc -w <<<"$saved_names")"
expect 'is it free? It is known for names on the other nodes' "$(tell app "SELECT claims.is_available('routes', 'name', '${saved_names%% *}')")" f
expect 'recovery fails' "$(state_as_app 1 "SELECT claims.reconcile(1, 'service')")" 08006
expect 'verification does, too' "$(state_as_app 1 "SELECT claims.verify(1, 'service', 'RAILS_TABLE_ROUTES')")" 08006
at cell1 "SET session_replication_role = replica; INSERT INTO routes (name) SELECT 'late/' || n FROM generate_series(1, 20) n" >/dev/null
state_as_app 1 "$import)" >/dev/null

say 'it is back'
resume worker2
citus_recover
until_recovered
expect 'an import goes on' "$(state_as_app 1 "$import)") $(state)" '00000 finished'
expect 'all is in order' "$(verified 1 '') $(verified 2 '')" '0|0|0|0|t 0|0|0|0|t'
agree 'at the end'
