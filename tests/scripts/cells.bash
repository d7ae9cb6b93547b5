# Three clusters: `shared` keeps the claims, `cell1` and `cell2` are cells with data of their own. Sourced, never run.
#   start_cells                       starts them; the commands below use the extension's own database in each
#   at shared 'SELECT …'              as the superuser;  as_cell 1 '…' at the service as that cell
#   open NAME cell1; tell NAME '…'    a session of the cell's application that stays open; sends it SQL and prints the answer
#   crash cell1; resume cell1         kill -9 of every process, and the start after it
#   copy_of cell1 NAME; start_copy NAME   a clone of its files, beside it
#   reconcile 1 [STALE_AFTER]         one pass of recovery, as the application's role
#   start_wrong_service               a second service, which answers wrongly
#   agree WHAT                        claims and saved rows are the same, nothing is left over
[ -z "${CELLS_ARE_READ:-}" ] || return 0
CELLS_ARE_READ=yes
. "$(dirname "${BASH_SOURCE[0]}")/common.bash"

# start_shared [-c setting=value]...: the cluster of the service. A test with another kind of service has a function of its own for it.
start_shared() { start_cluster shared --fast "$@"; }

# start_cells [-c setting=value]...: commits survive a crash of the processes, but not of the machine. The cells give the service
# a long time to answer: tests of how long set it themselves.
start_cells() {
  local number
  CELLS_PASSWORD=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
  start_shared -c synchronous_commit=on -c log_min_messages=panic "$@"
  at shared "CREATE EXTENSION claims"
  for number in 1 2; do
    at shared "CREATE ROLE cell$number LOGIN PASSWORD '$CELLS_PASSWORD'; SELECT claims.register_cell($number, 'cell$number', 'cell $number')" >/dev/null
  done
  for number in 1 2; do
    start_cluster "cell$number" --fast -c synchronous_commit=on -c log_min_messages=panic "$@"
    # In cell 2 the extension's owner is no superuser: as the guide has it.
    at "cell$number" "
      CREATE ROLE claims_owner NOLOGIN SUPERUSER; CREATE ROLE app LOGIN;
      $([ $number = 1 ] || echo 'SET ROLE claims_owner;') CREATE EXTENSION claims; RESET ROLE;
      ALTER ROLE claims_owner NOSUPERUSER;
      SELECT claims.register_cell($number, 'app');
      CREATE SERVER service FOREIGN DATA WRAPPER claims_service
        OPTIONS (host '127.0.0.1', port '${CLUSTER_PORT[shared]}', dbname 'postgres', connect_timeout '20');
      ALTER DATABASE postgres SET claims.service_timeout = '20s';
      GRANT USAGE ON FOREIGN SERVER service TO claims_owner;
      CREATE USER MAPPING FOR $([ $number = 1 ] && echo postgres || echo claims_owner)
        SERVER service OPTIONS (user 'cell$number', password '$CELLS_PASSWORD');
      CREATE TABLE routes (id bigint GENERATED ALWAYS AS IDENTITY, name text UNIQUE CHECK (name <> 'forbidden'));
      GRANT SELECT, INSERT, UPDATE, DELETE ON routes TO app" >/dev/null
  done
  trap 'for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup' EXIT
}

at() { ( use_cluster "$1"; sql "$2" ) }
as_cell() { ( use_cluster shared; export PGUSER=cell$1; sql "$2" ) }
as_app() { ( use_cluster "cell$1"; export PGUSER=app; sql "$2" ) }
# The SQLSTATE that a statement ends with.
state_at() { ( use_cluster "$1"; sqlstate "$2" ) }
state_as_cell() { ( use_cluster shared; export PGUSER=cell$1; sqlstate "$2" ) }
state_as_app() { ( use_cluster "cell$1"; export PGUSER=app; sqlstate "$2" ) }

# --- sessions -------------------------------------------------------------------------------------------------------

declare -A SESSION_PID=() SESSION_IN=() SESSION_OUT=()

