#!/usr/bin/env bash
# Calls that wait for names, where the library is preloaded: order, priority, several names, what a waiter holds, cancels, deaths, wake-ups by every
# way in which a lease ends, metrics.
. "$(dirname "$0")/../waiters.bash"
start_cluster waits --fast -c shared_preload_libraries=claims -c max_prepared_transactions=5
fresh_database script_waits

# --- order -----------------------------------------------------------------------------------------------------------
l=$(begin 1 ada)
began=$(sql 'SELECT clock_timestamp()')
queue a 2 0 30s ada
queue b 1 0 30s ada
queue c 2 0 30s ada
expect 'the view shows which process waits since when' \
  "$(sql "SELECT string_agg(right(application_name, 1), '' ORDER BY position) || bool_and(since >= '$began') || bool_and(clock_timestamp() - since > '0') FROM claims.lease_waiters JOIN pg_stat_activity USING (pid)")" abctruetrue
expect 'the view shows the order' "$(sql "SELECT string_agg(format('%s %s %s %s', cell_id, priority, names, position), ', ') FROM claims.lease_waiters")" '2 0 1 1, 1 0 1 2, 2 0 1 3'
expect 'a later begin without lease_wait meets the lease' "$(reasons 1 ada)" leased
roll_back 1 "$l"
expect 'the first one gets it' "$(answer a)" got
for pair in 'a b 2' 'b c 1'; do
  set -- $pair
  expect 'the others wait for the next lease' "$(reasons 1 ada)" leased
  roll_back "$3" "$(lease_of "$1")"
  expect 'and get it in their order' "$(answer "$2")" got
done
clean

# --- priority, and what a commit does ------------------------------------------------------------------------------
sql "SELECT claims.set_cell_limits(2, 'test', max_priority => 5)" >/dev/null
expect 'a priority beyond the limit' "$(waits p 2 6 1s bea; answer p)" 42501
expect 'and without a limit' "$(waits p 1 1 1s bea; answer p)" 42501
l=$(begin 1 bea)
queue a 1 0 30s bea
queue b 2 5 30s bea
queue c 1 -1 30s bea
expect 'a higher priority goes first' "$(sql "SELECT string_agg(priority::text, ', ') FROM claims.lease_waiters")" '5, 0, -1'
roll_back 1 "$l"
expect 'and gets the name' "$(answer b)" got
commit 2 "$(lease_of b)"
expect 'a name that is taken for good is refused at once' "$(answer a) $(answer c)" '23505 23505'
expect 'with the time of the wait' "$(grep -c waited_seconds "$CLAIMS_TMP/a")" 1
# one permanent conflict: answered at once
l=$(begin 1 cyd)
expect 'a permanent conflict beside a temporary one' "$(waits a 1 0 60s bea cyd; answer a)" 23505
expect 'with all conflicts' "$(grep -oE '"reason":"[a-z_]+"' "$CLAIMS_TMP/a" | tr '\n' ' ')" '"reason":"taken" "reason":"leased" '
expect 'and without a wait' "$(grep -c waited_seconds "$CLAIMS_TMP/a")" 0
expect 'nothing is waited for under SERIALIZABLE' \
  "$(PGOPTIONS='-c default_transaction_isolation=serializable -c claims.lease_wait=60s' sqlstate "SELECT claims.begin_update(1, '$(names cyd)')")" 55P03
expect 'nothing is waited for under REPEATABLE READ' \
  "$(PGOPTIONS='-c default_transaction_isolation=repeatable\ read -c claims.lease_wait=60s' sqlstate "SELECT claims.begin_update(1, '$(names cyd)')")" 55P03
m=$(begin 1 dot)
waits a 2 0 200ms cyd dot
expect 'the end of the time' "$(answer a)" 55P03
expect 'with the time in each entry of DETAIL' "$(grep -oE '"reason":"leased"[^}]*"waited_seconds":[0-9]+(\.[0-9]+)?' "$CLAIMS_TMP/a" | sed 's/.*://' | awk '$1 >= 0.2' | wc -l)" 2
roll_back 1 "$m"

