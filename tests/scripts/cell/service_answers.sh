#!/usr/bin/env bash
# A service that answers wrongly (wrong_service.py): a call accepts only a correct answer and otherwise fails, a wait ends in time and obeys cancels
# and shutdowns, and memory is bounded.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims
start_wrong_service
call_wrong_service
# No breaker in this test, except where the test sets it.
at cell1 "ALTER DATABASE postgres SET claims.service_timeout = '60s'; ALTER DATABASE postgres SET claims.breaker_failures = 0;
  SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic(1, 'service')" >/dev/null
# A trigger records every change of the cell's rows.
at cell1 "CREATE TABLE changed (what text, by name DEFAULT session_user);
  CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN INSERT INTO changed VALUES (TG_OP); RETURN NULL; END';
  CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON routes FOR EACH STATEMENT EXECUTE FUNCTION note()" >/dev/null
save_name() { tell app "INSERT INTO routes (name) VALUES ('$1')"; }
now_ms() { date +%s%3N; }
open app cell1
expect 'the right answers' "$(save_name right)$(save_name right2)$(connections)" 1

say 'wrong answers to a begin'
# Each call with each wrong answer, over a connection of its own.
wrong() {
  local call=$1 kind before
  shift
  for kind in "$@"; do
    answers "$call $kind"
    # A session of its own: every 51st commit of a session goes with all before it, by another call.
    [ "$call" = begin ] || { answers 'nothing'; open app cell1; save_name "before-$call-$kind" >/dev/null; answers "$call $kind"; save_name "settled-$call-$kind" >/dev/null; }
    before=$(connections)
    expect "$call: $kind" "$(save_name "lost-$call-$kind")" 'ERROR:  08P01'
    answers 'nothing'
    expect "$call: $kind: the connection is closed" "$(save_name "good-$call-$kind")$(($(connections) - before))" 1
  done
}
ANSWERS='no_row no_description one_more_row wide narrow null words zero_byte no_utf8 only_complete empty_query nothing early_end twice complete_twice end_twice
  row_behind surplus unknown_kind bad_length short_description copy_in copy_out copy_both copy_flood no_sqlstate no_real_sqlstate successful_error warning no_data two_errors rows large_rows'
wrong begin $ANSWERS other_lease no_process in_transaction in_failed_transaction
expect 'nothing was saved without a lease' "$(at cell1 "SELECT count(*) FROM routes WHERE name LIKE 'lost-%'")" 0
expect 'what was not is tracked nowhere' "$(at cell1 "SELECT count(*) FROM claims.cells_outstanding_leases WHERE uuid = '00000000-0000-4000-8000-000000000001'")" 0

answers 'begin late_end'
expect 'begin: what comes behind the answer later' "$(tell app "BEGIN; INSERT INTO routes (name) VALUES ('early'); SET CONSTRAINTS ALL IMMEDIATE; SELECT pg_sleep(1); COMMIT" | tr -d ' ')$(answers nothing)" ''
expect 'is not taken for an answer to the next call' "$(save_name late)" 'ERROR:  08P01'

answers 'begin ended'
expect 'begin: a session that is ended while it refuses is a lost connection' "$(save_name ended)" 'ERROR:  08001'

say 'wrong answers to what is sent after a COMMIT'
wrong settle $ANSWERS

say 'what an error says'
answers 'begin no_row'
said=$( (use_cluster cell1; PGUSER=app psql -XqAt -v VERBOSITY=verbose -c "INSERT INTO routes (name) VALUES ('told')") 2>&1 | grep -vE '^LOCATION' || true)
expect 'message, DETAIL and HINT' "$said" 'ERROR:  08P01: answer of claims service "service" is not what was asked for
DETAIL:  It has 0 rows instead of 1.
HINT:  The connection is closed, and nothing counts as done. Check that the server leads to a database with extension claims, of the same version as here or a newer one.'
answers 'begin odd_error'
said=$( (use_cluster cell1; PGUSER=app psql -XqAt -v VERBOSITY=verbose -c "INSERT INTO routes (name) VALUES ('told')") 2>&1 | grep -vE '^LOCATION' || true)
expect 'an error of the service keeps its SQLSTATE, whatever it is, and says where it is from' "$said" 'ERROR:  ZZ9ZZ: no
CONTEXT:  error of claims service "service"'
expect 'for handlers, too' "$(as_app 1 "CREATE FUNCTION pg_temp.told() RETURNS text LANGUAGE plpgsql AS \$\$ DECLARE said text; BEGIN
    INSERT INTO routes (name) VALUES ('told'); PERFORM claims.begin_pending(1, 'service'); RETURN 'nothing';
    EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS said = PG_EXCEPTION_CONTEXT; RETURN SQLSTATE || ' ' || split_part(said, E'\n', 1); END \$\$; SELECT pg_temp.told()")" \
  'ZZ9ZZ error of claims service "service"'
