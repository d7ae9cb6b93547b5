#!/usr/bin/env bash
# The workers of a cell with two services, of which one hangs: all its processes are stopped, before a call and during one. Leases at the other one are
# settled in time. When it answers again, its leases are settled. Nothing outlives what it is for. WORKER_PROMISE_MS is the longest time that settling
# may take beyond that on the idle machine.
# test: timed
# test: long
. "$(dirname "$0")/../cells.bash"

promise=${WORKER_PROMISE_MS:-4000}
start_cells -c shared_preload_libraries=claims -c claims.databases=postgres -c max_logical_replication_workers=0
start_cluster second --fast -c synchronous_commit=on -c log_min_messages=panic
at second "CREATE EXTENSION claims; CREATE ROLE cell1 LOGIN PASSWORD '$CELLS_PASSWORD'; SELECT claims.register_cell(1, 'cell1', 'cell 1')" >/dev/null

# freeze CLUSTER: stops all its processes. It accepts connections (the kernel does), and answers nothing.
declare -A FROZEN=()
freeze() {
  local postmaster pid children
  postmaster=$(head -1 "${CLUSTER_DIR[$1]}/data/postmaster.pid")
  FROZEN[$1]=$postmaster
  kill -STOP "$postmaster"
  wait_until is_stopped "$postmaster"
  children=$( (grep -lE "^PPid:[[:space:]]+$postmaster\$" /proc/[0-9]*/status 2>/dev/null || true) | tr -dc '0-9\n' | tr '\n' ' ')
  FROZEN[$1]="$children $postmaster"
  # shellcheck disable=SC2086
  kill -STOP $children 2>/dev/null || true
  for pid in $children; do wait_until is_stopped "$pid"; done
}
# shellcheck disable=SC2086
thaw() { kill -CONT ${FROZEN[$1]:-} 2>/dev/null || true; FROZEN[$1]=; }
trap 'for name in "${!FROZEN[@]}"; do thaw "$name"; done; for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup' EXIT