# --- what a waiter holds -------------------------------------------------------------------------------------------
queue a 2 0 30s cyd
# While it looks, it has some of them for a moment.
holds() { sql "SELECT (backend_xid IS NULL, backend_xmin IS NULL, (SELECT count(*) FROM pg_locks l WHERE l.pid = a.pid AND locktype <> 'virtualxid')) FROM pg_stat_activity a WHERE application_name = 'waiter a'"; }
expect 'a waiter holds no id, no snapshot and no lock' "$(wait_for '(t,t,0)' holds)" '(t,t,0)'
sql 'CREATE TABLE v AS SELECT 1 AS n'; sql 'DELETE FROM v'
vacuumed() { sql 'VACUUM v'; sql "SELECT pg_relation_size('v')"; }
expect 'VACUUM is not held back' "$(wait_for 0 vacuumed)" 0
# by every way in which a lease ends
sql "SELECT claims.settle_leases(1, rollback_leases => ARRAY['$l']::uuid[])" >/dev/null
expect 'settle_leases wakes' "$(answer a)" got
queue b 1 0 30s cyd
sql "SELECT claims.force_rollback(2, '$(lease_of a)', 'test')" >/dev/null
expect 'force_rollback wakes' "$(answer b)" got
queue c 2 0 30s cyd
psql -XqAt -c BEGIN -c "SELECT claims.rollback_update(1, '$(lease_of b)')" -c "PREPARE TRANSACTION 'p'" >/dev/null
sleep 0.3
expect 'a prepared transaction has not ended' "$(waiting)" 1
sql "COMMIT PREPARED 'p'"
expect 'COMMIT PREPARED wakes' "$(answer c)" got
clean
expect 'nobody is left' "$(waiting)" 0

# --- several names ---------------------------------------------------------------------------------------------------
l=$(begin 1 dan)
m=$(begin 1 eve)
queue a 2 0 30s dan eve fay
queue b 1 0 30s eve dan
expect 'a free name is not kept' "$(sql "SELECT claims.rollback_update(1, claims.begin_update(1, '$(names fay)'))")" t
roll_back 1 "$l"
sleep 0.2
expect 'a name that has come free and that nobody can use yet is not kept' "$(n=$(begin 1 dan) && roll_back 1 "$n" && echo t)" t
roll_back 1 "$m"
expect 'the first one gets all its names' "$(answer a)" got
roll_back 2 "$(lease_of a)"
expect 'then the second one' "$(answer b)" got
clean

# --- a begin that waits for a row (claims.wait_timeout) ------------------------------------------------------------
# While another transaction holds the name, it must not wait for the row: it would have the name before who waits in the queue.
coproc psql -XqAt
echo "BEGIN; SELECT left(claims.begin_update(1, '$(names pip)')::text, 0) || 'open';" >&"${COPROC[1]}"
read -r -u "${COPROC[0]}" _
queue a 2 0 60s pip
expect 'a begin with wait_timeout is queued behind a waiter' \
  "$(PGOPTIONS='-c claims.wait_timeout=60s' reasons 1 pip)" 'queued 1'
echo 'ROLLBACK;' >&"${COPROC[1]}"
expect 'who gets the name' "$(answer a)" got
exec {COPROC[1]}>&-
clean

