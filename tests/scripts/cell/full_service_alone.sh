#!/usr/bin/env bash
# Without preloading: a session that finds no place at a full service tries again within its timeout, and one that does not call closes its connection.
. "$(dirname "$0")/../cells.bash"

start_cells
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); SELECT claims.automatic(1, 'service')" >/dev/null
expect 'the library is not preloaded' "$(at cell1 'SHOW shared_preload_libraries')" ''
connections() { at shared "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'claims cell 1'"; }
add() { printf "INSERT INTO routes (name) VALUES ('%s');" "$1"; }

# --- a service that is full ---------------------------------------------------------------------------------------------------

at shared 'ALTER ROLE cell1 CONNECTION LIMIT 1'
open has cell1; tell has "BEGIN; $(add held) SET CONSTRAINTS ALL IMMEDIATE" >/dev/null
open wants cell1
expect 'who finds no place within its timeout: 53300' "$(tell wants "SET claims.service_timeout = '400ms'; $(add refused)")" 'ERROR:  53300'
for _ in 1 2 3 4 5; do tell wants "$(add refused)" >/dev/null; done
expect 'the breaker counts nothing of this' "$(tell wants 'SELECT coalesce(sum(failures), 0) FROM claims.service_state')" 0
send wants "SET claims.service_timeout = '60s'; $(add waited)"
expect 'it waits' "$(wait_for 1 at cell1 "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app' AND state = 'active' AND query LIKE '%waited%'")" 1
tell has COMMIT >/dev/null
close has
expect 'and takes a place that comes free' "$(wait_for 1 at shared "SELECT count(*) FROM claims.claims WHERE bucket_value = 'waited' AND status = 1")" 1
close wants
at shared 'ALTER ROLE cell1 CONNECTION LIMIT -1'

# --- idle connections -----------------------------------------------------------------------------------------------------------

expect 'nobody is connected' "$(wait_for 0 connections)" 0
open kept cell1; open idle cell1
tell kept "SET claims.service_idle_timeout = 0; $(add kept-1)" >/dev/null
tell idle "SET claims.service_idle_timeout = '1s'; $(add idle-1)" >/dev/null
expect 'the one that does not call closes its connection, although its client sends nothing' "$(wait_for 1 connections)" 1
expect 'its next call opens another one' "$(tell idle "$(add idle-2)") $(wait_for 2 at shared "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'idle-%' AND status = 1")" ' 2'
sleep 2
expect 'with 0 it is kept' "$(wait_for 1 connections) $(tell kept "$(add kept-2)")" '1 '
for name in kept idle; do close "$name"; done
expect 'check' "$(at shared 'SELECT count(*) FROM claims.check()')" 0
