# An application of examples/ in two cells: its own tests run in cell 2, and reach the database of cell 1, too. Sourced, never run.
#   start_application                 starts the shared database and the cells, without the application's tables
#   in_each_cell COMMAND...           runs a command in each cell, as the application's role
#   declare_names                     once the tables are there
#   make_alone COMMAND...             makes a single database in cell 2; the command makes its tables, whose codes are unique then
#   test_application COMMAND...       runs the application's tests; the environment is that of the application, and
#                                       OTHER_PGHOST, OTHER_PGPORT   the other cell
#                                       ALONE_PGDATABASE             the single database
#                                       STOP_SERVICE, START_SERVICE  programs that stop and start the shared database
#   context_is_recorded               the service's audit log says which request saved the name context.of.a.request
#   nothing_is_left                   no lease is outstanding, and claims and rows are the same
#   start_saving_by_hand NAME         instead of all these, for an example that calls the service itself
. "$(dirname "${BASH_SOURCE[0]}")/cells.bash"

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
  start_cells -c shared_preload_libraries=claims -c claims.databases=postgres -c claims.breaker_pause=200ms -c claims.audit=settled
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

make_alone() {
  (
    use_cluster cell2
    sql 'CREATE DATABASE alone OWNER app'
    export PGDATABASE=alone
    sql 'CREATE EXTENSION claims'
    ( export PGUSER=app; unset PGPASSWORD; "$@" )
    psql -XqAt -v ON_ERROR_STOP=1 -f "$CLAIMS_ROOT/examples/one_database.sql" >/dev/null
  )
}

test_application() {
  local number
  # The first pass gives a new cell its epoch: a lease that was begun before it is left to recovery.
  for number in 1 2; do
    expect "cell $number has had its first pass" "$(first_pass "$number")" t
  done
  (
    use_cluster cell2
    export PGUSER=app OTHER_PGHOST=${CLUSTER_DIR[cell1]} OTHER_PGPORT=${CLUSTER_PORT[cell1]}
    export ALONE_PGDATABASE=alone STOP_SERVICE=$CLAIMS_TMP/stop_service START_SERVICE=$CLAIMS_TMP/start_service
    unset PGPASSWORD
    "$@"
  )
}

context_is_recorded() {
  expect 'the audit log has the request' \
    "$(at shared "SELECT cell_id, left(context, 23), cell_role FROM claims.audit_log WHERE bucket_values @> '{context.of.a.request}' AND what = 'committed'")" \
    '2|POST /users, request 7f|app'
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

# start_saving_by_hand NAME: makes two databases in the running cluster. NAME_shared is shared, NAME_cell is that of cell 1, with the table of
# examples/users.sql. Exports CELL_ID and the addresses CELL_URL, SHARED_URL and OTHER_URL (the shared database as cell 2).
start_saving_by_hand() {
  local role password address
  password=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
  for role in app one two; do
    role=$1_$role
    sql postgres "DO \$\$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '$role') THEN CREATE ROLE $role; END IF; END \$\$;
      ALTER ROLE $role LOGIN PASSWORD '$password'"
  done
  for database in "$1_shared" "$1_cell"; do
    sql postgres "DROP DATABASE IF EXISTS $database" 2>/dev/null
    sql postgres "CREATE DATABASE $database ENCODING 'UTF8' TEMPLATE template0"
    sql "$database" 'CREATE EXTENSION claims'
  done
  sql "$1_shared" "SELECT claims.register_cell(1, '$1_one', 'one'), claims.register_cell(2, '$1_two', 'two')" >/dev/null
  # The server is only for recovery: the example saves through a connection of its own.
  sql "$1_cell" "SELECT claims.register_cell(1, '$1_app');
    CREATE SERVER claims_service FOREIGN DATA WRAPPER claims_service OPTIONS (host '127.0.0.1', port '$PGPORT', dbname '$1_shared', connect_timeout '20');
    CREATE USER MAPPING FOR CURRENT_USER SERVER claims_service OPTIONS (user '$1_one', password '$password');
    ALTER DATABASE $1_cell SET claims.service_timeout = '20s'" >/dev/null
  PGDATABASE=$1_cell psql -Xq -v ON_ERROR_STOP=1 -f "$CLAIMS_ROOT/examples/users.sql"
  sql "$1_cell" "GRANT SELECT, INSERT, UPDATE, DELETE ON users TO $1_app; GRANT USAGE ON SEQUENCE users_id_seq TO $1_app" >/dev/null
  address=postgresql://127.0.0.1:$PGPORT/$1
  export CELL_ID=1 CELL_URL="${address}_cell?user=$1_app&password=$password"
  export SHARED_URL="${address}_shared?user=$1_one&password=$password" OTHER_URL="${address}_shared?user=$1_two&password=$password"
}
# What a save by hand must leave in its two databases: nothing outstanding, and for each row its two names, no more.
nothing_is_left_by_hand() {
  expect 'nothing is left over' "$(sql "$1_cell" 'SELECT count(*) FROM claims.cells_outstanding_leases') $(sql "$1_shared" 'SELECT count(*) FROM claims.claim_leases') $(sql "$1_shared" 'SELECT count(*) FROM claims.check()')" '0 0 0'
  local rows
  rows=$(sql "$1_cell" "SELECT coalesce(string_agg(name, ' ' ORDER BY name COLLATE \"C\"), '-') FROM (SELECT username FROM users UNION ALL SELECT email FROM users) x (name)")
  expect 'the cell has what it claims, no more, no less' "$rows" "$(sql "$1_shared" "SELECT coalesce(string_agg(bucket_value, ' ' ORDER BY bucket_value), '-') FROM claims.claims WHERE creator_id = 1")"
  # Otherwise the example has tested nothing.
  [ "$rows" != - ] || die 'the cell claims nothing'
}