reload_with() { at "$1" "ALTER SYSTEM SET $2" && at "$1" 'SELECT pg_reload_conf()' >/dev/null; }
# use_services: cell 1 has two services.
use_services() {
  at cell1 "CREATE SERVER IF NOT EXISTS second FOREIGN DATA WRAPPER claims_service OPTIONS (host '127.0.0.1', port '${CLUSTER_PORT[second]}', dbname 'postgres', connect_timeout '20');
    CREATE USER MAPPING IF NOT EXISTS FOR postgres SERVER second OPTIONS (user 'cell1', password '$CELLS_PASSWORD');
    SELECT claims.automatic(1, 'service'), claims.automatic(1, 'second', '{USERNAMES}')" >/dev/null
}
at cell1 "CREATE TABLE users (id bigint GENERATED ALWAYS AS IDENTITY, name text UNIQUE); GRANT ALL ON users TO app;
  SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'),
         claims.claim_attribute('users', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id')" >/dev/null
workers() { at cell1 "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'claims worker'"; }
table_of() { if [ "$1" = shared ]; then echo routes; else echo users; fi; }
server_of() { if [ "$1" = shared ]; then echo service; else echo second; fi; }
# leaves SERVICE NAME: the statements of a save whose session does not settle its lease.
leaves() { printf "INSERT INTO %s (name) VALUES ('%s'); SELECT claims.begin_pending(1, '%s');" "$(table_of "$1")" "$2" "$(server_of "$1")"; }
is_settled() { [ "$(at "$1" "SELECT status FROM claims.claims WHERE bucket_value = '$2'")" = 1 ]; }
# settles SERVICE TIMES: saves there, and sets slowest to the longest time in ms until the worker had settled one.
number=0
settles() {
  local began took _
  slowest=0
  for _ in $(seq 1 "$2"); do
    number=$((number + 1))
    as_app 1 "BEGIN; $(leaves "$1" "alive-$number") COMMIT" >/dev/null
    began=$(date +%s%3N)
    until is_settled "$1" "alive-$number" || [ $(($(date +%s%3N) - began)) -gt 40000 ]; do sleep 0.02; done
    took=$(($(date +%s%3N) - began))
    [ "$took" -le "$slowest" ] || slowest=$took
    [ "$took" -le 40000 ] || break
  done
}
# in_time WHAT SERVICE TIMES: each save there is settled within the promise.
in_time() {
  settles "$2" "$3"
  echo "$1: the slowest after $slowest ms"
  expect "$1: settled in time" "$([ "$slowest" -le "$longest" ] && echo yes || echo "$slowest ms, of $longest")" yes
}
passed() { at cell1 "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'reconcile' AND sqlstate IS NULL AND service = '$1' AND started_at > '$2'"; }

at cell1 "SELECT claims.automatic(1, 'service')" >/dev/null
expect 'with one service there is one worker' "$(wait_for t passed service -infinity) $(workers)" 't 1'
use_services
expect 'with two there is one for each, and the one of the database' "$(wait_for 3 workers)" 3
expect 'both recover' "$(wait_for t passed service -infinity) $(wait_for t passed second -infinity)" 't t'
# Only commits wake the workers: the next pass is a minute away.
before=$(at cell1 'SELECT clock_timestamp()')
settles shared 3; idle=$slowest
settles second 3; [ "$slowest" -le "$idle" ] || idle=$slowest
expect 'a commit wakes each of them' "$([ "$idle" -le 30000 ] && echo yes || echo "$idle ms")" yes
longest=$((promise + 3 * idle))
reload_with cell1 "claims.reconcile_interval = '1s'"
at cell1 "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE backend_type = 'claims worker'" >/dev/null
expect 'started again, there are three' "$(wait_for 3 workers)" 3
expect 'both recover each second' "$(wait_for t passed service "$before") $(wait_for t passed second "$before")" 't t'
echo "nothing is stopped: the slowest after $idle ms, so the limit is $longest ms"

# --- one service hangs ---------------------------------------------------------------------------------------------------------------

for dead in second shared; do
  alive=$([ $dead = shared ] && echo second || echo shared)

  say "stopped before a call: $dead"
  open app cell1
  tell app "BEGIN; $(leaves $dead "before-$dead") " >/dev/null
  freeze $dead
  tell app COMMIT >/dev/null
  in_time "$dead is stopped" $alive 4
  expect "$dead is stopped: its workers end at once" \
    "$(at cell1 "SELECT string_agg(pg_terminate_backend(pid, 20000)::text, ' ') FROM pg_stat_activity WHERE backend_type = 'claims worker'")" 'true true true'
  expect "$dead is stopped: and begin again" "$(wait_for 3 workers)" 3
  in_time "$dead is stopped, after another start" $alive 4
  # The worker of the database calls no service, so it starts the others at any time.
  at cell1 "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE backend_type = 'claims worker' AND
      backend_start > (SELECT min(backend_start) FROM pg_stat_activity WHERE backend_type = 'claims worker')" >/dev/null
  expect "$dead is stopped: those of the services begin again" "$(wait_for 3 workers)" 3
  in_time "$dead is stopped, and its worker was ended" $alive 2
  before=$(at cell1 'SELECT clock_timestamp()')
  expect "$dead is stopped: recovery at the other one" "$(wait_for t passed "$(server_of $alive)" "$before")" t
  thaw $dead
  expect "$dead answers again: its lease is settled" "$(wait_for t at $dead "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'before-$dead'")" t
  close app
  before=$(at cell1 'SELECT clock_timestamp()')
  expect "$dead answers again: it is recovered" "$(wait_for t passed "$(server_of $dead)" "$before")" t

  say "stopped during a call: $dead"
  open holder $dead postgres
  tell holder 'SELECT pg_advisory_lock(77)' >/dev/null
  at $dead "CREATE FUNCTION held_up() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
      WHILE EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND granted) LOOP PERFORM pg_sleep(0.02); END LOOP; RETURN NULL; END \$\$;
    CREATE TRIGGER held_up BEFORE DELETE ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION held_up()"
  as_app 1 "BEGIN; $(leaves $dead "during-$dead") COMMIT" >/dev/null
  expect "$dead is at work" "$(wait_for t at $dead "SELECT count(*) > 0 FROM pg_stat_activity WHERE usename = 'cell1' AND state = 'active' AND query LIKE '%settle_leases%'")" t
  freeze $dead
  in_time "$dead is stopped at work" $alive 4
  thaw $dead
  tell holder 'SELECT pg_advisory_unlock(77)' >/dev/null; close holder
  expect "$dead answers again: the lease of that call is settled" "$(wait_for t at $dead "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'during-$dead'")" t
  at $dead 'DROP FUNCTION held_up CASCADE' 2>/dev/null
  expect "$dead answers again: and nothing is tracked" "$(wait_for 0 at cell1 'SELECT count(*) FROM claims.cells_outstanding_leases')" 0
  expect "$dead answers again: there are as many workers as before" "$(wait_for 3 workers)" 3
done

# --- workers end with what they are for ---------------------------------------------------------------------------------------------------

say 'a worker is killed, and the server resets itself'
kill -9 "$(at cell1 "SELECT max(pid) FROM pg_stat_activity WHERE backend_type = 'claims worker'")"
expect 'all come back' "$(wait_for 3 workers)" 3
in_time 'after a reset of the server' shared 2

say 'the types have gone to the first service'
at cell1 "SELECT claims.automatic(NULL, NULL, '{USERNAMES}')"
expect 'the worker stays: the service may have leases and claims of the cell' \
  "$(at cell1 "SELECT count(*) FROM claims.attended_cells WHERE service = 'second' AND by_type") $(workers)" '1 3'
at cell1 "SELECT claims.attend(1, NULL), claims.attend(1, 'service')" >/dev/null
expect 'it ends when nobody attends to it any more' "$(wait_for 1 workers)" 1
in_time 'with one service again' shared 2