expect 'and nobody else'\''s error' "$(as_app 1 "CREATE FUNCTION pg_temp.told() RETURNS text LANGUAGE plpgsql AS \$\$ DECLARE said text; BEGIN
    BEGIN INSERT INTO routes (name) VALUES ('told'); PERFORM claims.begin_pending(1, 'service'); EXCEPTION WHEN OTHERS THEN NULL; END;
    RAISE EXCEPTION 'mine' USING ERRCODE = 'ZZ9ZZ'; EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS said = PG_EXCEPTION_CONTEXT; RETURN said; END \$\$; SELECT pg_temp.told() LIKE 'PL/pgSQL%'")" t

say 'wrong answers to recovery'
reconciled() { tell app "SELECT * FROM claims.reconcile(1, 'service')"; }
answers 'nothing'
expect 'the right ones' "$(reconciled | cut -d'|' -f 4-)" '0|0'
for call in epoch list; do
  for kind in no_description wide narrow only_complete empty_query nothing early_end twice complete_twice end_twice row_behind surplus unknown_kind bad_length \
    copy_in copy_out copy_both copy_flood no_sqlstate rows large_rows; do
    answers "$call $kind"
    expect "$call: $kind" "$(reconciled)" 'ERROR:  08P01'
  done
done
for kind in no_row one_more_row other_lease null words copy_out rows; do
  answers "outcomes $kind"
  at cell1 "INSERT INTO claims.cells_outstanding_leases (uuid, cell_id) SELECT gen_random_uuid(), 1 WHERE NOT EXISTS (SELECT FROM claims.cells_outstanding_leases)"
  expect "outcomes: $kind" "$(reconciled) $(at cell1 'SELECT count(*) FROM claims.cells_outstanding_leases')" 'ERROR:  08P01 1'
done

say 'an end to every wait'
# A cancelled session continues; a terminated one ends. Without the cancel, the limit and the shutdown each wait would take 60 seconds.
SOON_MS=30000
soon() { [ $(($(now_ms) - $1)) -lt $SOON_MS ] && echo soon; }
endless() {
  local call=$1 kind pid at
  shift
  for kind in "$@"; do
    answers "$call $kind"
    [ "$call" != connect ] || { close app; open app cell1; }
    pid=$(tell app 'SELECT pg_backend_pid()')
    send app "INSERT INTO routes (name) VALUES ('endless')"
    sleep 0.7
    at=$(now_ms)
    at cell1 "SELECT pg_cancel_backend($pid)" >/dev/null
    expect "$call: $kind: a cancel" "$(answer app) $(soon "$at")" 'ERROR:  57014 soon'
    tell app 'SET claims.service_timeout = 500' >/dev/null
    at=$(now_ms)
    [ "$call" = connect ] || expect "$call: $kind: a limit" "$(save_name endless) $(soon "$at")" 'ERROR:  57014 soon'
    tell app "SET claims.service_timeout = '60s'" >/dev/null
    send app "INSERT INTO routes (name) VALUES ('endless')"
    sleep 0.7
    expect "$call: $kind: a shutdown" "$(at cell1 "SELECT pg_terminate_backend($pid, $SOON_MS)")" t
    open app cell1
  done
}
endless begin notices parameters notifications half silence
endless connect notices half silence
answers 'connect silence'
at cell1 "ALTER SERVER service OPTIONS (SET connect_timeout '1')"
for kind in passwords notices half silence; do
  answers "connect $kind"
  at=$(now_ms)
  expect "connect: $kind: a limit" "$(save_name endless) $(soon "$at")" 'ERROR:  08001 soon'
done

say 'a connection within a transaction'
at cell1 "ALTER SERVER service OPTIONS (SET connect_timeout '60')"
answers 'connect in_transaction'
open app cell1
expect 'is none' "$(save_name in-transaction)" 'ERROR:  08P01'

