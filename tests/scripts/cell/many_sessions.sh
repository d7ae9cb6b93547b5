#!/usr/bin/env bash
# Many more sessions than a service lets in: nobody waits longer than its timeout, in the order of arrival, without a failure of the breaker, and about
# as many saves a second as the service has for those that it lets in. With the service dead they fail at once. FLEET_SESSIONS and FLEET_PLACES are
# the numbers, FLEET_SECONDS how long they save.
# test: timed
. "$(dirname "$0")/../cells.bash"

sessions=${FLEET_SESSIONS:-40} places=${FLEET_PLACES:-8} seconds=${FLEET_SECONDS:-4}
"$CLAIMS_ROOT/scripts/clients"
start_cells -c shared_preload_libraries=claims -c max_connections=$((sessions + 100)) -c shared_buffers=64MB
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); SELECT claims.automatic(1, 'service');
  ALTER DATABASE postgres SET claims.service_timeout = '20s'" >/dev/null
reload_with() { at cell1 "ALTER SYSTEM SET $1"; at cell1 'SELECT pg_reload_conf()' >/dev/null; wait_for "$3" at cell1 "SHOW $2" >/dev/null; }
connections() { at shared "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'claims cell 1'"; }
failures() { at cell1 'SELECT coalesce(sum(failures), 0) FROM claims.service_state'; }
of_metric() { at cell1 "SELECT coalesce(sum(value), 0) FROM claims.metrics() WHERE name = '$1' AND labels ->> 'state' IS NOT DISTINCT FROM $([ -n "${2:-}" ] && echo "'$2'" || echo NULL)"; }
waiting() { of_metric claims_service_calls waiting_for_place; }
add() { printf "INSERT INTO routes (name) VALUES ('%s');" "$1"; }
# fleet SESSIONS [SECONDS]: saves per second, median, p99, longest, starved sessions, longest error, errors.
fleet() { ( use_cluster cell1; PGUSER=app PGDATABASE=postgres "$CLAIMS_CLIENTS/fleet" "$1" "${2:-$seconds}" ); }
# is CONDITION: over numbers that may have decimals.
is() { awk "BEGIN { print ($1) ? \"yes\" : \"$1\" }"; }

# --- the order of arrival, with one place -------------------------------------------------------------------------------------

at shared 'ALTER ROLE cell1 CONNECTION LIMIT 1'
# Another program of the cell's role has the only place: no session can ask it for that.
open first shared cell1; tell first 'SELECT 1' >/dev/null
number=0
for name in b c d e; do
  open "$name" cell1; send "$name" "SET claims.service_timeout = '20s'; $(add "o-$name")"
  number=$((number + 1))
  expect "session $number waits for a place" "$(wait_for $number waiting)" $number
done
at cell1 "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'app' AND query LIKE '%o-c%'" >/dev/null
expect 'one that is cancelled waits no longer' "$(wait_for 3 waiting)" 3
at cell1 "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app' AND query LIKE '%o-d%'" >/dev/null
expect 'nor one that dies' "$(wait_for 2 waiting)" 2
expect 'nor one whose time is over, which says 53300' "$( ( use_cluster cell1; PGUSER=app PGOPTIONS='-c claims.service_timeout=300ms' sqlstate "$(add late)" ) ) $(wait_for 2 waiting)" '53300 2'
close first
expect 'the others save' "$(wait_for 2 at shared "SELECT count(*) FROM claims.claims WHERE bucket_value IN ('o-b', 'o-e')")" 2
expect 'in the order of arrival' "$(at shared "SELECT string_agg(bucket_value, ' ' ORDER BY created_at) FROM claims.claims WHERE bucket_value IN ('o-b', 'o-e')")" 'o-b o-e'
expect 'nobody waits' "$(wait_for 0 waiting)" 0
for name in b c e; do close "$name"; done
unset "SESSION_PID[d]" "SESSION_IN[d]" "SESSION_OUT[d]"
expect 'all connections are gone' "$(wait_for 0 connections) $(wait_for 0 of_metric claims_service_connections)" '0 0'

# Two sessions have both places and do not use them. A third one gets the place that is unused for the longest time, and asks for no other one.
at shared 'ALTER ROLE cell1 CONNECTION LIMIT 2'
process_of() { at shared "SELECT pid FROM pg_stat_activity WHERE application_name = 'claims cell 1' ORDER BY backend_start $1 LIMIT 1"; }
for name in longest latest; do open "$name" cell1; tell "$name" "SET claims.service_idle_timeout = 0; $(add "$name")" >/dev/null; done
first=$(process_of ASC) second=$(process_of DESC)
tell longest "$(add longest-2)" >/dev/null
open third cell1
expect 'a third session saves' "$(tell third "SET claims.service_timeout = '20s'; $(add third)")" ''
expect 'over the place that was unused for the longest time' "$(wait_for 0 at shared "SELECT count(*) FROM pg_stat_activity WHERE pid = $second") $(at shared "SELECT count(*) FROM pg_stat_activity WHERE pid = $first")" '0 1'
for name in longest latest third; do close "$name"; done
expect 'all connections are gone' "$(wait_for 0 connections)" 0

# A session that calls without a pause is asked for nothing. It gives its place up at the end of a transaction, after five seconds at most.
at shared 'ALTER ROLE cell1 CONNECTION LIMIT 1'
open busy cell1
send busy "SET claims.service_timeout = '60s'; SET claims.service_idle_timeout = 0;
  DO \$\$ BEGIN FOR n IN 1..1000000 LOOP INSERT INTO routes (name) VALUES ('busy-' || n); COMMIT; EXIT WHEN EXISTS (SELECT FROM routes WHERE name = 'wants'); END LOOP; END \$\$"
