# A Citus cluster for tests: sourced, never run. Where the PostgreSQL has no Citus the test is skipped.
#
#   citus_cluster 2 [-c setting=value]...   a coordinator and two workers, each with the database CITUS_DATABASE, under CITUS_SETTINGS
#   citus_service                           claims on the coordinator, with the cells 1 and 2
#   citus_spread 8                          its tables distributed in eight shards
#   on_coordinator; on_worker 1             later commands use this node; NODES has such a command for each node
#   citus_start worker3; citus_join worker3 one more node
. "$(dirname "${BASH_SOURCE[0]}")/common.bash"

CITUS_DATABASE=${CITUS_DATABASE:-spread}
CITUS_SETTINGS=${CITUS_SETTINGS:-}

claims_bindir
[ -e "$("$CLAIMS_BINDIR/pg_config" --sharedir)/extension/citus.control" ] || skip 'this PostgreSQL does not have Citus'

# They reach each other by their sockets, so no password is needed.
citus_cluster() {
  local number
  NODES=(on_coordinator)
  CITUS_SETTINGS="$CITUS_SETTINGS ${*:2}"
  citus_start coordinator
  sql "SELECT citus_set_coordinator_host('$PGHOST', $PGPORT)" >/dev/null
  for number in $(seq 1 "$1"); do
    citus_start "worker$number"
    citus_join "worker$number"
    NODES+=("on_worker $number")
  done
  on_coordinator
}

# A server with the database, which may be made later, and Citus in it.
# shellcheck disable=SC2086
citus_server() { start_cluster "$1" --fast -c shared_preload_libraries=citus -c max_prepared_transactions=200 $CITUS_SETTINGS; }
citus_database() {
  [ "$(sql postgres "SELECT count(*) FROM pg_database WHERE datname = '$CITUS_DATABASE'")" = 1 ] || sql postgres "CREATE DATABASE $CITUS_DATABASE ENCODING 'UTF8' TEMPLATE template0" 2>/dev/null
  export PGDATABASE=$CITUS_DATABASE
  sql "CREATE EXTENSION citus" 2>/dev/null
}
citus_start() { citus_server "$1"; citus_database; }
citus_join() {
  local place="'${CLUSTER_DIR[$1]}', ${CLUSTER_PORT[$1]}"
  (on_coordinator; PGOPTIONS="-c client_min_messages=error" sql "SELECT citus_add_node($place)" >/dev/null)
}

on_node() { use_cluster "$1"; export PGDATABASE=$CITUS_DATABASE; }
on_coordinator() { on_node coordinator; }
on_worker() { on_node "worker$1"; }

citus_service() {
  on_coordinator
  sql "CREATE EXTENSION claims"
  fresh_roles
  sql "SELECT claims.register_cell(1, 'script_claims_one', 'one', NULL), claims.register_cell(2, 'script_claims_two', 'two', NULL), claims.grant_read('script_claims_router')" >/dev/null
}
citus_spread() { expect 'distributed' "$(sql "SELECT claims.distribute($1, 'a test')" 2>/dev/null)" "$1"; }

# --- what is asked ------------------------------------------------------------------------------------------------------

message() { psql -XqAt -v VERBOSITY=default -c "$1" 2>&1 | sed -n 's/^ERROR:  //p' | head -1; }
# claims_of NAME...: to create, as an argument of begin_update. buckets_of NAME...: to destroy.
claims_of() { local name list=; for name in "$@"; do list="$list${list:+, }$(claim "$name")"; done; printf "'[%s]'" "$list"; }
buckets_of() { local name list=; for name in "$@"; do list="$list${list:+, }$(bucket "$name")"; done; printf "'[%s]'" "$list"; }
# numbered NAME LAST [FIRST]: claims NAME-FIRST to NAME-LAST.
numbered() {
  printf "(SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', '%s-' || n), 'subject', jsonb_build_object('type', 'GROUP', 'id', n), 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', n))) FROM generate_series(%s, %s) n)" "$1" "${3:-1}" "$2"
}
# Parts of commits that wait on a worker for their second phase.
prepared_on() { (on_worker "$1"; sql "SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'citus_%'"); }
# Each node recovers what it has coordinated.
citus_recover() {
  local name
  for name in "${!CLUSTER_PORT[@]}"; do
    case $name in coordinator | worker*) (on_node "$name"; sql 'SELECT recover_prepared_transactions()' >/dev/null) ;; esac
  done
}
settle_all() { sql "SELECT claims.settle_leases(c, '{}', ARRAY(SELECT lease_uuid FROM claims.list_leases(c, max_results => 1000))) FROM unnest('{1,2}'::bigint[]) c" >/dev/null; }
expect_clean() { expect "$1: check() finds nothing" "$(sql "SELECT coalesce(string_agg(problem || ' ' || coalesce(detail, ''), ', '), '-') FROM claims.check()")" -; }

