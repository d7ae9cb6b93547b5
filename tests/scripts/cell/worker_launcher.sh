#!/usr/bin/env bash
# A database has one worker of each kind, and a database that is no longer named has none, also after the launcher has died.
. "$(dirname "$0")/../common.bash"

start_cluster launcher --fast -c shared_preload_libraries=claims -c 'claims.databases=postgres, other' -c claims.verify_interval=1h
sql 'CREATE EXTENSION claims'
sql 'CREATE DATABASE other'

# until_is SECONDS WHAT STATEMENT ANSWER: the statement has that answer within so many seconds.
until_is() {
  local _
  for _ in $(seq 1 $(($1 * 20))); do
    if [ "$(sql "$3" 2>/dev/null)" = "$4" ]; then printf 'ok: %s\n' "$2"; return; fi
    sleep 0.05
  done
  expect "$2 (within $1 s)" "$(sql "$3")" "$4"
}
WORKERS="SELECT string_agg(format('%s %s: %s', datname, backend_type, n), ', ' ORDER BY datname, backend_type)
           FROM (SELECT datname, backend_type, count(*) AS n FROM pg_stat_activity WHERE backend_type IN ('claims worker', 'claims verifier') GROUP BY 1, 2) w"
ONE_OF_EACH='other claims verifier: 1, other claims worker: 1, postgres claims verifier: 1, postgres claims worker: 1'
pids() { sql "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE backend_type LIKE 'claims %' AND datname IS NOT NULL"; }
launcher() { sql "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE backend_type = 'claims launcher'"; }
# end_launcher: terminates it, and waits for the next one.
end_launcher() {
  local before; before=$(launcher)
  sql "SELECT pg_terminate_backend($before)" >/dev/null
  until_is 60 'another launcher begins' "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'claims launcher' AND pid <> $before" 1
}
# stays SECONDS WHAT: each look in this time finds one of each.
stays() {
  local _
  for _ in $(seq 1 $(($1 * 5))); do
    [ "$(sql "$WORKERS")" = "$ONE_OF_EACH" ] || expect "$2" "$(sql "$WORKERS")" "$ONE_OF_EACH"
    sleep 0.2
  done
  printf 'ok: %s\n' "$2"
}
reload_with() { sql "ALTER SYSTEM SET $1" && sql 'SELECT pg_reload_conf()' >/dev/null; }

until_is 60 'each database has one of each' "$WORKERS" "$ONE_OF_EACH"

# --- the launcher ends --------------------------------------------------------------------------------------------------

before=$(pids)
for _ in 1 2 3; do end_launcher; done
stays 3 'three launchers later there is one of each'
expect 'the same ones: they have gone on' "$(pids)" "$before"
reload_with "claims.databases = 'postgres'"
until_is 30 'one that an earlier launcher has started ends when its database is not named any more' "$WORKERS" \
  'postgres claims verifier: 1, postgres claims worker: 1'
reload_with "claims.verify_interval = '0'"
until_is 30 'and so does one that verifies when nothing is to be verified' "$WORKERS" 'postgres claims worker: 1'

# Named again, and dismissed while there is no launcher.
reload_with "claims.databases = 'postgres, other'" && reload_with "claims.verify_interval = '1h'"
until_is 60 'named again, they have them again' "$WORKERS" "$ONE_OF_EACH"
gone=$(launcher)
sql "SELECT pg_terminate_backend($gone)" >/dev/null
until_is 30 'the launcher is gone' "SELECT count(*) FROM pg_stat_activity WHERE pid = $gone" 0
reload_with "claims.databases = ''"
until_is 60 'none is left where none is named' "SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('claims worker', 'claims verifier')" 0
reload_with "claims.databases = 'postgres, other'"
until_is 60 'and they come back' "$WORKERS" "$ONE_OF_EACH"

# --- it ends while a worker begins or ends ------------------------------------------------------------------------------

# Workers are killed, and the launcher some milliseconds later: it may just have asked for the next one, which begins without it.
for pause in 0 0.9 0.95 1 1.05 1.1; do
  sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type IN ('claims worker', 'claims verifier')" >/dev/null
  sleep $pause
  sql "SELECT pg_terminate_backend($(launcher))" >/dev/null
done
until_is 60 'they come back once more' "$WORKERS" "$ONE_OF_EACH"
stays 8 'and there is one of each'

# A worker that is killed while no launcher is there is started again by the next one.
sql "SELECT pg_terminate_backend($(launcher)), pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'claims worker'" >/dev/null
until_is 60 'both begin again' "$WORKERS" "$ONE_OF_EACH"

# --- DROP DATABASE ------------------------------------------------------------------------------------------------------

end_launcher
sql 'DROP DATABASE other WITH (FORCE)'
until_is 30 'a database is dropped, whose workers an earlier launcher has started' "$WORKERS" 'postgres claims verifier: 1, postgres claims worker: 1'
sql 'CREATE DATABASE other'
until_is 90 'made again, it has them again' "$WORKERS" "$ONE_OF_EACH"

# --- the server resets itself -------------------------------------------------------------------------------------------

for victim in 'claims launcher' 'claims worker'; do
  pid=$(sql "SELECT min(pid) FROM pg_stat_activity WHERE backend_type = '$victim'")
  kill -9 "$pid"
  for _ in $(seq 1 600); do [ -e "/proc/$pid" ] && sleep 0.1 || break; done
  until_is 90 "kill -9 of a $victim" "$WORKERS" "$ONE_OF_EACH"
  stays 3 'there is one of each after that, too'
done
