#!/usr/bin/env bash
# The pg_regress files on tables that are spread over the nodes of a Citus cluster: [ON=worker1] tests/citus/regress.sh WORKERS [NAME...].
# 0 workers: the coordinator keeps all shards. ON: the node on which the files run, the coordinator if none is named. Needs a
# PostgreSQL that has Citus. Each file has a fresh copy of the cluster. Prints a line for each; what differs is in
# target/tests/citus/ON/NAME.diff.
. "$(dirname "$0")/../../scripts/lib.sh"
. "$CLAIMS_ROOT/scripts/lib-test.sh"
cd "$CLAIMS_ROOT"

workers=$1
shift
on=${ON:-coordinator}
claims_bindir
out=$CLAIMS_TARGET/tests
copy_regress regress
out=$CLAIMS_TARGET/tests/citus/$on
rm -rf "$out" && mkdir -p "$out"
chmod -R a+rwX "$CLAIMS_TARGET/tests/regress"

nodes=(coordinator)
node() {
  start_cluster "$1" --fast -c shared_preload_libraries=citus -c max_prepared_transactions=100 -c citus.node_conninfo=sslmode=prefer \
    -c citus.max_cached_conns_per_worker=4 -c max_connections=60
}
run() {
  PGOPTIONS="-c statement_timeout=60s ${OPTIONS:-}" timeout 300 "$(regress_program regress)" --bindir="$CLAIMS_BINDIR" \
    --inputdir="$CLAIMS_TARGET/tests/regress" --outputdir="$out" --dbname=claims_regress --encoding=UTF8 --host="$PGHOST" --port="$PGPORT" \
    --user=postgres "$@" >"$out/log" 2>&1
}
each_node() {
  local name
  for name in "${nodes[@]}"; do "$@" "${CLUSTER_DIR[$name]}" "${CLUSTER_PORT[$name]}"; done
}
control() { (cd /tmp && as_server "$CLAIMS_BINDIR/pg_ctl" -D "$1/data" "${@:2}" </dev/null >/dev/null 2>&1 3>&- 4>&- 5>&-); }
keep() { control "$1" -m fast -w stop && as_server mv "$1/data" "$1/model"; }
fresh() {
  [ ! -e "$1/data" ] || { control "$1" -m immediate -w stop || true; as_server rm -rf "$1/data"; }
  as_server cp -a "$1/model" "$1/data"
  control "$1" -l "$1/log" -o "-p $2" -w start || { sleep 2; control "$1" -l "$1/log" -o "-p $2" -w start; }
}

node coordinator
run setup || { cat "$out/regression.diffs"; exit 1; }
export PGDATABASE=claims_regress
psql -Xq -c "CREATE EXTENSION citus" 2>/dev/null
sql "SELECT citus_set_coordinator_host('$PGHOST', $PGPORT)" >/dev/null
for number in $(seq 1 "$workers"); do
  nodes+=("worker$number")
  node "worker$number"
  psql -Xq -c "CREATE DATABASE claims_regress ENCODING 'UTF8' TEMPLATE template0" 2>/dev/null
  PGDATABASE=claims_regress psql -Xq -c "CREATE EXTENSION citus" 2>/dev/null
  (
    at="'$PGHOST', $PGPORT"
    use_cluster coordinator
    PGDATABASE=claims_regress sql "SELECT citus_add_node($at)" >/dev/null
  )
  use_cluster coordinator
  export PGDATABASE=claims_regress
done
[ "$workers" != 0 ] || sql "SELECT citus_set_node_property('$PGHOST', $PGPORT, 'shouldhaveshards', true)" >/dev/null
sql "SELECT claims.distribute(4, 'the tests')"
# What the file `setup` has made on the coordinator, and what is no matter of Citus.
for name in "${nodes[@]:1}"; do
  use_cluster "$name"
  export PGDATABASE=claims_regress
  # Citus does not know roles that are older than it is in its database.
  for role in one two router nobody admin; do
    psql -Xq -c "SET citus.enable_ddl_propagation = off" -c "CREATE ROLE regress_claims_$role" 2>/dev/null || true
  done
  psql -Xq -c "SET citus.enable_ddl_propagation = off" -c "GRANT postgres TO regress_claims_admin" 2>/dev/null || true
  psql -Xq -c "SET citus.enable_ddl_propagation = off" -c "ALTER DATABASE claims_regress SET citus.enable_ddl_propagation = off"
  sed -n "/^CREATE SCHEMA t;/,\$p" tests/pg_regress/sql/setup.sql | psql -Xq >"$out/log.setup.$name" 2>&1
done
use_cluster "$on"
export PGDATABASE=claims_regress
each_node keep

names=("$@")
[ $# != 0 ] || mapfile -t names < <(regress_names regress | grep -vx setup)
passed=0
for name in "${names[@]}"; do
  each_node fresh
  if run --use-existing "$name"; then
    echo "ok      $name"
    passed=$((passed + 1))
  else
    cp "$out/regression.diffs" "$out/$name.diff" 2>/dev/null || cp "$out/log" "$out/$name.diff"
    echo "FAILED  $name ($(grep -c '^[-+]' "$out/$name.diff" || true) lines differ)"
  fi
done
echo "$passed of ${#names[@]} passed on $on"
