#!/usr/bin/env bash
# Many sessions at one service: they call it in the order of their arrival, wait for places where it is full, and close what they do not use.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c max_connections=100
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); SELECT claims.automatic(1, 'service')" >/dev/null
reload_with() { at cell1 "ALTER SYSTEM SET $1"; at cell1 'SELECT pg_reload_conf()' >/dev/null; wait_for "$3" at cell1 "SHOW $2" >/dev/null; }
add() { printf "INSERT INTO routes (name) VALUES ('%s');" "$1"; }
calls() { at shared "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'claims cell 1' AND state = 'active' AND query LIKE '%begin_update_text%'"; }
connections() { at shared "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'claims cell 1'"; }
# waits SESSION: until it waits for its turn or for its call.
waits() { wait_for t at cell1 "SELECT count(*) = $1 FROM pg_stat_activity WHERE usename = 'app' AND state = 'active' AND wait_event = 'Extension'" >/dev/null; }
failures() { at cell1 'SELECT coalesce(sum(failures), 0) FROM claims.service_state'; }
created() { at shared "SELECT string_agg(bucket_value, ' ' ORDER BY created_at) FROM claims.claims WHERE bucket_value LIKE '$1%'"; }

# --- calls at once: the order of arrival ------------------------------------------------------------------------------------

reload_with 'claims.max_service_calls = 1' claims.max_service_calls 1
for name in first b c d e f; do open "$name" cell1; tell "$name" 'SELECT 1' >/dev/null; done
hold_up INSERT
send first "$(add o-first)"
expect 'one call is at the service' "$(wait_for 1 calls)" 1
number=1
for name in b c d e f; do
  send "$name" "$(add "o-$name")"
  number=$((number + 1))
  waits $number
done
expect 'the others have not even connected' "$(calls) $(connections)" '1 1'
# A session that gives up, and one that dies, leave nothing behind.
at cell1 "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'app' AND query LIKE '%o-c%'" >/dev/null
at cell1 "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app' AND query LIKE '%o-e%'" >/dev/null
waits 4
expect 'who has waited as long as it may: 53300, at once' "$( ( use_cluster cell1; PGUSER=app PGOPTIONS='-c claims.service_timeout=300ms' sqlstate "$(add late)" ) )" 53300
( use_cluster cell1; PGUSER=app PGOPTIONS='-c claims.service_timeout=300ms' psql -XqAt -c "$(add late)" ) 2>&1 | tr '\n' ' ' >"$CLAIMS_TMP/said" || true
expect 'and says what to do' "$(grep -cE 'too many calls of this server at once.*HINT:  Repeat the transaction.*claims\.max_service_calls' "$CLAIMS_TMP/said")" 1
expect 'which is no failure of the service' "$(failures)" 0
let_go
wait_for 4 at shared "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'o-%'" >/dev/null
expect 'they have called in the order of arrival' "$(created o-)" 'o-first o-b o-d o-f'
for name in first b c d f; do close "$name"; done
unset "SESSION_PID[e]" "SESSION_IN[e]" "SESSION_OUT[e]"
# Its own session dies in the middle of its call.
hold_up INSERT
open first cell1; send first "$(add killed)"; wait_for 1 calls >/dev/null
open b cell1; send b "$(add next)"; waits 2
at cell1 "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app' AND query LIKE '%killed%'" >/dev/null
expect 'the turn of one that dies goes to the next' "$(wait_for 2 calls)" 2
let_go
expect 'which saves' "$(wait_for 1 at shared "SELECT count(*) FROM claims.claims WHERE bucket_value = 'next'")" 1
close b; unset "SESSION_PID[first]" "SESSION_IN[first]" "SESSION_OUT[first]"

# --- never more than so many --------------------------------------------------------------------------------------------------

reload_with 'claims.max_service_calls = 5' claims.max_service_calls 5
# The service notes the time of each call, from a moment within it to another: a look at pg_stat_activity reads one session after the other,
# and counts a call that ends meanwhile with the one that follows it.
at shared "CREATE TABLE call_times (began timestamptz, ended timestamptz); GRANT INSERT ON call_times TO PUBLIC;
  CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \$\$ DECLARE began timestamptz := clock_timestamp();
    BEGIN PERFORM pg_sleep(0.03); INSERT INTO public.call_times VALUES (began, clock_timestamp()); RETURN NULL; END \$\$;
  CREATE TRIGGER slow AFTER INSERT ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION slow()"