expect 'it saves' "$(wait_for t at shared "SELECT count(*) > 10 FROM claims.claims WHERE bucket_value LIKE 'busy-%'")" t
open wants cell1
expect 'a session that waits gets the only place' "$(tell wants "SET claims.service_timeout = '60s'; $(add wants)")" ''
close wants
expect 'and both save on' "$(answer busy) $(at cell1 "SELECT count(*) FROM routes WHERE name = 'wants'")" ' 1'
# The service was full some seconds ago: a session that has not set the time for idle connections keeps its place for no five minutes.
tell busy "RESET claims.service_idle_timeout; $(add idle)" >/dev/null
expect 'one that is idle gives its place up soon' "$(wait_for 0 connections)" 0
close busy

at shared 'ALTER ROLE cell1 CONNECTION LIMIT -1'
expect 'the breaker counts nothing of this' "$(failures)" 0

# --- many sessions ----------------------------------------------------------------------------------------------------------

read -r alone _ < <(fleet "$places")
echo "$places sessions: $alone saves a second"
expect 'some sessions save' "$(is "$alone > 0")" yes

reload_with "claims.max_service_calls = $places" claims.max_service_calls "$places"
read -r capped median p99 longest starved failed errors < <(fleet "$sessions")
echo "$sessions sessions, $places calls at once: $capped saves a second, median $median ms, p99 $p99 ms, longest $longest ms, errors: $errors"
expect 'with so many calls at once all sessions save' "$starved $errors" '0 none'
# Waiting and the answer have 20 s together, and connecting has up to 20 s of its own.
expect 'nobody waits for longer than its timeout' "$(is "$longest < 40500")" yes
# A busy machine takes long to wake a session, and nobody uses its turn meanwhile: `make bench` measures how many there are. A turn that is found by
# chance, or at the end of a timeout, would be far below.
expect 'about as many saves a second' "$(is "$capped > 0.15 * $alone")" yes

# Fewer calls at once than places, some more, and more than sessions. Sessions that wait for places must not have the turns of those that have places.
for calls in $((places / 2)) $((places * 5 / 2)) 300; do
  reload_with "claims.max_service_calls = $calls" claims.max_service_calls $calls
  expect "$calls calls: all connections are gone" "$(wait_for 0 connections)" 0
  at shared "ALTER ROLE cell1 CONNECTION LIMIT $places"
  refused=$(of_metric claims_service_connections_refused_total)
  read -r full median p99 longest starved failed errors < <(fleet "$sessions")
  echo "$sessions sessions, $calls calls, $places places: $full saves a second, median $median ms, p99 $p99 ms, longest $longest ms, errors: $errors"
  expect "$calls calls: at a full service no breaker opens" "$(failures)" 0
  expect "$calls calls: all get places in time" "$starved $errors" '0 none'
  expect "$calls calls: nobody waits for longer than its timeout" "$(is "$longest < 40500")" yes
  expect "$calls calls: the service has refused connections" "$(is "$(of_metric claims_service_connections_refused_total) > $refused")" yes
  # A standstill would be a hundredth. The sessions that have places save as if they were alone.
  expect "$calls calls: many saves a second all the same" "$(is "$full > 0.2 * $alone")" yes
  expect "$calls calls: nobody waits any more" "$(wait_for 0 waiting) $(of_metric claims_service_calls calling) $(of_metric claims_service_calls waiting)" '0 0 0'
  at shared 'ALTER ROLE cell1 CONNECTION LIMIT -1'
done

# --- a service that is full, and then dead --------------------------------------------------------------------------------------------

at shared 'ALTER ROLE cell1 CONNECTION LIMIT 1'
# Another program of the cell's role again, which no session can ask for its place.
open first shared cell1; tell first 'SELECT 1' >/dev/null
waiters=()
for n in $(seq 1 14); do ( use_cluster cell1; PGUSER=app psql -XqAt -v VERBOSITY=verbose -c "$(add "never-$n")" ) >"$CLAIMS_TMP/waiter.$n" 2>&1 & waiters+=($!); done
expect 'fourteen sessions wait for its only place' "$(wait_for 14 waiting)" 14
crash shared
for waiter in "${waiters[@]}"; do wait "$waiter" || true; done
expect 'when it dies, all of them fail with 08001' "$(grep -l 'ERROR:  08001' "$CLAIMS_TMP"/waiter.* | wc -l)" 14
# The first ones find out by themselves. They open the breaker, and the others do not try any more.
expect 'the last ones without a try of their own' "$(grep -l 'is not called at the moment' "$CLAIMS_TMP"/waiter.* | wc -l | sed 's/^[1-9]$/some/')" some
expect 'nobody waits' "$(waiting)" 0
close first
resume shared
at shared 'ALTER ROLE cell1 CONNECTION LIMIT -1'
expect 'when it is back, they save again' "$(wait_for 00000 state_as_app 1 "$(add "again-$RANDOM")")" 00000

# --- a dead service ---------------------------------------------------------------------------------------------------------------

crash shared
read -r dead _ _ _ starved failed errors < <(fleet "$sessions" 2)
echo "$sessions sessions, a dead service: errors: $errors, the longest after $failed ms"
expect 'with the service dead nobody saves' "$dead $starved" "0.0 $sessions"
expect 'all fail with 08001, within the timeout' "$(sed -E 's/08001=[0-9]+//' <<<"$errors") $(is "$failed < 40500")" ' yes'
expect 'the breaker is open' "$(at cell1 "SELECT breaker FROM claims.service_state" | sed 's/trying/open/')" open
resume shared
expect 'when the service is back, they save again' "$(wait_for 00000 state_as_app 1 "$(add "back-$RANDOM")")" 00000
expect 'check' "$(at shared "SELECT count(*) FROM claims.check() WHERE problem <> 'table is not as the extension has created it'")" 0
