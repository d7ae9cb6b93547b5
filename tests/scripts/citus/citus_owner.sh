#!/usr/bin/env bash
# A Citus cluster whose extension belongs to a role that is no superuser, as operations.md recommends. Citus creates the extension on a node that
# is added, as Citus's own superuser: the calls that fail because of it and check() report that, and a superuser's refresh_grants() or distribute()
# corrects it. Then nodes are added, shards move, and nodes are emptied and taken away, while cells save. A repair by hand, in one
# transaction that ends in check(), is made as the owner.
. "$(dirname "$0")/../citus.bash"

citus_cluster 1 -c wal_level=logical
sql 'CREATE ROLE script_claims_owner LOGIN SUPERUSER'
PGUSER=script_claims_owner sql 'CREATE EXTENSION claims'
fresh_roles
sql 'ALTER ROLE script_claims_owner NOSUPERUSER'
sql 'CREATE ROLE script_claims_admin LOGIN IN ROLE script_claims_owner'
as_admin() { PGUSER=script_claims_admin sql "$@"; }
as_one() { PGUSER=script_claims_one PGOPTIONS="-c client_min_messages=warning" psql -XqAt -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate -c "$1" 2>&1 | sed 's/^ERROR:  //'; }
# said USER STATEMENT: SQLSTATE, message, DETAIL and HINT of its error, with the names of nodes for their addresses.
said() { PGUSER=$1 psql -XqAt -v VERBOSITY=verbose -c "$2" 2>&1 | sed -nE 's/^(ERROR|DETAIL|HINT): +//p' | sed -E 's/[^ ]*claims-(worker[0-9])[^ ]*/\1/'; }
foreign() {
  printf '%s\n' '55000: claims belongs to another role on a node' "On node $1 its objects belong to \"postgres\", here to \"script_claims_owner\"." \
    'As a superuser call claims.refresh_grants(), or claims.distribute() where that was not called yet: it gives the objects to their owner.'
}
problems() { sql "SELECT coalesce(string_agg(problem || ': ' || regexp_replace(detail, '[^ ]*claims-(worker[0-9])[^ ]*', '\1'), '; '), '-') FROM claims.check()"; }
# The owners of all objects of the extension, on the node in use.
owners() {
  sql "SELECT md5(string_agg(i.type || i.identity || x.owner::regrole, ',' ORDER BY i.type, i.identity COLLATE \"C\")) || ' ' || count(*) FILTER (WHERE x.owner = 10)
         FROM pg_depend d CROSS JOIN pg_identify_object(d.classid, d.objid, 0) i
         LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
         LEFT JOIN pg_type t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid LEFT JOIN pg_namespace n ON d.classid = 'pg_namespace'::regclass AND n.oid = d.objid
         LEFT JOIN pg_foreign_data_wrapper w ON d.classid = 'pg_foreign_data_wrapper'::regclass AND w.oid = d.objid
        CROSS JOIN LATERAL (SELECT coalesce(c.relowner, p.proowner, t.typowner, n.nspowner, w.fdwowner) AS owner) x
        WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'claims')"
}
# Those that functions of claims are called by, and that relations are read by.
grants() {
  sql "SELECT md5(string_agg(a, ',' ORDER BY a COLLATE \"C\")) FROM (
         SELECT p.oid::regprocedure || x.grantor::regrole::text || x.grantee::regrole || x.privilege_type FROM pg_proc p, aclexplode(p.proacl) x WHERE p.pronamespace = 'claims'::regnamespace
         UNION ALL SELECT c.relname || x.grantor::regrole || x.grantee::regrole || x.privilege_type FROM pg_class c, aclexplode(c.relacl) x
          WHERE c.relnamespace = 'claims'::regnamespace AND c.relname !~ '_[0-9]+\$') g (a)"
}
same_everywhere() {
  local node owners grants
  on_coordinator
  owners=$(owners) grants=$(grants)
  for node in "$@"; do
    expect "$node: owners are as on the coordinator" "$(on_node "$node"; owners)" "$owners"
    expect "$node: grants are as on the coordinator" "$(on_node "$node"; grants)" "$grants"
  done
}
saves_on() {
  on_node "$1"
  expect "a cell saves on $1, $2" "$(as_one "SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of "on-$1-$2"{,-b,-c,-d,-e,-f,-g,-h})))")" t
  on_coordinator
}
address() { printf "'%s', %s" "${CLUSTER_DIR[$1]}" "${CLUSTER_PORT[$1]}"; }
shards_on() { sql "SELECT count(*) FROM pg_dist_shard s JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node n USING (groupid) WHERE s.logicalrelid = 'claims.claims'::regclass AND n.nodeport = ${CLUSTER_PORT[$1]}"; }
rebalance() {
  local state=
  sql 'SELECT citus_rebalance_start()' >/dev/null 2>&1
  for _ in $(seq 1 600); do
    state=$(sql 'SELECT state FROM citus_rebalance_status() ORDER BY job_id DESC LIMIT 1')
    case $state in finished | failed | cancelled) break ;; esac
    sleep 0.2
  done
  expect "$1: shards are rebalanced" "$state" finished
}