# most_at_once: how many calls there have been at the same time.
most_at_once() { at shared "SELECT max(calls) FROM (SELECT count(*) AS calls FROM call_times a JOIN call_times b ON b.began <= a.began AND a.began < b.ended GROUP BY a.ctid) q"; }
echo "INSERT INTO routes (name) VALUES (:client_id || '-' || clock_timestamp());" >"$CLAIMS_TMP/save.sql"
saves() { ( use_cluster cell1; cd "$CLAIMS_TMP"; pgbench -n -U app -c "$1" -j 2 -t "$2" -f save.sql postgres 2>&1 | grep -E 'actually processed|number of failed|ERROR|aborted' | tr '\n' ' ' ); }
expect 'all have saved' "$(saves 30 10 | grep -c '300/300')" 1
most=$(most_at_once)
expect 'at most five at once, and more than one' "$([ "$most" -le 5 ] && [ "$most" -gt 1 ] && echo "yes" || echo "$most")" yes
reload_with 'claims.max_service_calls = 0' claims.max_service_calls 0
at shared 'TRUNCATE call_times'
saved=$(saves 30 10 | grep -c '300/300') most=$(most_at_once)
expect '0: no limit' "$saved $([ "$most" -gt 5 ] && echo more || echo "$most")" '1 more'
at shared 'DROP FUNCTION slow CASCADE' 2>/dev/null

# --- a service that is full ------------------------------------------------------------------------------------------------------

expect 'the sessions have ended' "$(wait_for 0 connections)" 0
at shared 'ALTER ROLE cell1 CONNECTION LIMIT 3'
for name in h1 h2 h3; do open "$name" cell1; tell "$name" "$(add "$name")" >/dev/null; done
expect 'three sessions have all places' "$(connections)" 3
expect 'a fourth one gets that of a session that does not use it' "$(as_app 1 "$(add fourth)"; connections)" 2
# Whatever the transactions of those that have the places do.
at cell1 "GRANT USAGE ON FOREIGN SERVER service TO app"
pending() { printf "BEGIN; %s SELECT claims.begin_pending(1, 'service') IS NOT NULL" "$(add "$1")"; }
for name in h1 h2 h3; do tell "$name" "$(pending "open-$name")" >/dev/null; done
send h3 'SELECT pg_sleep(600)'
expect 'three open transactions have all places' "$(connections)" 3
for number in 1 2 3; do as_app 1 "$(add "beside-$number")"; done
expect 'other sessions save beside them' "$(at shared "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'beside-%'")" 3
expect 'an open transaction can call again, and be committed' "$(tell h1 "$(add again) SELECT claims.begin_pending(1, 'service') IS NOT NULL; COMMIT" 2>&1 | tail -c 2)" t
at cell1 "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()" >/dev/null
for name in h1 h2 h3; do close "$name"; done
# The calls of other databases, as it were, have all places: nobody gives one up.
expect 'nobody is connected' "$(wait_for 0 connections)" 0
for name in x1 x2 x3; do open "$name" shared cell1; tell "$name" 'SELECT 1' >/dev/null; done
expect 'a save tries within its timeout, and says 53300' "$( ( use_cluster cell1; PGUSER=app PGOPTIONS='-c claims.service_timeout=400ms' sqlstate "$(add fifth)" ) )" 53300
for _ in 1 2 3 4 5 6; do ( use_cluster cell1; PGUSER=app PGOPTIONS='-c claims.service_timeout=50ms' sqlstate "$(add fifth)" >/dev/null ); done
expect 'no breaker has opened' "$(failures)" 0
for name in x1 x2 x3; do close "$name"; done
expect 'twelve sessions share three places' "$(saves 12 5 | grep -c '60/60')" 1
expect 'still no failure' "$(failures)" 0
at shared 'ALTER ROLE cell1 CONNECTION LIMIT -1'

# --- idle connections -------------------------------------------------------------------------------------------------------------

# For ten seconds after a service has refused a connection, idle sessions give their places up sooner.
sleep 10.5
expect 'nobody is connected' "$(wait_for 0 connections)" 0
open idle cell1; open busy cell1; open kept cell1
tell idle "SET claims.service_idle_timeout = '1s'; $(add idle-1)" >/dev/null
tell kept "SET claims.service_idle_timeout = 0; $(add kept-1)" >/dev/null
tell busy "SET claims.service_idle_timeout = '3s'; $(add busy-1)" >/dev/null
for number in 2 3 4 5 6 7 8; do sleep 0.5; tell busy "$(add "busy-$number")" >/dev/null; done
expect 'a session that does not call closes its connection, although its client sends nothing' "$(wait_for 2 connections)" 2
processes=$(at shared "SELECT count(DISTINCT pid) FROM pg_stat_activity WHERE application_name = 'claims cell 1' AND backend_start < now() - interval '3 s'")
expect 'one that calls keeps it, and so does one with 0' "$processes" 2
expect 'the next call opens another one' "$(tell idle "$(add idle-2)") $(connections)" ' 3'
expect 'after an error, too' "$(tell idle 'SELECT 1/0') $(wait_for 1 connections)" 'ERROR:  22012 1'
expect 'and again' "$(tell idle "$(add idle-3)") $(failures)" ' 0'
for name in idle busy kept; do close "$name"; done
expect 'check' "$(at shared "SELECT count(*) FROM claims.check() WHERE problem <> 'table is not as the extension has created it'")" 0
