#!/usr/bin/env bash
# The pg_regress files, or the isolation specs, on distributed tables of a Citus cluster:
#   [ON=worker1] [OPTIONS='-c setting=value'] [PART=1/2] tests/citus/regress.sh WORKERS [NAME...]
#   KIND=isolation tests/citus/regress.sh WORKERS [NAME...]
# 0 workers: the coordinator keeps all shards. ON: the node on which the files run, the coordinator if none is named. PART: the first half of
# them, and so on. The sessions of a spec are on different nodes, those that administer on the coordinator; functions and tables that a
# spec makes are on all nodes. Needs a PostgreSQL that has Citus (PG_CONFIG). Each file has a fresh copy of the cluster. Prints a line for
# each; what differs is in target/tests/citus/KIND-ON/NAME.diff.
# differences/KIND/NAME.patch has expected differences, with the reason at its head. excluded.KIND lists tests that are left out, one line each with
# the reason. Workers, which administrators do not use, also leave out those in excluded.KIND.worker.
. "$(dirname "$0")/../scripts/common.bash"
. "$CLAIMS_ROOT/scripts/lib-test.sh"
. "$CLAIMS_ROOT/tests/scripts/citus.bash"
cd "$CLAIMS_ROOT"

[ $# -gt 0 ] || die 'usage: tests/citus/regress.sh WORKERS [NAME...]'
kind=${KIND:-regress}
workers=$1
shift
on=${ON:-coordinator}
own=$CLAIMS_ROOT/tests/citus
out=$CLAIMS_TARGET/tests/citus/$kind-$on${PART:+-${PART%/*}}
rm -rf "$out" && mkdir -p "$out"
copy_regress "$kind"
for difference in "$own/differences/$kind"/*.patch; do
  [ ! -e "$difference" ] || patch -s "$out/$kind/expected/$(basename "$difference" .patch).out" "$difference"
done
chmod -R a+rwX "$out"
export PGISOLATIONTIMEOUT=20

run() {
  PGOPTIONS="-c statement_timeout=60s ${OPTIONS:-}" timeout 300 "$(regress_program "$kind")" --bindir="$CLAIMS_BINDIR" \
    --inputdir="$out/$kind" --outputdir="$out" --dbname="$CITUS_DATABASE" --encoding=UTF8 --host="$PGHOST" --port="$PGPORT" \
    --user=postgres "$launcher" "$@" >"$out/log" 2>&1
}
each_node() {
  local name pid pids=()
  for name in "${nodes[@]}"; do
    "$@" "$name" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
}
keep() { control "$1" stop -m fast && as_server mv "${CLUSTER_DIR[$1]}/data" "${CLUSTER_DIR[$1]}/model"; }
fresh() {
  local dir=${CLUSTER_DIR[$1]}
  [ ! -e "$dir/data" ] || { control "$1" stop -m immediate || true; as_server rm -rf "$dir/data"; }
  as_server cp -a "$dir/model" "$dir/data"
  control "$1" start || { sleep 2; control "$1" start; }
}
reasons() { cat "$own/excluded.$kind" 2>/dev/null; [ "$on" = coordinator ] || cat "$own/excluded.$kind.worker" 2>/dev/null; }
# The helpers that the file `setup` makes for the others.
helpers() {
  case $kind in
    regress) sed -n "/^CREATE SCHEMA t;/,\$p" tests/pg_regress/sql/setup.sql ;;
    isolation) sed -n '/^  CREATE FUNCTION claim(/,/^}/p' tests/isolation/specs/setup.spec | sed '/^}/d' ;;
  esac
}

CITUS_DATABASE=claims_$kind
CITUS_SETTINGS='-c citus.node_conninfo=sslmode=prefer -c citus.max_cached_conns_per_worker=4 -c max_connections=60'
nodes=(coordinator)
launcher=$(regress_launcher "$kind")
[ "$kind" != regress ] || launcher=--launcher=$own/psql
citus_server coordinator
run setup || { cat "$out/regression.diffs"; exit 1; }
citus_database
sql "SELECT citus_set_coordinator_host('$PGHOST', $PGPORT)" >/dev/null
for number in $(seq 1 "$workers"); do
  nodes+=("worker$number")
  citus_start "worker$number"
  citus_join "worker$number"
done
on_coordinator
[ "$workers" != 0 ] || sql "SELECT citus_set_node_property('$PGHOST', $PGPORT, 'shouldhaveshards', true)" >/dev/null
sql "SELECT claims.distribute(4, 'the tests')" >/dev/null 2>&1
# Creates the objects that the file `setup` has made on the coordinator only, outside of Citus.
for name in "${nodes[@]:1}"; do
  on_node "$name"
  # Citus does not know roles that are older than it is in its database.
  for role in regress_claims_one regress_claims_two regress_claims_router regress_claims_nobody regress_claims_admin isolation_claims_one isolation_claims_two; do
    psql -Xq -c "SET citus.enable_ddl_propagation = off" -c "CREATE ROLE $role" 2>/dev/null || true
  done
  psql -Xq -c "SET citus.enable_ddl_propagation = off" -c "GRANT postgres TO regress_claims_admin" 2>/dev/null || true
  psql -Xq -c "SET citus.enable_ddl_propagation = off" -c "ALTER DATABASE $CITUS_DATABASE SET citus.enable_ddl_propagation = off"
  helpers | psql -Xq >"$out/log.setup.$name" 2>&1
done
# Grants go to roles that are there.
on_coordinator
sql 'SELECT claims.refresh_grants()' >/dev/null 2>&1 || true
[ "$kind" != isolation ] || psql -Xq -v ON_ERROR_STOP=1 -f "$own/isolation.sql"
on_node "$on"
each_node keep

if [ "$kind" = isolation ]; then
  # A socket of its own name leads to all nodes, as the file says.
  turns=$(mktemp -d)
  sockets=()
  for name in "${nodes[@]}"; do sockets+=("${CLUSTER_DIR[$name]}/.s.PGSQL.${CLUSTER_PORT[$name]}"); done
  python3 "$own/nodes.py" "$turns/.s.PGSQL.$PGPORT" "$turns/places" "${sockets[@]}" &
  turning=$!
  trap 'kill $turning; rm -rf "$turns"; cleanup' EXIT
  PGHOST=$turns
fi
# The place of each session of a spec: those that administer on the coordinator, the others on one node after the other, workers first.
acts='(register|remove)_cell|(grant|revoke)_[a-z]+|refresh_grants|set_(mode|cell_limits|profile|quarantine)|(un)?reserve_names|(release|purge)_quarantine|hand_over|add_[a-z]+_type|rename_type|force_rollback|release_records|purge_(outcomes|changes)|(prepare|switch|reverse|finish|cancel)_transfer'
places() {
  awk -v nodes="${#nodes[@]}" -v acts="claims[.]($acts)[(]" '
    /^session/ { if (named) put(); named = 1; admin = 0 }
    /^permutation/ { exit }
    $0 ~ acts { admin = 1 }
    END { if (named) put() }
    function put() { printf "%d ", admin ? 0 : (++turn) % nodes }' "$1"
}

names=("$@")
excluded=$(reasons | grep -c . || true)
[ $# != 0 ] || mapfile -t names < <(regress_names "$kind" | grep -vx setup | grep -vxFf <(reasons | sed 's/:.*//') |
  if [ -n "${PART:-}" ]; then awk -v part="${PART%/*}" -v of="${PART#*/}" 'NR % of == part % of'; else cat; fi)
passed=0
for name in "${names[@]}"; do
  each_node fresh
  [ "$kind" != isolation ] || echo "0 $(places "$out/isolation/specs/$name.spec")" >"$turns/places"
  if run --use-existing "$name"; then
    echo "ok      $name"
    passed=$((passed + 1))
  else
    cp "$out/regression.diffs" "$out/$name.diff" 2>/dev/null || cp "$out/log" "$out/$name.diff"
    echo "FAILED  $name ($(grep -c '^[-+]' "$out/$name.diff" || true) lines differ)"
  fi
done
for name in "$out"/*.diff; do [ ! -e "$name" ] || head -n 15 "$name"; done
echo "$passed of ${#names[@]} passed on $on; $excluded are not for spread tables"
[ "$passed" = "${#names[@]}" ]
