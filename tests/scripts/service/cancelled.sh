#!/usr/bin/env bash
# statement_timeout and pg_cancel_backend while a call waits: 57014 as from any statement, nothing is changed, and the session continues.
. "$(dirname "$0")/../common.bash"

fresh_database script_cancelled
have 1 d
mkfifo "$CLAIMS_TMP/in"
psql -XqAt -d script_cancelled <"$CLAIMS_TMP/in" >"$CLAIMS_TMP/holder" 2>&1 &
holder=$!
exec 7>"$CLAIMS_TMP/in"
printf '%s\n' 'BEGIN;' "SELECT claims.begin_update(1, '[$(claim x)]', '[$(bucket d)]', '$(lease 1)');" '\echo ready' >&7
wait_until grep -q ready "$CLAIMS_TMP/holder"

# answer STATEMENT: SQLSTATE, message and DETAIL as a client gets them, and what the next statement says.
answer() {
  psql -XqAt -v VERBOSITY=verbose -d script_cancelled -c "SET claims.wait_timeout = '60s'; SET lock_timeout = '55s'; SET statement_timeout = '${2:-300ms}'" -c "$1" -c 'SHOW lock_timeout' 2>&1 \
    | grep -vE '^(LOCATION|CONTEXT)' | tr '\n' ' ' | sed 's/ *$//'
}
cancelled='ERROR:  57014: canceling statement due to statement timeout 55s'
expect 'a create that waits' "$(answer "SELECT claims.begin_update(2, '[$(claim a), $(claim x)]', '[]', '$(lease 2)')")" "$cancelled"
expect 'a try that waits' "$(answer "SELECT * FROM claims.try_begin_update(2, '[$(claim a), $(claim x)]', '[]', '$(lease 2)')")" "$cancelled"
expect 'a destroy that waits' "$(answer "SELECT claims.begin_update(1, '[]', '[$(bucket d)]', '$(lease 2)')")" "$cancelled"
expect 'a repeat that waits' "$(answer "SELECT claims.begin_update(1, '[$(claim q)]', '[]', '$(lease 1)')")" "$cancelled"
expect 'a fence that waits' "$(answer "SELECT claims.rollback_update(1, '$(lease 1)')")" "$cancelled"
expect 'nothing is kept' "$(sql "SELECT claims.lease_outcome(2, '$(lease 2)') IS NULL, count(*) FROM claims.get_record('ROUTES', 'a')")" 't|0'

# pg_cancel_backend, in the middle of a transaction with a savepoint
( wait_for 1 sql "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = 'victim' AND wait_event_type = 'Lock'" >/dev/null ) &
expect 'cancelled, rolled back to a savepoint, and on' "$(PGAPPNAME=victim psql -XqAt -v VERBOSITY=sqlstate -d script_cancelled -c "SET claims.wait_timeout = '60s'" -c BEGIN -c 'SAVEPOINT s' \
  -c "SELECT claims.begin_update(2, '[$(claim a), $(claim x)]', '[]', '$(lease 2)')" -c 'ROLLBACK TO s' -c "SELECT claims.begin_update(2, '[$(claim a)]', '[]', '$(lease 2)')" -c COMMIT 2>&1 | tr '\n' ' ')" "ERROR:  57014 $(lease 2) "
wait %2 2>/dev/null || true
expect 'the smaller batch is there' "$(sql "SELECT status FROM claims.get_record('ROUTES', 'a')")" LEASE_CREATING

# A cancel, and the end of the call's own wait, that come before the process looks: Postgres would tell of the wait alone. So it is
# stopped while both arrive.
sql "SELECT claims.begin_update(1, '[$(claim y)]', '[]', '$(lease 3)')" >/dev/null
printf '%s\n' "SELECT 1 FROM claims.claim_leases WHERE uuid = '$(lease 3)' FOR UPDATE;" '\echo locked' >&7
wait_until grep -q locked "$CLAIMS_TMP/holder"
at_once() {
  local client pid
  PGAPPNAME=at_once psql -XqAt -v VERBOSITY=sqlstate -d script_cancelled -c "SET claims.wait_timeout = '5s'" -c "$1" >"$CLAIMS_TMP/at_once" 2>&1 &
  client=$!
  pid=$(wait_for_any sql "SELECT pid FROM pg_stat_activity WHERE application_name = 'at_once' AND wait_event_type = 'Lock'")
  kill -STOP "$pid"
  sql "SELECT pg_cancel_backend($pid)" >/dev/null
  sleep 5.5
  kill -CONT "$pid"
  wait "$client" || true
  cat "$CLAIMS_TMP/at_once"
}
expect 'a cancel of a begin as its wait ends' "$(at_once "SELECT claims.begin_update(2, '[$(claim x)]', '[]', '$(lease 4)')")" 'ERROR:  57014'
expect 'a cancel of a commit as its wait ends' "$(at_once "SELECT claims.commit_update(1, '$(lease 3)')")" 'ERROR:  57014'
exec 7>&-
wait "$holder" || true
# a large batch, cancelled while it works
expect 'a batch that is cut off' "$(psql -XqAt -v VERBOSITY=sqlstate -d script_cancelled -c 'SET claims.max_batch_size = 100000' -c "SET statement_timeout = '100ms'" -c "SELECT claims.begin_update(1, (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 1, 'value', 'w' || n), 'subject', '{\"type\": 2, \"id\": 1}'::jsonb, 'source', '{\"type\": 3, \"id\": 1}'::jsonb)) FROM generate_series(1, 100000) n))" -c 'SELECT 1' 2>&1 | tr '\n' ' ')" 'ERROR:  57014 1 '
expect 'leaves nothing' "$(sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'w%'")" 0
expect 'check' "$(sql 'SELECT count(*) FROM claims.check()')" 0
sql postgres 'DROP DATABASE script_cancelled'