say 'a computation without an end'
# The service asks for two billion iterations of SCRAM: libpq computes for an hour, and looks at nothing meanwhile.
at cell1 "ALTER USER MAPPING FOR postgres SERVER service OPTIONS (SET password 'a password')"
threads() { ls "/proc/$1/task" | wc -l; }
# Whether a thread of a process beside the first one has used CPU for a twentieth of a second.
computes() {
  local task
  for task in "/proc/$1/task"/*; do
    [ "${task##*/}" = "$1" ] || sed 's/.*) //' "$task/stat" | awk '$12 > 5 { print "yes" }'
  done
}
answers 'connect iterations_2147483647'
open app cell1
pid=$(tell app 'SELECT pg_backend_pid()')
send app "INSERT INTO routes (name) VALUES ('computed')"
expect 'another thread computes' "$(wait_for yes computes "$pid")" yes
at=$(now_ms)
at cell1 "SELECT pg_cancel_backend($pid)" >/dev/null
expect 'a cancel' "$(answer app) $(soon "$at")" 'ERROR:  57014 soon'
answers nothing
expect 'is left behind' "$(threads "$pid")" 2
told=$(tell app "\\set VERBOSITY verbose
INSERT INTO routes (name) VALUES ('computed')
;\\set VERBOSITY sqlstate")
expect 'the session does not call the service meanwhile, and says why' "$(grep -c 'ERROR:  08001: .*An earlier attempt of this session to connect has not ended' <<<"$told")" 1
expect 'it is of use otherwise' "$(tell app 'SELECT 1')" 1
open other cell1
expect 'nobody else is held up' "$(tell other "INSERT INTO routes (name) VALUES ('other')")" ''
close app
wait_until is_dead "$pid"
expect 'the end of a session ends its thread, and nothing else' "$(tell other 'SELECT 1')" 1
answers 'connect iterations_2147483647'
open app cell1
pid=$(tell app 'SELECT pg_backend_pid()')
send app "INSERT INTO routes (name) VALUES ('computed')"
expect 'another thread computes' "$(wait_for yes computes "$pid")" yes
expect 'a shutdown' "$(at cell1 "SELECT pg_terminate_backend($pid, $SOON_MS)")" t
expect 'is orderly' "$(tell other 'SELECT 1')" 1
close other
at cell1 "ALTER SERVER service OPTIONS (SET connect_timeout '1')"
open app cell1
at=$(now_ms)
expect 'a limit' "$(save_name computed) $(soon "$at")" 'ERROR:  08001 soon'
# Some seconds of computing.
answers 'connect iterations_2500000'
open app cell1
expect 'a computation that takes too long' "$(save_name computed)" 'ERROR:  08001'
answers nothing
at cell1 "ALTER SERVER service OPTIONS (SET connect_timeout '60')"
pid=$(tell app 'SELECT pg_backend_pid()')
expect 'ends' "$(wait_for 1 threads "$pid")" 1
expect 'and the session calls the service again' "$(save_name computed)" ''
at cell1 "ALTER USER MAPPING FOR postgres SERVER service OPTIONS (SET password '$CELLS_PASSWORD')"

say 'memory'
# The peak memory of the session, in MiB.
peak() { awk '/VmHWM/ { print int($2 / 1024) }' "/proc/$1/status"; }
bounded() {
  local call=$1 kind=$2 wanted=$3 limit=$4 pid before after result
  answers nothing
  open app cell1
  save_name "begun-$call-$kind" >/dev/null
  pid=$(tell app 'SELECT pg_backend_pid()'); before=$(peak "$pid")
  answers "$call $kind"
  if [ "$call" = begin ]; then result=$(save_name "lost-$kind"); else result=$(reconciled); fi
  after=$(peak "$pid")
  expect "$call: $kind ($before to $after MiB)" "$result $([ $((after - before)) -lt "$limit" ] && echo bounded)" "$wanted bounded"
}
for kind in rows large_rows error_of_90_mib row_of_a_gibibyte error_of_a_gibibyte; do bounded begin "$kind" 'ERROR:  08P01' 200; done
for kind in rows large_rows error_of_90_mib row_of_a_gibibyte error_of_a_gibibyte; do bounded list "$kind" 'ERROR:  08P01' 200; done
bounded begin error_of_20_mib 'ERROR:  ZZ001' 300
answers nothing
before=$(connections)
expect 'what a large answer has taken goes with its connection' "$(save_name after-large)$(($(connections) - before))" 1

say 'a server where nothing can be written any more'
answers 'begin read_only'
before=$(connections)
expect 'a kept connection is made again, once, and the error told' "$(save_name read-only) $(($(connections) - before))" 'ERROR:  25006 1'
answers nothing
before=$(connections)
expect 'not that one is kept' "$(save_name writable)$(($(connections) - before))" 1

say 'the breaker'
at cell1 'ALTER DATABASE postgres RESET claims.breaker_failures'
open app cell1
open other cell1
for kind in no_row copy_out rows; do
  answers "begin $kind"
  for session in app other; do for n in 1 2 3; do tell "$session" "INSERT INTO routes (name) VALUES ('counted$n')" >/dev/null; done; done
done
expect 'wrong answers do not stop anybody from asking' "$(at cell1 'SELECT breaker, failures FROM claims.service_state')" 'closed|0'
expect 'the server is well' "$(at cell1 'SELECT count(*) FROM pg_stat_activity WHERE usename = '\''app'\''')" 2

say 'what it cannot have, and what it gets'
expect 'rows were made by the application, and nobody has changed one' "$(at cell1 'SELECT DISTINCT what, by FROM changed')" 'INSERT|app'
expect 'none was made but those of its saves' "$(at cell1 'SELECT count(*) = (SELECT count(*) FROM changed) FROM routes')" t
answers 'connect password'
open app cell1
expect 'the password, where it asks for it in plain text' "$(save_name told-password)$(grep '^password' "$log" | sort -u)" "password $CELLS_PASSWORD"