# --- a node that comes before distribute() ------------------------------------------------------------------------------------------
sql "SELECT claims.register_cell(1, 'script_claims_one'), claims.register_cell(2, 'script_claims_two'), claims.grant_read('script_claims_router')" >/dev/null
citus_start worker2
citus_join worker2
on_coordinator
expect 'distribute() by an administrator names the node' "$(said script_claims_admin "SELECT claims.distribute(6, 'a test')")" "$(foreign worker2)"
expect 'nothing is distributed' "$(sql 'SELECT distributed FROM claims.version()')" f
expect 'distribute() by a superuser' "$(sql "SELECT claims.distribute(6, 'a test')" 2>/dev/null)" 6
same_everywhere worker1 worker2
expect 'check()' "$(problems)" -
for node in coordinator worker1 worker2; do saves_on "$node" distributed; done

# --- one that comes after ---------------------------------------------------------------------------------------------------------------
clients add coordinator worker1 worker2
sleep 1
citus_start worker3
citus_join worker3
on_coordinator
expect 'check() names the node' "$(problems)" 'objects on a node belong to another role: On node worker3 they belong to postgres, on the coordinator to script_claims_owner.'
expect 'on another node, too' "$(on_worker 1; problems)" 'objects on a node belong to another role: On node worker3 they belong to postgres, on the coordinator to script_claims_owner.'
for call in 'claims.refresh_grants()' "claims.add_bucket_type(100, 'HANDLES', 'casefold', 'reject')" "claims.rename_type('bucket', 1, 'ROUTES_2')" \
  "claims.set_profile('ROUTES', 'casefold', 'a test', dry_run => false)" "claims.register_cell(3, 'script_claims_two')" "claims.grant_monitor('script_claims_router')"; do
  expect "by an administrator: $call" "$(said script_claims_admin "SELECT $call")" "$(foreign worker3)"
done
expect 'by a superuser: add_bucket_type()' "$(said postgres "SELECT claims.add_bucket_type(100, 'HANDLES', 'casefold', 'reject')")" "$(foreign worker3)"
saves_on worker1 'beside it'
# A transaction on the node that takes one table after the other, as calls do: refresh_grants() waits for it with no lock on another table.
on_worker 3
open_session reader
expect 'a transaction on the node' "$(ask reader 'SET citus.enable_ddl_propagation = off'; ask reader 'BEGIN'; ask reader 'LOCK TABLE claims.audiences IN ACCESS SHARE MODE')" ''
on_coordinator
sqlstate 'SELECT claims.refresh_grants()' >"$CLAIMS_TMP/mended" &
mending=$!
expect 'a superuser waits for it' "$(on_worker 3; wait_for 1 sql "SELECT count(*) FROM pg_locks WHERE relation = 'claims.audiences'::regclass AND NOT granted")" 1
expect 'it goes on' "$(ask reader "DO \$\$ DECLARE t regclass; BEGIN FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'claims'::regnamespace AND relkind = 'r' LOOP EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE', t); END LOOP; END \$\$"; ask reader COMMIT)" ''
wait $mending
expect 'a superuser mends it' "$(cat "$CLAIMS_TMP/mended")" 00000
expect 'check()' "$(problems)" -
same_everywhere worker1 worker2 worker3
expect 'nothing is left to be done' "$(PGUSER=script_claims_admin sqlstate 'SELECT claims.refresh_grants()')" 00000
expect 'a type' "$(as_admin "SELECT claims.add_bucket_type(100, 'HANDLES', 'casefold', 'reject')"; on_worker 3; sql "SELECT count(*) FROM claims.list_types() WHERE name = 'HANDLES'")" $'\n1'
saves_on worker3 added
rebalance 'after it was added'
expect 'it has shards' "$(shards_on worker3)" 2
stop_clients
judge_clients add '55P03|55000|40P01|40001'
expect 'what runs with the rights of others is not its own' "$(on_worker 3; PGUSER=script_claims_owner sqlstate 'ALTER FUNCTION claims.complete_triggers() RENAME TO x') $(on_worker 3; PGUSER=script_claims_owner sqlstate 'ALTER FUNCTION claims.refuse_unrecorded_truncate() RENAME TO x')" '42501 42501'

