#!/usr/bin/env bash
# Two services that are both full, and sessions that have a connection to one and need a place at the other one: they do not wait for each other.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c max_connections=60
start_second_service
at cell1 "ALTER DATABASE postgres SET claims.service_timeout = '40s'"
reload_with() { at cell1 "ALTER SYSTEM SET $1"; at cell1 'SELECT pg_reload_conf()' >/dev/null; wait_for "$3" at cell1 "SHOW $2" >/dev/null; }
limit() { at shared "ALTER ROLE cell1 CONNECTION LIMIT $1"; at second "ALTER ROLE cell1 CONNECTION LIMIT $1"; }
connections() { echo "$(at shared "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'claims cell 1'") $(at second "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'claims cell 1'")"; }
waiting() { at cell1 "SELECT coalesce(sum(value), 0) FROM claims.metrics() WHERE name = 'claims_service_calls' AND labels ->> 'state' = 'waiting_for_place'"; }
route() { printf "INSERT INTO routes (name) VALUES ('%s');" "$1"; }
user() { printf "INSERT INTO users (name) VALUES ('%s');" "$1"; }
lost() { at cell1 "SELECT value FROM claims.metrics() WHERE name = 'claims_service_calls_failed_total'" | sort -u | tr '\n' ' '; }

# --- each has the place that the other one needs -----------------------------------------------------------------------------------

limit 1
for calls in 1 300; do
  reload_with "claims.max_service_calls = $calls" claims.max_service_calls $calls
  open a cell1; tell a "BEGIN; $(route "a-$calls") SET CONSTRAINTS ALL IMMEDIATE" >/dev/null
  open b cell1; tell b "BEGIN; $(user "b-$calls") SET CONSTRAINTS ALL IMMEDIATE" >/dev/null
  expect "$calls calls: each has a place" "$(connections)" '1 1'
  expect "$calls calls: an open transaction gives its place up" "$(tell a "$(user "a-$calls") COMMIT;")" ''
  tell b "SET CONSTRAINTS ALL DEFERRED; $(route "b-$calls") COMMIT" >"$CLAIMS_TMP/said"
  expect "$calls calls: both have saved" "$(cat "$CLAIMS_TMP/said") $(wait_for 4 at cell1 "SELECT count(*) FROM (SELECT name FROM routes UNION ALL SELECT name FROM users) saved WHERE name ~ '^[ab]-$calls\$'")" ' 4'
  close a; close b
  expect "$calls calls: no lease is left" "$(as_app 1 "SELECT 1 FROM claims.reconcile(1, 'service', '0'), claims.reconcile(1, 'second', '0')" >/dev/null 2>&1; settled)" soon
done
expect 'no call has failed' "$(lost)" '0 '

# --- many sessions ----------------------------------------------------------------------------------------------------------------

limit 3
cat >"$CLAIMS_TMP/both.sql" <<'SQL'
\set n random(1, 9000000000000000)
\set way random(1, 3)
\if :way = 1
BEGIN;
INSERT INTO users (name) VALUES ('u-' || :n);
SET CONSTRAINTS ALL IMMEDIATE;
INSERT INTO routes (name) VALUES ('r-' || :n);
COMMIT;
\elif :way = 2
INSERT INTO users (name) VALUES ('u-' || :n);
\else
BEGIN;
INSERT INTO routes (name) VALUES ('r-' || :n);
INSERT INTO users (name) VALUES ('u-' || :n);
COMMIT;
\endif
SQL
saves() { ( use_cluster cell1; cd "$CLAIMS_TMP"; pgbench -n -U app -c 12 -j 2 -t 8 -f both.sql postgres 2>&1 | grep -E 'actually processed|number of failed|ERROR|aborted' | tr '\n' ' ' ); }
for calls in 2 300; do
  reload_with "claims.max_service_calls = $calls" claims.max_service_calls $calls
  expect "$calls calls: twelve sessions share three places at each of two services" "$(saves | grep -o '96/96')" '96/96'
done
expect 'no call has failed' "$(lost)" '0 '
expect 'nobody waits any more' "$(waiting)" 0
expect 'the breakers count nothing of this' "$(at cell1 'SELECT coalesce(sum(failures), 0) FROM claims.service_state')" 0
limit -1
