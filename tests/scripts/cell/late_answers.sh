#!/usr/bin/env bash
# An answer that comes after its call has ended: the session keeps the connection, and drops the answer before it sends the next call. It is never taken
# for another one, whatever it is, and a connection whose late answer does not come is replaced.
. "$(dirname "$0")/../cells.bash"

start_cells -c log_min_messages=fatal
start_wrong_service
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic(1, 'service');
  ALTER DATABASE postgres SET claims.breaker_failures = 0" >/dev/null
set_mode() { at cell1 "SELECT claims.set_enforcement('routes', 'name', '$1', 'test')" >/dev/null; }
save() { tell app "INSERT INTO routes (name) VALUES ('$1')"; }
observed() { at cell1 "SELECT coalesce(sum(count) FILTER (WHERE outcome = 'timeout'), 0), count(*) FILTER (WHERE outcome <> 'timeout') FROM claims.observations"; }

say 'a service whose sessions are slow at first'
# The first begin of each session takes a second, and the cell waits for 0.4: without the connection none would ever be in time.
at shared "CREATE FUNCTION warm_up() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
    IF current_setting(''test.is_warm'', true) IS DISTINCT FROM ''yes'' THEN PERFORM pg_sleep(1), set_config(''test.is_warm'', ''yes'', false); END IF; RETURN NULL; END';
  CREATE TRIGGER warm_up BEFORE INSERT ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION warm_up()"
set_mode observe
open app cell1
tell app "SET claims.observe_timeout = '400ms'" >/dev/null
expect 'no save fails' "$(for n in $(seq 12); do save "warm$n"; done)" ''
claimed_names() { at shared "SELECT count(*) > 0 FROM claims.claims WHERE bucket_value LIKE 'warm%' AND status = 1 AND bucket_value <> 'warm1'"; }
expect 'after some timeouts they are claimed' "$(wait_for t claimed_names) $(at cell1 "SELECT sum(count) BETWEEN 1 AND 11 FROM claims.observations WHERE outcome = 'timeout'")" 't t'
expect 'over one connection' "$(at shared "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'claims cell 1'")" 1
expect 'the lease of the late begin is outstanding' "$(at shared "SELECT count(*) FROM claims.claims WHERE bucket_value = 'warm1' AND status = 2")" 1
reconcile 1 '0 seconds' >/dev/null
expect 'until recovery rolls it back: its save has committed without it' "$(at shared "SELECT count(*) FROM claims.claims WHERE bucket_value = 'warm1'") $(tracked 1)" '0 -'
at shared 'DROP FUNCTION warm_up CASCADE' 2>/dev/null
close app

call_wrong_service
at cell1 "ALTER DATABASE postgres SET claims.observe_timeout = '60s'; ALTER DATABASE postgres SET claims.service_timeout = '60s'; SELECT FROM claims.purge_observations('0 s')" >/dev/null
begins() { grep -c begin "$log" || true; }
# hold CALL ANSWER: from now on these calls wait for release with their answer; calls are answered at once.
hold() { rm -f "$mode.go"; answers "$1 held_$2"; }
released() { grep -c released "$log" || true; }
is_released() { [ "$(released)" -gt "$1" ]; }
release() { local before; before=$(released); touch "$mode.go"; wait_until is_released "$before"; }
# late ANSWER: a save that ends without its answer, of which one comes later. fresh: a session with a connection.
fresh() { answers nothing; [ -z "${SESSION_PID[app]:-}" ] || close app; open app cell1; save "fresh-$RANDOM$RANDOM" >/dev/null; before=$(connections); }
late_count=0
late() { hold begin "$1"; tell app "SET claims.observe_timeout = '300ms'; SET claims.service_timeout = '300ms'" >/dev/null; late_count=$((late_count + 1)); save "late-$1-$late_count"; tell app 'RESET claims.observe_timeout; RESET claims.service_timeout' >/dev/null; }
more() { echo $(($(connections) - before)); }

say 'observed names'
fresh; late right
tell app "SET claims.observe_timeout = '100ms'" >/dev/null
sent=$(begins)
expect 'while the service is at it, no further call is sent' "$(save late2)$(save late3) $(($(begins) - sent)) $(observed)" ' 0 3|0'
tell app 'RESET claims.observe_timeout' >/dev/null
answers nothing; release
expect 'then the answer is dropped, and the connection used' "$(save next) $(more) $(($(begins) - sent)) $(observed)" ' 0 1 3|0'
fresh; late right
answers nothing
expect 'an answer that does not come within ten seconds: another connection' "$(save patient) $(more)" ' 1'