# --- a node goes -----------------------------------------------------------------------------------------------------------------------------
clients drain coordinator worker2 worker3
sleep 1
for way in block_writes force_logical; do
  node=worker1
  [ $way = block_writes ] || node=worker2
  expect "$node is emptied by $way" "$(sql "SELECT 'emptied' FROM (SELECT citus_drain_node($(address $node), '$way')) x" 2>&1 | tail -1)" emptied
  expect "no shard is on $node" "$(shards_on $node)" 0
done
sql "SELECT citus_remove_node($(address worker1))" >/dev/null
sleep 1
stop_clients
judge_clients drain '55P03|55000|40P01|40001'
saves_on worker3 'all alone'

# --- an owner that was a superuser when the node came ----------------------------------------------------------------------------------------
sql 'ALTER ROLE script_claims_owner SUPERUSER'
citus_start worker4
citus_join worker4
on_coordinator
expect 'check() tells it before it matters' "$(problems)" 'objects on a node belong to another role: On node worker4 they belong to postgres, on the coordinator to script_claims_owner.'
sql 'SELECT replicate_reference_tables()' >/dev/null
rebalance 'by a superuser'
expect 'it has shards' "$([ "$(shards_on worker4)" -gt 0 ] && echo yes)" yes
sql 'ALTER ROLE script_claims_owner NOSUPERUSER'
sql 'SELECT claims.refresh_grants()'
same_everywhere worker2 worker3 worker4
saves_on worker4 'with shards'
expect 'worker3 is emptied' "$(sql "SELECT 'emptied' FROM (SELECT citus_drain_node($(address worker3))) x" 2>&1 | tail -1)" emptied
sql "SELECT citus_remove_node($(address worker3))" >/dev/null
saves_on worker4 'without worker3'
expect 'check() on the coordinator' "$(problems)" -

# --- a role that was made in another database ---------------------------------------------------------------------------------------------------
# Citus does not know it, and does not create it on other nodes.
sql postgres 'CREATE ROLE script_claims_elsewhere LOGIN'
expect 'is refused, and the node is named' "$(said postgres "SELECT claims.register_cell(3, 'script_claims_elsewhere')" | sed -n '1p;2s/ERROR:.*//p;3p')" \
  $'55000: another node has not done its part\nNode worker2 \nCall the function again when it can be done there: it is safe to repeat. A role that is missing there must be created first.'
for node in worker2 worker4; do (on_node "$node"; psql -Xq -c 'SET citus.enable_ddl_propagation = off' -c 'CREATE ROLE script_claims_elsewhere LOGIN'); done
expect 'until it was created there' "$(sqlstate "SELECT claims.register_cell(3, 'script_claims_elsewhere')")" 00000
citus_start worker5
citus_join worker5
on_coordinator
expect 'nor on a node that comes' "$(said postgres 'SELECT claims.refresh_grants()' | sed -n '2s/ERROR:.*//p')" 'Node worker5 '
(on_node worker5; psql -Xq -c 'SET citus.enable_ddl_propagation = off' -c 'CREATE ROLE script_claims_elsewhere LOGIN')
expect 'until it was created there, too' "$(sqlstate 'SELECT claims.refresh_grants()')" 00000
same_everywhere worker2 worker4 worker5

# --- a repair by hand ---------------------------------------------------------------------------------------------------------------------------------
settle_all
sql "UPDATE claims.claims SET status = 2 WHERE bucket_value = 'on-worker4-with shards'"
expect 'a violation' "$(problems | sed 's/:.*//')" 'status and lease do not agree'
uuid=$(sql "SELECT uuid FROM claims.claims WHERE bucket_value = 'on-worker4-with shards'")
repair() {
  psql -XqAt -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate -c BEGIN "$@" -c "UPDATE claims.claims SET status = 1, lease_uuid = NULL, updated_at = now() WHERE uuid = '$uuid'" \
    -c "SELECT count(*) FROM claims.check()" -c COMMIT 2>&1
}
expect 'a repair that ends in check(), as another superuser' "$(repair)" 'ERROR:  25001'
expect 'as the owner' "$(repair -c 'SET LOCAL ROLE script_claims_owner')" 0
expect_clean 'after the repair'
echo ok