# open NAME CLUSTER [ROLE]
open() {
  local in=$CLAIMS_TMP/session.$1.in fd
  [ -z "${SESSION_PID[$1]:-}" ] || close "$1"
  rm -f "$in"; mkfifo "$in"; : >"$CLAIMS_TMP/session.$1.out"
  SESSION_OUT[$1]=$CLAIMS_TMP/session.$1.out
  ( leave_sessions; use_cluster "$2"; PGUSER=${3:-app} exec psql -XqAt -v VERBOSITY=sqlstate <"$in" >"${SESSION_OUT[$1]}" 2>&1 ) &
  SESSION_PID[$1]=$!
  exec {fd}>"$in"
  SESSION_IN[$1]=$fd
}

# For a subshell that starts a process: a session ends when no process holds the other end of its input any more.
leave_sessions() { local fd; for fd in "${SESSION_IN[@]}"; do exec {fd}>&-; done; }

# send NAME SQL: sends SQL without waiting; answer NAME: prints the output since, in one line.
send() {
  SESSION_MARK=$(wc -l <"${SESSION_OUT[$1]}")
  printf '%s\n;\\echo done\n' "$2" >&"${SESSION_IN[$1]}"
}
answer() {
  local lines ended looks=0 end=$((SECONDS + WAIT_LIMIT_SECONDS))
  while [ $SECONDS -lt $end ]; do
    # psql ends when it has lost its server, without an answer: then nothing follows what it has written until now.
    ended=no
    [ -e "/proc/${SESSION_PID[$1]}/exe" ] || ended=yes
    mapfile -t -s "$SESSION_MARK" lines <"${SESSION_OUT[$1]}"
    if [ ${#lines[@]} -gt 0 ] && [ "${lines[-1]}" = done ]; then
      unset 'lines[-1]'
      printf '%s\n' "${lines[@]}" | sed '/^$/d' | tr '\n' ' ' | sed 's/ *$//'
      return
    fi
    [ $ended = no ] || break
    pause $((++looks))
  done
  echo 'no answer'
}
tell() { send "$1" "$2"; answer "$1"; }

close() {
  local fd=${SESSION_IN[$1]}
  exec {fd}>&-
  wait "${SESSION_PID[$1]}" 2>/dev/null || true
  unset "SESSION_PID[$1]" "SESSION_IN[$1]" "SESSION_OUT[$1]"
}

# --- clusters that stop and start -----------------------------------------------------------------------------------

# alone: nobody flushes at the service but who commits, until it is started again: not the process that does it for those who have not. It must not
# have the lock that all who flush need: it is stopped while it sleeps.
alone() {
  local walwriter _
  walwriter=$(at shared "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
  for _ in $(seq 1 2000); do
    kill -STOP "$walwriter"
    [ "$(at shared "SELECT wait_event FROM pg_stat_activity WHERE pid = $walwriter")" != WalWriterMain ] || return 0
    kill -CONT "$walwriter"
    sleep 0.01
  done
  die 'the WAL writer does not sleep'
}

# halt NAME [MODE]: an orderly stop. The directory and the port stay.
halt() { control "$1" stop -m "${2:-fast}"; }

# Whether a process is stopped, or there is none; whether it is dead, perhaps not yet buried.
# is_stopped PID: it is stopped, or has ended, be it that its parent has not heard of that yet.
is_stopped() { [ ! -e "/proc/$1/status" ] || grep -q '^State:[[:space:]]*[TZX]' "/proc/$1/status"; }
is_dead() { ! readlink "/proc/$1/exe"; }

# crash NAME: SIGKILL for the postmaster and all that it started.
crash() {
  local postmaster pids pid
  postmaster=$(head -1 "${CLUSTER_DIR[$1]}/data/postmaster.pid")
  # It starts nothing any more: a process that it had started meanwhile would outlive the others, wait for ever for a lock in shared memory that one of
  # them had, and keep the server from being started again.
  kill -STOP "$postmaster" 2>/dev/null || true
  wait_until is_stopped "$postmaster"
  # Processes that end meanwhile make grep complain.
  pids="$postmaster $( (grep -lE "^PPid:[[:space:]]+$postmaster\$" /proc/[0-9]*/status 2>/dev/null || true) | tr -dc '0-9\n' | tr '\n' ' ')"
  # shellcheck disable=SC2086
  kill -9 $pids 2>/dev/null || true
  for pid in $pids; do wait_until is_dead "$pid"; done
  # They name a process that is dead, but perhaps not yet buried: the next one would wait for that.
  rm -f "${CLUSTER_DIR[$1]}/data/postmaster.pid" "${CLUSTER_DIR[$1]}/.s.PGSQL.${CLUSTER_PORT[$1]}"*
}

resume() {
  local _
  for _ in $(seq 1 50); do
    (leave_sessions; control "$1" start) && return
    sleep 0.1
  done
  as_server tail -20 "${CLUSTER_DIR[$1]}/log" >&2
  die "cluster $1 does not start again"
}

# copy_of CLUSTER NAME: a copy of its files, of this moment, that is not started yet.
copy_of() {
  halt "$1"
  new_directory "$2"
  (cd /tmp && as_server cp -a "${CLUSTER_DIR[$1]}/data" "${CLUSTER_DIR[$2]}/data" && as_server rm -f "${CLUSTER_DIR[$2]}/data/postmaster.pid")
  (cd /tmp && as_server sed -i "s|${CLUSTER_DIR[$1]}|${CLUSTER_DIR[$2]}|" "${CLUSTER_DIR[$2]}/data/postgresql.conf")
  resume "$1"
}
start_copy() {
  CLUSTER_PORT[$1]=$(take_port)
  resume "$1"
}
# silent CELL: for the service its database has not acted for 30 seconds. The service itself must be up for as long.
silent() {
  wait_until eval '[ "$(at shared "SELECT clock_timestamp() > pg_postmaster_start_time() + interval '"'30.5 s'"'")" = t ]'
  at shared "UPDATE claims.cell_epochs SET acted_at = clock_timestamp() - interval '31 s' WHERE cell_id = $1"
}

# --- a service that does not answer -----------------------------------------------------------------------------------

# hold_up EVENT: what the service does with leases, INSERT or DELETE, does not end before let_go.
hold_up() {
  open holder shared postgres
  tell holder 'SELECT pg_advisory_lock(77)' >/dev/null
  at shared "CREATE FUNCTION held_up() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
      WHILE EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND granted) LOOP PERFORM pg_sleep(0.02); END LOOP; RETURN NULL; END \$\$;
    CREATE TRIGGER held_up BEFORE $1 ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION held_up()"
}
let_go() { tell holder 'SELECT pg_advisory_unlock(77)' >/dev/null; close holder; at shared 'DROP FUNCTION held_up CASCADE' 2>/dev/null; }

# start_wrong_service: a service that answers as `answers` says (tests/scripts/cell/wrong_service.py), as well as the true one. It writes to
# $CLAIMS_TMP/log what it is asked, and ends with the test.
#   call_wrong_service     from now on cell 1 calls it
#   answers 'CALL HOW'     how it answers; an empty text: not at all wrong
#   connections            how many it has taken
start_wrong_service() {
  mode=$CLAIMS_TMP/mode log=$CLAIMS_TMP/log
  : >"$mode"; : >"$log"
  ( leave_sessions; exec python3 "$CLAIMS_ROOT/tests/scripts/cell/wrong_service.py" "$CLAIMS_TMP/port" "$mode" "$log" ) &
  wrong_service=$!
  trap 'kill "$wrong_service" 2>/dev/null || true; for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup' EXIT
  wait_until test -s "$CLAIMS_TMP/port"
}
call_wrong_service() {
  at cell1 "ALTER SERVER service OPTIONS (SET port '$(cat "$CLAIMS_TMP/port")', ADD sslmode 'disable', ADD gssencmode 'disable')"
}
answers() { echo "$1" >"$mode.new" && mv "$mode.new" "$mode"; }
connections() { grep -c connect "$log" || true; }

# --- the protocol ---------------------------------------------------------------------------------------------------

# begin CELL LEASE NAME [XID]: at the service, a claim to create.
begin() { as_cell "$1" "SELECT claims.begin_update($1, '[$(claim "$3")]', lease_uuid => '$(lease "$2")', cell_xid => $([ -z "${4:-}" ] && echo NULL || echo "'$4'"))" >/dev/null; }
commit() { as_cell "$1" "SELECT claims.commit_update($1, '$(lease "$2")')"; }
outcome() { as_cell "$1" "SELECT coalesce(claims.lease_outcome($1, '$(lease "$2")'), 'unknown')"; }
track() { printf "SELECT claims.track_lease('%s');" "$(lease "$1")"; }
forget() { printf "SELECT claims.forget_leases(ARRAY['%s'::uuid]);" "$(lease "$1")"; }

# save CELL LEASE NAME: the whole protocol up to the local COMMIT, in one go.
save() {
  begin "$1" "$2" "$3"
  as_app "$1" "BEGIN; INSERT INTO routes (name) VALUES ('$3'); $(track "$2") COMMIT" >/dev/null
}

# reconcile CELL [STALE_AFTER] [PAGE]: processed|committed|rolled_back|pending|orphaned
reconcile() { as_app "$1" "SELECT * FROM claims.reconcile($1, 'service', '${2:-10 minutes}', ${3:-100})" 2>>"$CLAIMS_TMP/warnings"; }

saved() { at "cell$1" "SELECT coalesce(string_agg(name, ' ' ORDER BY name COLLATE \"C\"), '-') FROM routes"; }
claimed() { at shared "SELECT coalesce(string_agg(bucket_value || CASE status WHEN 1 THEN '' ELSE '*' END, ' ' ORDER BY bucket_value), '-') FROM claims.claims WHERE creator_id = $1"; }
tracked() { at "cell$1" "SELECT coalesce(string_agg(ltrim(right(uuid::text, 12), '0'), ' ' ORDER BY uuid), '-') FROM claims.cells_outstanding_leases"; }
fences() { at "cell$1" "SELECT count(*) FROM claims.lease_fences"; }

# first_pass NUMBER: t, once recovery of a cell has had its first pass.
first_pass() { wait_for t at "cell$1" "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'reconcile' AND sqlstate IS NULL"; }

# settled: soon, when nothing is outstanding at the service any more; or never.
settled() { if [ "$(wait_for 0 at shared 'SELECT count(*) FROM claims.claim_leases')" = 0 ]; then echo soon; else echo never; fi; }

agree() {
  local number
  for number in 1 2; do
    expect "$1: cell $number has what it claims, no more, no less" "$(saved $number)" "$(claimed $number)"
    expect "$1: cell $number tracks nothing any more" "$(tracked $number)" -
  done
  expect "$1: no name is in both cells" "$(comm -12 <(saved 1 | tr ' ' '\n' | grep -v '^-$' | sort) <(saved 2 | tr ' ' '\n' | grep -v '^-$' | sort))" ''
  expect "$1: no lease is outstanding" "$(at shared 'SELECT count(*) FROM claims.claim_leases')" 0
  expect "$1: check" "$(at shared "SELECT count(*) FROM claims.check() WHERE problem <> 'table is not as the extension has created it'")" 0
}

# start_second_service [-c SETTING]...: a service beside the first one for the first cell, which claims names of `users` there.
start_second_service() {
  start_cluster second --fast -c synchronous_commit=on -c log_min_messages=panic "$@"
  at second "CREATE EXTENSION claims; CREATE ROLE cell1 LOGIN PASSWORD '$CELLS_PASSWORD'; SELECT claims.register_cell(1, 'cell1', 'cell 1')" >/dev/null
  at cell1 "
    CREATE SERVER second FOREIGN DATA WRAPPER claims_service OPTIONS (host '127.0.0.1', port '${CLUSTER_PORT[second]}', dbname 'postgres', connect_timeout '20');
    CREATE USER MAPPING FOR postgres SERVER second OPTIONS (user 'cell1', password '$CELLS_PASSWORD');
    CREATE TABLE users (id bigint GENERATED ALWAYS AS IDENTITY, name text UNIQUE); GRANT ALL ON users TO app;
    SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'),
           claims.claim_attribute('users', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id'),
           claims.automatic(1, 'service'), claims.automatic(1, 'second', '{USERNAMES}')" >/dev/null
}
