# An application of examples/ in two cells: its own tests run in cell 2, and reach the database of cell 1, too. Sourced, never run.
#   start_application                 starts the shared database and the cells, without the application's tables
#   in_each_cell COMMAND...           runs a command in each cell, as the application's role
#   declare_names                     once the tables are there
#   test_application COMMAND...       runs the application's tests; the environment is that of the application, and
#                                       OTHER_PGHOST, OTHER_PGPORT   the other cell
#                                       STOP_SERVICE, START_SERVICE  programs that stop and start the shared database
#   nothing_is_left                   no lease is outstanding, and claims and rows are the same
. "$(dirname "${BASH_SOURCE[0]}")/cells.bash"

# skip REASON
skip() { echo "skipped: $1"; exit 77; }

# Debian's own, which has the modules of Debian's packages.
PYTHON=/usr/bin/python3
# needs_python MODULE...: the test is skipped where one is missing.
needs_python() {
  local module
  for module in "$@"; do
    "$PYTHON" -c "import $module" 2>/dev/null || skip "$PYTHON has no module $module"
  done
  export PYTHONDONTWRITEBYTECODE=1
}

start_application() {
  local number
  start_cells -c shared_preload_libraries=claims -c claims.databases=postgres -c claims.breaker_pause=200ms
  for number in 1 2; do
    # A question of a form waits longer than anybody would in a browser, so that a busy machine does not lose the answer.
    at "cell$number" "DROP TABLE routes; GRANT CREATE ON SCHEMA public TO app; ALTER SERVER service RENAME TO claims_service;
      ALTER DATABASE postgres SET claims.observe_timeout = '20s'"
  done
  as_program "$CLAIMS_TMP/stop_service" stop -m fast
  as_program "$CLAIMS_TMP/start_service" start -l "${CLUSTER_DIR[shared]}/log" -o "-p ${CLUSTER_PORT[shared]}" -t 60
}

# as_program FILE ARGUMENT...: a program that runs pg_ctl for the shared database.
as_program() {
  local file=$1 command=()
  shift
  [ "$(id -u)" != 0 ] || command=(runuser -u "$SERVER_USER" --)
  command+=("$CLAIMS_BINDIR/pg_ctl" -D "${CLUSTER_DIR[shared]}/data" -w "$@")
  printf '#!/bin/sh\ncd /tmp && exec %s </dev/null >/dev/null 2>&1\n' "$(printf '%q ' "${command[@]}")" >"$file"
  chmod +x "$file"
}

in_each_cell() {
  local number
  for number in 1 2; do ( use_cluster "cell$number"; export PGUSER=app; unset PGPASSWORD; "$@" ) || die "cell $number: $* failed"; done
}
make_tables() { psql -Xq -v ON_ERROR_STOP=1 -f "$CLAIMS_ROOT/examples/schema.sql"; }

declare_names() {
  local number
  for number in 1 2; do
    ( use_cluster "cell$number"; psql -XqAt -v ON_ERROR_STOP=1 -v cell="$number" -f "$CLAIMS_ROOT/examples/claims.sql" >/dev/null )
  done
}

test_application() {
  (
    use_cluster cell2
    export PGUSER=app OTHER_PGHOST=${CLUSTER_DIR[cell1]} OTHER_PGPORT=${CLUSTER_PORT[cell1]}
    export STOP_SERVICE=$CLAIMS_TMP/stop_service START_SERVICE=$CLAIMS_TMP/start_service
    unset PGPASSWORD
    "$@"
  )
}

outstanding() { { for n in 1 2; do at "cell$n" 'SELECT count(*) FROM claims.cells_outstanding_leases'; done; at shared 'SELECT count(*) FROM claims.claim_leases'; } | tr '\n' ' '; }
rows_of() {
  at "cell$1" "SELECT coalesce(string_agg(v, ' ' ORDER BY v COLLATE \"C\"), '-') FROM
    (SELECT username FROM users UNION ALL SELECT email FROM emails WHERE confirmed UNION ALL SELECT path FROM routes) x (v)"
}
nothing_is_left() {
  local number
  expect 'nothing is left over' "$(wait_for '0 0 0 ' outstanding) $(at shared 'SELECT count(*) FROM claims.check()')" '0 0 0  0'
  for number in 1 2; do
    expect "cell $number has what it claims, no more, no less" "$(rows_of $number)" "$(claimed $number)"
    # Otherwise the application has tested nothing.
    [ "$(claimed $number)" != - ] || die "cell $number claims nothing"
  done
}
