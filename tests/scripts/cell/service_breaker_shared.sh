#!/usr/bin/env bash
# The breaker with a preloaded library: all sessions of the server share it, so that they do not wait one by one for a dead service.
# test: timed
# test: long
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c max_connections=260
for n in 1 2; do
  at "cell$n" "ALTER DATABASE postgres SET claims.service_timeout = '10s';
    SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic($n, 'service')" >/dev/null
done
# Outcome and time of each save, in ms.
at cell1 "CREATE UNLOGGED TABLE tries (at timestamptz DEFAULT clock_timestamp(), took float8, state text);
  GRANT INSERT, SELECT, TRUNCATE ON tries TO app"
TRY="DO \$\$
DECLARE started timestamptz := clock_timestamp();
BEGIN
  INSERT INTO routes (name) VALUES ('name' || pg_backend_pid() || clock_timestamp());
  SET CONSTRAINTS ALL IMMEDIATE;
  INSERT INTO tries (took, state) VALUES (1000 * extract(epoch FROM clock_timestamp() - started), '00000');
EXCEPTION WHEN OTHERS THEN
  INSERT INTO tries (took, state) VALUES (1000 * extract(epoch FROM clock_timestamp() - started), SQLSTATE);
END \$\$;"
echo "$TRY" >"$CLAIMS_TMP/try.sql"
# tries SESSIONS EACH: saves of so many sessions at the same time.
tries() {
  at cell1 'TRUNCATE tries'
  ( use_cluster cell1; cd "$CLAIMS_TMP"; pgbench -n -U app -c "$1" -j 2 -t "$2" -f try.sql postgres >/dev/null 2>"$CLAIMS_TMP/pgbench.log" ) ||
    { cat "$CLAIMS_TMP/pgbench.log" >&2; exit 1; }
}
found() { at cell1 "SELECT $1 FROM tries"; }
# How many waited for the service until connect_timeout, five seconds. A busy machine alone makes a save take a second.
WAITED='count(*) FILTER (WHERE took > 4000)'
state() { at "cell${1:-1}" "SELECT service, breaker, failures, last_error IS NOT NULL, extract(epoch FROM next_try - since)::numeric(4, 1) FROM claims.service_state"; }
now_ms() { date +%s%3N; }
sleep_until_next_try() { at cell1 "SELECT pg_sleep(greatest(0.05, extract(epoch FROM next_try - clock_timestamp()) + 0.05)) FROM claims.service_state" >/dev/null; }

as_app 1 "INSERT INTO routes (name) VALUES ('one')"
expect 'another session knows of it' "$(state)" 'service|closed|0|f|'
as_app 2 "INSERT INTO routes (name) VALUES ('taken')"
for _ in 1 2 3 4 5 6 7; do state_as_app 1 "INSERT INTO routes (name) VALUES ('taken')" >/dev/null; done
expect 'conflicts are no failures' "$(state)" 'service|closed|0|f|'

say 'a service that is down'
halt shared
for n in 1 2 3 4; do state_as_app 1 "INSERT INTO routes (name) VALUES ('down$n')" >/dev/null; done
expect 'four sessions failed' "$(state)" 'service|closed|4|t|'
state_as_app 1 "INSERT INTO routes (name) VALUES ('down5')" >/dev/null
expect 'the fifth has opened it for all' "$(state)" 'service|open|5|t|1.0'
expect 'another cell has its own' "$(state 2 | cut -d'|' -f 2)" closed
# (up to half a minute: crates/model/tests/rules/breaker.rs)
for pause in 2 4; do
  sleep_until_next_try
  state_as_app 1 "INSERT INTO routes (name) VALUES ('again')" >/dev/null
  expect "a try that fails: $pause seconds" "$(state | cut -d'|' -f 2,5)" "open|$pause.0"
done
tries 1 200
# (the bench has 99 of 100: here the machine may be busy)
expect 'while it is open a save fails within a millisecond' \
  "$(found "percentile_cont(0.9) WITHIN GROUP (ORDER BY took) <= 1, min(state), max(state)")" 't|08001|08001'
resume shared
sleep_until_next_try
expect 'one try that succeeds closes it for all' "$(as_app 1 "INSERT INTO routes (name) VALUES ('up')")$(state)" 'service|closed|0|f|'

say 'a service that hangs, and 200 sessions'
at cell1 "ALTER SERVER service OPTIONS (SET connect_timeout '5')"
postmaster=$(head -1 "${CLUSTER_DIR[shared]}/data/postmaster.pid")
kill -STOP "$postmaster"
trap 'kill -CONT "$postmaster" 2>/dev/null || true; for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup' EXIT
started=$(now_ms)
tries 200 5
took=$(($(now_ms) - started))
# Each session by itself would wait five times five seconds. A busy machine takes some to start 200 sessions.
expect "all have failed soon ($took ms)" "$([ $took -lt 22000 ] && found 'count(*), min(state), max(state)')" '1000|08001|08001'
expect 'who had not begun to wait did not wait' "$(found "$WAITED <= 205")" t
sleep_until_next_try
tries 40 3 &
sleep 1
expect 'one of them is trying' "$(state | cut -d'|' -f 2)" trying
wait $!
expect 'and only one' "$(found "$WAITED, count(*)")" '1|120'
expect 'the others fail sooner than a second' "$(found 'percentile_cont(0.5) WITHIN GROUP (ORDER BY took) < 1000')" t
expect 'for the others the next try is later' "$(state | cut -d'|' -f 2)" open
kill -CONT "$postmaster"
sleep_until_next_try
tries 20 1
expect 'it goes on' "$(found "count(*) FILTER (WHERE state = '00000') > 0")$(state)" 'tservice|closed|0|f|'

say 'who tries is killed'
kill -STOP "$postmaster"
for _ in 1 2 3 4 5; do state_as_app 1 "INSERT INTO routes (name) VALUES ('hangs')" >/dev/null; done
expect 'open' "$(state | cut -d'|' -f 2)" open
sleep_until_next_try
state_as_app 1 "INSERT INTO routes (name) VALUES ('canceled')" >"$CLAIMS_TMP/canceled" &
sleep 0.7
expect 'one tries' "$(state | cut -d'|' -f 2)" trying
at cell1 "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'app'" >/dev/null
wait $!
expect 'it was cancelled: the next one tries at once' "$(cat "$CLAIMS_TMP/canceled") $(state | cut -d'|' -f 2,5)" '57014 open|0.0'
kill -CONT "$postmaster"
expect 'and closes it' "$(as_app 1 "INSERT INTO routes (name) VALUES ('goes on')")$(state)" 'service|closed|0|f|'

say 'a server of the same name is another one'
halt shared
for _ in 1 2 3 4 5; do state_as_app 1 "INSERT INTO routes (name) VALUES ('down')" >/dev/null; done
expect 'open' "$(state | cut -d'|' -f 2)" open
resume shared
at cell1 "DROP SERVER service CASCADE; CREATE SERVER service FOREIGN DATA WRAPPER claims_service
            OPTIONS (host '127.0.0.1', port '${CLUSTER_PORT[shared]}', dbname 'postgres', connect_timeout '5');
          CREATE USER MAPPING FOR postgres SERVER service OPTIONS (user 'cell1', password '$CELLS_PASSWORD')" 2>/dev/null
expect 'of the old one nothing is shown' "$(state)" ''
expect 'and it is called at once' "$(as_app 1 "INSERT INTO routes (name) VALUES ('anew')")$(state)" 'service|closed|0|f|'
for n in 1 1 2; do reconcile $n >/dev/null; done
agree 'at the end'
