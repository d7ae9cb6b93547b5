#!/usr/bin/env bash
# Synchronous replication: acknowledged calls survive the loss of the primary; read_after on standbys.
. "$(dirname "$0")/../common.bash"

start_cluster synchronous --fast -c fsync=on -c synchronous_commit=on -c wal_level=replica -c max_wal_senders=4 -c hot_standby=on \
  -c shared_preload_libraries=claims -c max_prepared_transactions=4 -c wal_receiver_status_interval=1
fresh_database script_synchronous
sql "SELECT claims.grant_read('script_claims_router')" >/dev/null

make_standby standby "cluster_name = 'b'"
until_is() { [ "$(wait_for "$2" sql "$1")" = "$2" ] || die "$1 never is $2"; } # QUERY VALUE
set_standbys() { sql "ALTER SYSTEM SET synchronous_standby_names = '$1'" && sql 'SELECT pg_reload_conf()' >/dev/null && until_is 'SHOW synchronous_standby_names' "$1"; }
begin() { printf "SELECT claims.begin_update(1, '[%s]', '[]', '%s')" "$(claim "$1")" "$(lease "$2")"; }
# Prints the answer of a session, or "waits" if it waits for a standby; then cancels the wait. The transaction has then committed on the primary,
# maybe only there.
answer() {
  local session
  PGAPPNAME=answers PGOPTIONS='-c synchronous_commit=off' psql -XqAt -v VERBOSITY=terse -c "$1" >"$CLAIMS_TMP/answer" 2>&1 &
  session=$!
  while kill -0 $session 2>/dev/null && [ "$(sql "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = 'answers' AND wait_event = 'SyncRep'")" != 1 ]; do sleep 0.02; done
  wait $session || true
  sed 's/^WARNING:  canceling wait.*/waits/; /^NOTICE/d' "$CLAIMS_TMP/answer" | head -1
}

sql "ALTER SYSTEM SET claims.require_synchronous = on" && sql 'SELECT pg_reload_conf()' >/dev/null
until_is 'SHOW claims.require_synchronous' on
for call in "$(begin x 1)" "SELECT claims.commit_update(1, '$(lease 1)')" "SELECT claims.rollback_update(1, '$(lease 1)')" \
  "SELECT * FROM claims.settle_leases(1, ARRAY['$(lease 1)'::uuid])" "SELECT * FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', correct => true)"; do
  expect "refused without a standby: ${call:0:40}" "$(sqlstate "$call")" 55000
done
expect 'reading works without a standby' "$(sql "SELECT count(*) FROM claims.list_leases(1)")" 0
expect 'so does dropping what is old' "$(sql "SELECT claims.purge_outcomes()")" 0
expect 'a cell cannot turn it off' "$(PGUSER=script_claims_one sqlstate 'SET claims.require_synchronous = off')" 42501

set_standbys b
until_is "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'" 1
expect 'with a standby' "$(sql "$(begin a 2)")" "$(lease 2)"
expect 'with a standby' "$(sql "SELECT claims.commit_update(1, '$(lease 2)')")" t
expect 'prepared' "$(psql -XqAt -v VERBOSITY=sqlstate -c BEGIN -c "$(begin prepared 3)" -c "PREPARE TRANSACTION 'p'" 2>&1 | grep -oE '[0-9A-Z]{5}$' | tail -1)" 55000
expect 'nothing is left of it' "$(sql "SELECT count(*) FROM claims.records WHERE bucket_value = 'prepared'")" 0
expect 'a savepoint that was rolled back' "$(psql -XqAt -c BEGIN -c 'SAVEPOINT s' -c "$(begin undone 4)" -c 'ROLLBACK TO s' -c COMMIT -c 'SHOW synchronous_commit' | tail -1)" on