# --- cancel, timeout, death ------------------------------------------------------------------------------------------
l=$(begin 1 gus)
queue a 2 0 30s gus
sql "SELECT pg_cancel_backend(pid) FROM claims.lease_waiters" >/dev/null
expect 'a cancel' "$(answer a)" 57014
expect 'leaves nothing behind' "$(waiting)" 0
expect 'statement_timeout' "$(PGOPTIONS='-c statement_timeout=300ms' waits a 2 0 30s gus; answer a)" 57014
expect 'leaves nothing behind either' "$(waiting)" 0
queue a 2 0 30s gus
sql "SELECT pg_terminate_backend(pid) FROM claims.lease_waiters" >/dev/null
ended a
expect 'nor does the end of the process' "$(waiting)" 0
PGOPTIONS='-c claims.lease_wait=60s' psql -XqAtc "SELECT claims.begin_update(2, '$(names gus)')" >/dev/null 2>&1 &
wait_until is_there 1
kill -KILL $!
wait $! 2>/dev/null || true
expect 'nor does the end of the client' "$(WAIT_LIMIT_SECONDS=30 wait_for 0 waiting)" 0
# a stopped process loses its turn after 100 ms
queue a 2 0 30s gus
queue b 1 0 30s gus
stopped=$(sql "SELECT pid FROM claims.lease_waiters WHERE position = 1")
follows=$(sql "SELECT pid FROM claims.lease_waiters WHERE position = 2")
kill -STOP "$stopped" "$follows"
# (for 100 ms for the first one, and then for the second one: on a slow machine the first one may be gone)
refused=$(psql -XqAt -c "SELECT claims.rollback_update(1, '$l')" -c "SELECT c->>'reason', c->>'waiting' FROM claims.try_begin_update(1, '$(names gus)'), jsonb_array_elements(conflicts) c" | sed -n '2s/|[12]$//p')
expect 'while the name is kept, a later begin is refused' "$refused" queued
kill -CONT "$follows"
expect 'who follows a stopped process gets the name' "$(answer b)" got
kill -CONT "$stopped"
roll_back 1 "$(lease_of b)"
expect 'which keeps its position' "$(answer a)" got
clean
# a crash of a backend restarts the server without waiters
l=$(begin 1 hal)
queue a 2 0 30s hal
before=$(checkpointer sql)
kill -KILL "$(sql 'SELECT pid FROM claims.lease_waiters')"
ended a
wait_until has_restarted "$before" sql
expect 'a crash leaves nothing' "$(waiting)" 0
roll_back 1 "$l"

# --- a call that waits for itself ----------------------------------------------------------------------------------
expect 'a lease of the same transaction is not waited for' \
  "$(timeout 20 psql -XqAt -v VERBOSITY=sqlstate -c "SET claims.lease_wait = '60s'" -c BEGIN -c "SELECT claims.begin_update(1, '$(names ian)') IS NULL" -c "SELECT claims.begin_update(1, '$(names ian)')" 2>&1 | tail -1)" 'ERROR:  55P03'

# --- metrics ---------------------------------------------------------------------------------------------------------
l=$(begin 1 kim)
queue a 2 0 30s kim
metric() { sql "SELECT coalesce(sum(value), 0) FROM claims.metrics() WHERE name = '$1' AND labels @> '$2'"; }
expect 'waiters now' "$(metric claims_lease_waiters '{"cell": "2"}')" 1
got=$(metric claims_lease_waits_total '{"cell": "2", "end": "got"}')
roll_back 1 "$l"
answer a >/dev/null
expect 'waits that succeeded' "$(metric claims_lease_waits_total '{"cell": "2", "end": "got"}')" $((got + 1))
waits a 1 0 100ms kim; answer a >/dev/null
expect 'and those that did not' "$(metric claims_lease_waits_total '{"cell": "1", "end": "timeout"}')" 1
waits a 1 0 60s kim
wait_until is_there 1
sql 'SELECT pg_cancel_backend(pid) FROM claims.lease_waiters' >/dev/null
answer a >/dev/null
expect 'that were canceled' "$(metric claims_lease_waits_total '{"cell": "1", "end": "cancelled"}')" 1
queue a 1 0 60s kim
commit 2 "$(sql 'SELECT uuid FROM claims.claim_leases')"
answer a >/dev/null
expect 'or ended with a name that is taken' "$(metric claims_lease_waits_total '{"cell": "1", "end": "taken"}')" 1
expect 'the histogram counts them all' "$(metric claims_lease_wait_duration_seconds_count '{"cell": "1"}')" "$(sql "SELECT sum(value) FROM claims.metrics() WHERE name = 'claims_lease_waits_total' AND labels @> '{\"cell\": \"1\"}'")"
# a database that is dropped, and an extension
l=$(begin 1 leo)
queue a 2 0 30s leo
psql -XqAt -c "SET lock_timeout = '10s'" -c "DROP EXTENSION claims CASCADE"
expect 'DROP EXTENSION does not wait' "$(answer a | grep -vc got)" 1
expect 'and leaves no waiter' "$(sql 'CREATE EXTENSION claims'; waiting)" 0