say 'a foreign server is dropped'
attended() { at cell1 "SELECT coalesce(string_agg(service, ' ' ORDER BY service), '-') FROM claims.attended_cells"; }
problems() { at cell1 "SELECT count(*) FROM claims.check() WHERE problem = 'service does not exist'"; }
use_services
expect 'two services again' "$(wait_for 3 workers)" 3
open app cell1
tell app "BEGIN; $(leaves second dropped)" >/dev/null
at cell1 'DROP SERVER second CASCADE' 2>/dev/null
failed_since() { at cell1 "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'reconcile' AND service = 'second' AND sqlstate IS NOT NULL AND started_at > '$1'"; }
before=$(at cell1 'SELECT clock_timestamp()')
expect 'types go there: passes fail, and check says it' "$(wait_for t failed_since "$before") $(attended) $(problems)" 't second service 2'
tell app COMMIT >/dev/null; close app
at cell1 "SELECT claims.automatic(NULL, NULL, '{USERNAMES}')"
before=$(at cell1 'SELECT clock_timestamp()')
expect 'a lease is tracked there: the service stays' "$(wait_for t failed_since "$before") $(attended) $(problems)" 't second service 1'
expect 'and the lease is an orphan' "$(wait_for 1 at cell1 "SELECT count(*) FROM claims.orphans(1)")" 1
use_services
expect 'made again, it settles the lease' "$(wait_for t at second "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'dropped'") $(wait_for 3 workers)" 't 3'
expect 'which is forgotten' "$(wait_for 0 at cell1 'SELECT count(*) FROM claims.cells_outstanding_leases')" 0
at cell1 "SELECT claims.automatic(NULL, NULL, '{USERNAMES}')"
at cell1 'DROP SERVER second CASCADE' 2>/dev/null
expect 'nothing calls for it any more: the worker forgets it' "$(wait_for service attended) $(problems)" 'service 0'
before=$(at cell1 'SELECT clock_timestamp()')
expect 'and no job fails any more' "$(wait_for t passed service "$before") $(failed_since "$before") $(wait_for 1 workers)" 't f 1'
reload_with cell1 'log_min_messages = warning'
use_services
expect 'two services once more' "$(wait_for 3 workers)" 3
at cell1 "SELECT claims.automatic(NULL, NULL, '{USERNAMES}')"; at cell1 'DROP SERVER second CASCADE' 2>/dev/null
expect 'it is forgotten again' "$(wait_for service attended)" service
said() { cluster_log cell1 | grep -c 'claims worker does not attend to cell 1 at service "second" any more' || true; }
expect 'and said so once' "$(wait_for 1 said)" 1
reload_with cell1 'log_min_messages = panic'

# --- too few processes ----------------------------------------------------------------------------------------------------------------------

say 'the server has no room for workers of services'
use_services
at cell1 'ALTER SYSTEM SET max_worker_processes = 2'; at cell1 "ALTER SYSTEM SET log_min_messages = 'warning'"
halt cell1; resume cell1
expect 'the log says so' "$(wait_for t eval "cluster_log cell1 | grep -q 'there is no claims worker for service \"second\" of database \"postgres\"' && echo t") $(workers)" 't 1'
in_time 'the worker of the database calls the first one' shared 2
in_time 'and the second one' second 2
at cell1 'ALTER SYSTEM RESET max_worker_processes'; at cell1 'ALTER SYSTEM RESET log_min_messages'
halt cell1; resume cell1
expect 'with room there are three again' "$(wait_for 3 workers)" 3

# --- ends while a service hangs ---------------------------------------------------------------------------------------------------------------

# takes SECONDS WHAT COMMAND...: the command succeeds within so many seconds.
takes() {
  local began=$SECONDS limit=$1 what=$2
  shift 2
  "$@" || die "$what failed"
  expect "$what: within $limit s" "$([ $((SECONDS - began)) -le "$limit" ] && echo yes || echo "$((SECONDS - began)) s")" yes
}
in_template() { ( use_cluster cell1; sql template1 "$1" ) }
calls_second() { at cell1 "SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'claims worker' AND state = 'active'"; }
freeze second
expect 'a worker is at work' "$(wait_for t calls_second)" t
takes 20 'a shutdown' halt cell1
resume cell1
expect 'and a start' "$(wait_for 3 workers)" 3
in_time 'started while a service hangs' shared 2
expect 'a worker is at work again' "$(wait_for t calls_second)" t
takes 20 'DROP EXTENSION' at cell1 'SET client_min_messages = error; DROP EXTENSION claims CASCADE'
# The call of that worker ends first.
expect 'without the extension there is the worker of the database' "$(wait_for 1 workers)" 1
at cell1 "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'app');
  CREATE SERVER service FOREIGN DATA WRAPPER claims_service OPTIONS (host '127.0.0.1', port '${CLUSTER_PORT[shared]}', dbname 'postgres', connect_timeout '20');
  CREATE USER MAPPING FOR postgres SERVER service OPTIONS (user 'cell1', password '$CELLS_PASSWORD')" >/dev/null
use_services
expect 'made again' "$(wait_for 3 workers) $(wait_for t calls_second)" '3 t'
takes 20 'DROP DATABASE' in_template 'DROP DATABASE postgres WITH (FORCE)'
expect 'no worker is left' "$(in_template "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'claims worker'")" 0
