# A Citus cluster for tests: sourced, never run. Where the PostgreSQL has no Citus the test is skipped.

if [ "$(sql postgres "SELECT count(*) FROM pg_available_extensions WHERE name = 'citus'")" = 0 ]; then
  echo 'skipped: this PostgreSQL does not have Citus'
  exit 77
fi

# citus_cluster WORKERS: a coordinator and that many workers, each with a database `spread`. They reach each other by their sockets,
# so nobody needs a password.
citus_cluster() {
  local number
  CITUS_WORKERS=$1
  start_cluster coordinator --fast -c shared_preload_libraries=citus -c max_prepared_transactions=100 ${CITUS_SETTINGS:-}
  start_database
  sql "SELECT citus_set_coordinator_host('$PGHOST', $PGPORT)" >/dev/null
  for number in $(seq 1 "$1"); do
    start_cluster "worker$number" --fast -c shared_preload_libraries=citus -c max_prepared_transactions=100 ${CITUS_SETTINGS:-}
    start_database
    (
      node="'$PGHOST', $PGPORT"
      on_coordinator
      sql "SELECT citus_add_node($node)" >/dev/null
    )
  done
  on_coordinator
}

start_database() {
  sql postgres "CREATE DATABASE spread ENCODING 'UTF8' TEMPLATE template0" 2>/dev/null
  export PGDATABASE=spread
  sql "CREATE EXTENSION citus" 2>/dev/null
}

on_coordinator() { use_cluster coordinator; export PGDATABASE=spread; }
on_worker() { use_cluster "worker$1"; export PGDATABASE=spread; }

# --- sessions on any node: each reads statements from a pipe, and answers with the result, or the SQLSTATE --------------
declare -A SESSION_IN=() SESSION_OUT=()
open_session() {
  local name=$1
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