# --- sessions that stay open: each reads statements from a pipe, and answers with the result, or the SQLSTATE ----------

declare -A SESSION_IN=() SESSION_OUT=()
open_session() {
  local name=$1 session_in session_out
  mkfifo "$CLAIMS_TMP/$name.in" "$CLAIMS_TMP/$name.out"
  psql -XqAt -v VERBOSITY=sqlstate <"$CLAIMS_TMP/$name.in" >"$CLAIMS_TMP/$name.out" 2>&1 &
  exec {session_in}>"$CLAIMS_TMP/$name.in" {session_out}<"$CLAIMS_TMP/$name.out"
  SESSION_IN[$name]=$session_in SESSION_OUT[$name]=$session_out
}
ask() {
  local line answer=
  printf '%s;\n\\echo --\n' "$2" >&"${SESSION_IN[$1]}"
  while IFS= read -r -t 30 -u "${SESSION_OUT[$1]}" line && [ "$line" != -- ]; do answer="$answer${answer:+ }$line"; done
  printf '%s\n' "${answer#ERROR:  }"
}

# --- clients that save under load, and record the answers --------------------------------------------------------------

# clients PHASE NODE...: one at each node in the background, until stop_clients. Each records its answers, and each error with its time.
clients() {
  local phase=$1 number=0 node
  shift
  rm -f "$CLAIMS_TMP/stop"
  CLIENTS=()
  for node in "$@"; do
    number=$((number + 1))
    client "$phase" "$number" "$node" &
    CLIENTS+=($!)
  done
}
client() {
  local round=0 save names
  on_node "$3"
  # Without the directory the test has failed, and ended.
  while [ -d "$CLAIMS_TMP" ] && [ ! -e "$CLAIMS_TMP/stop" ]; do
    round=$((round + 1))
    # Twenty saves in one session.
    for save in $(seq 1 20); do
      names=("$1-$2-$round-$save")
      # Every fourth of nine names, in several shards of each node.
      [ $((save % 4)) != 0 ] || names+=("${names[0]}"-{b..i})
      printf "SELECT string_to_table('%s', ' ') FROM (SELECT claims.commit_update(1, claims.begin_update(1, %s)) AS done) x WHERE done;\n" "${names[*]}" "$(claims_of "${names[@]}")"
    done | psql -XqAt -v VERBOSITY=verbose >>"$CLAIMS_TMP/told.$1.$2" 2>>"$CLAIMS_TMP/errors.$1" || sleep 0.2
  done
}
stop_clients() { touch "$CLAIMS_TMP/stop"; wait "${CLIENTS[@]}" || true; }

# judge_clients PHASE SQLSTATES: all acknowledged claims exist, no other errors came, and check() finds nothing.
judge_clients() {
  cat "$CLAIMS_TMP/told.$1".* | LC_ALL=C sort >"$CLAIMS_TMP/told"
  sql "SELECT bucket_value FROM claims.claims WHERE status = 1 AND bucket_value LIKE '$1-%'" | LC_ALL=C sort >"$CLAIMS_TMP/there"
  # Prints the differences.
  LC_ALL=C comm -23 "$CLAIMS_TMP/told" "$CLAIMS_TMP/there" | while read -r name; do sql "SELECT 'not ACTIVE: ' || '$name' || coalesce((SELECT ' status ' || status FROM claims.claims WHERE bucket_value = '$name'), ' is not there')"; done >&2
  expect "$1: all that was told is there" "$(LC_ALL=C comm -23 "$CLAIMS_TMP/told" "$CLAIMS_TMP/there" | head -3)" ''
  expect "$1: something was told" "$([ "$(wc -l <"$CLAIMS_TMP/told")" -gt 50 ] && echo yes)" yes
  # Citus has no SQLSTATE of its own for a node that is gone in the middle of a call.
  expect "$1: errors" "$(grep -vE 'XX000: (server closed the connection|failure on connection marked|could not commit transaction|terminating connection|SSL SYSCALL error)' "$CLAIMS_TMP/errors.$1" | sed -nE 's/.*ERROR:  ([0-9A-Z]{5}).*/\1/p' | sort -u | grep -vE "^($2)$" | tr '\n' ' ')" ''
  settle_all
  expect_clean "$1"
}