# read_after
expect 'read_after' "$(on_standby sql "SELECT claims.read_after('$(lease 2)')")" t
expect 'read_after as a router' "$(PGUSER=script_claims_router on_standby sql "SELECT claims.read_after('$(lease 2)')")" t
expect 'read_after on the primary' "$(sql "SELECT claims.read_after('$(lease 2)', '0')")" t
sql "$(begin later 5)" >/dev/null
expect 'an outstanding lease has not ended' "$(on_standby sql "SELECT claims.read_after('$(lease 5)', '50 ms')")" f
on_standby sql 'SELECT pg_wal_replay_pause()' >/dev/null
sql "SELECT claims.commit_update(1, '$(lease 5)')" >/dev/null
expect 'it is not there before it is replayed' "$(on_standby sql "SELECT claims.read_after('$(lease 5)', '100 ms')")" f
(sleep 0.5; on_standby sql 'SELECT pg_wal_replay_resume()' >/dev/null) &
expect 'it waits' "$(on_standby sql "SELECT claims.read_after('$(lease 5)', '20 s')")" t
expect 'and then the claim is there' "$(on_standby psql -XqAt -c "SELECT claims.read_after('$(lease 5)')" -c "SELECT status FROM claims.get_record('ROUTES', 'later')" | tail -1)" ACTIVE
wait
expect 'an old snapshot that shows it' "$(on_standby psql -XqAt -c 'BEGIN ISOLATION LEVEL REPEATABLE READ' -c "SELECT claims.read_after('$(lease 5)')")" t
expect 'an old snapshot that does not' "$(on_standby psql -XqAt -v VERBOSITY=sqlstate -c 'BEGIN ISOLATION LEVEL REPEATABLE READ' -c "SELECT claims.read_after('$(lease 99)')" 2>&1 | grep -oE '[0-9A-Z]{5}$')" 25001
for timeout in NULL "'-1 s'" "'1000000 years'"; do
  expect "read_after, $timeout" "$(sqlstate "SELECT claims.read_after('$(lease 5)', $timeout)")" 22023
done
expect 'read_after NULL' "$(sqlstate "SELECT claims.read_after(NULL)")" 22023
expect 'read_after is cancelled' "$(psql -XqAt -v VERBOSITY=sqlstate -c 'SET statement_timeout = 200' -c "SELECT claims.read_after('$(lease 99)', '1 day')" 2>&1 | grep -oE '[0-9A-Z]{5}$')" 57014
sql 'CREATE ROLE script_claims_nobody LOGIN'
expect 'nobody else' "$(PGUSER=script_claims_nobody sqlstate "SELECT claims.read_after('$(lease 5)')")" 42501

# A session with synchronous_commit = off waits nevertheless, and so does a repeat of a cancelled call.
sql "$(begin waits 6)" >/dev/null
sql "$(begin unflushed 9)" >/dev/null
sql "$(begin changed 10)" >/dev/null
control standby stop
expect 'a commit waits' "$(answer "SELECT claims.commit_update(1, '$(lease 6)')")" waits
expect 'its repeat waits' "$(answer "SELECT claims.commit_update(1, '$(lease 6)')")" waits
expect 'what need not be flushed waits, too' "$(answer "SELECT claims.commit_unflushed(1, '$(lease 9)')")" waits
turned() { printf "set_config('claims.require_synchronous', '%s', true)" "$1"; }
begun=$(begin changed11 11)
expect 'so it does if the setting was turned on after it, before a begin' \
  "$(answer "SELECT $(turned off), claims.commit_unflushed(1, '$(lease 10)'), $(turned on), ${begun#SELECT }")" waits
expect 'a begin waits' "$(answer "$(begin waits7 7)")" waits
expect 'its repeat waits' "$(answer "$(begin waits7 7)")" waits
expect 'a fence waits' "$(answer "SELECT claims.rollback_update(1, '$(lease 8)')" )" waits
expect 'settle_leases waits, also for what was settled before' "$(answer "SELECT * FROM claims.settle_leases(1, ARRAY['$(lease 6)'::uuid])")" waits
expect 'a correction waits' "$(answer "SELECT * FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', correct => true, recent => '0')")" waits
expect 'reading does not wait' "$(answer "SELECT cell_id FROM claims.get_record('ROUTES', 'waits7')")" 1

# The primary is lost, and the standby has all acknowledged calls.
control standby start
until_is "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'" 1
told=0
for number in $(seq 100 130); do
  [ "$(PGOPTIONS='-c synchronous_commit=off' sql "$(begin "kept$number" "$number")")" = "$(lease "$number")" ] && told=$((told + 1))
done
expect 'all were told' "$told" 31
stop_cluster synchronous
control standby promote
expect 'nothing is lost' "$(on_standby sql "SELECT count(*) FROM claims.records WHERE bucket_value LIKE 'kept%'")" 31
on_standby sql 'ALTER SYSTEM SET claims.require_synchronous = on'
on_standby sql 'SELECT pg_reload_conf()' >/dev/null
wait_for on on_standby sql 'SHOW claims.require_synchronous' >/dev/null
expect 'the new primary refuses until it has a standby of its own' "$(on_standby sqlstate "SELECT claims.commit_update(1, '$(lease 100)')")" 55000
expect 'check' "$(on_standby sql "SELECT count(*) FROM claims.check()")" 0