say 'enforced names'
set_mode enforce
fresh; said=$(late right); expect 'a timeout' "$said" 'ERROR:  57014'
answers nothing; release
expect 'the next save gets its own answer, over the same connection' "$(save enforced) $(more)" ' 0'
fresh; late right >/dev/null; answers nothing
tell app "SET claims.service_timeout = '6s'" >/dev/null
expect 'it does not wait for all of its time' "$(save replaced) $(more)" ' 1'
for kind in odd_error close row_behind other_lease large_rows error_of_20_mib nothing no_row in_transaction; do
  # Of these answers the session can drop only an error and a wrong value. Whatever else comes costs the connection.
  case $kind in odd_error | other_lease) wanted=0 ;; *) wanted=1 ;; esac
  fresh; late $kind >/dev/null; answers nothing; release
  expect "late: $kind" "$(save "after-$kind") $(more)" " $wanted"
done
expect 'nothing of it counts as leased' "$(at cell1 "SELECT count(*) FROM claims.cells_outstanding_leases WHERE uuid = '00000000-0000-4000-8000-000000000001'")" 0
expect 'nor was a save that ended without an answer kept' "$(saved 1 | tr ' ' '\n' | grep -vxE 'late-right-1|late-right-2|late2|late3' | grep -c '^late-' || true)" 0
peak() { awk '/VmHWM/ { print int($2 / 1024) }' "/proc/$1/status"; }
for kind in rows large_rows error_of_90_mib row_of_a_gibibyte; do
  fresh; late $kind >/dev/null
  pid=$(tell app 'SELECT pg_backend_pid()'); size=$(peak "$pid")
  answers nothing; release
  result=$(save "bounded-$kind")
  grown=$(($(peak "$pid") - size))
  expect "late: $kind: memory ($grown MiB more)" "$result $(more) $([ $grown -lt 100 ] && echo bounded)" ' 1 bounded'
done

say 'a cancel, and a timeout of the statement'
fresh; hold begin right
sent=$(begins)
has_sent() { [ "$(begins)" -gt "$sent" ]; }
send app "BEGIN; INSERT INTO routes (name) VALUES ('cancelled'); SET CONSTRAINTS ALL IMMEDIATE; COMMIT"
wait_until has_sent
at cell1 "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'app' AND state = 'active'" >/dev/null
expect 'a cancel' "$(answer app)" 'ERROR:  57014'
send app "INSERT INTO routes (name) VALUES ('cancelled again')"
sleep 0.2
at cell1 "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'app' AND state = 'active'" >/dev/null
expect 'and one while the late answer is awaited' "$(answer app)" 'ERROR:  57014'
answers nothing; release
expect 'leave the connection as it is' "$(save cancel) $(more)" ' 0'
fresh; hold begin right
expect 'a timeout of the statement' "$(tell app "SET statement_timeout = '300ms'; BEGIN; INSERT INTO routes (name) VALUES ('timed out'); SET CONSTRAINTS ALL IMMEDIATE; COMMIT; RESET statement_timeout" | grep -o 57014)" 57014
answers nothing; release
expect 'does, too' "$(save timeout) $(more)" ' 0'

say 'what is sent after the late call'
fresh
tell app "SET claims.service_timeout = '300ms'; BEGIN; INSERT INTO routes (name) VALUES ('first'); SET CONSTRAINTS ALL IMMEDIATE" >/dev/null
hold begin right
expect 'a second lease of the transaction has no answer' "$(tell app "SET CONSTRAINTS ALL DEFERRED; INSERT INTO routes (name) VALUES ('second'); SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK" | grep -o 57014)" 57014
settles=$(grep -cx settle "$log" || true)
answers nothing; release
rolled_back() { [ "$(grep -cx settle "$log")" -gt "$settles" ]; }
wait_until rolled_back
expect 'the first one is rolled back behind it' "$(tell app 'RESET claims.service_timeout'; save both) $(more)" ' 0'

say 'looking up a name'
at cell1 "GRANT USAGE ON FOREIGN SERVER service TO app" >/dev/null
available() { tell app "SELECT coalesce(claims.is_available('routes', 'name', 'free')::text, 'unknown')"; }
fresh; hold holder right
expect 'without an answer it is unknown' "$(tell app "SET claims.observe_timeout = '300ms'" >/dev/null; available)" unknown
answers nothing; release
expect 'and then it is known, over the same connection' "$(tell app 'RESET claims.observe_timeout' >/dev/null; available) $(more)" 'true 0'
expect 'the server is well' "$(at cell1 'SELECT count(*) FROM pg_stat_activity WHERE usename = '\''app'\''')" 1
