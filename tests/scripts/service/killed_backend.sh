#!/usr/bin/env bash
# kill -9 of a backend before and after the COMMIT of a begin, and of a commit_update: the server recovers, and everything is either done or not done.
. "$(dirname "$0")/../common.bash"

start_cluster killed --fast -c synchronous_commit=on
fresh_database script_killed
have 1 old

# in_session STATEMENT...: a session that runs them and stays; PID is its backend's.
in_session() {
  rm -f "$CLAIMS_TMP/pid" "$CLAIMS_TMP/in" "$CLAIMS_TMP/session"
  mkfifo "$CLAIMS_TMP/in"
  psql -XqAt -d script_killed <"$CLAIMS_TMP/in" >"$CLAIMS_TMP/session" 2>&1 &
  SESSION=$!
  exec 7>"$CLAIMS_TMP/in"
  { printf 'SELECT pg_backend_pid() \\g %s\n' "$CLAIMS_TMP/pid"; printf '%s;\n' "$@"; printf '\\echo ready\n'; } >&7
  wait_until grep -q ready "$CLAIMS_TMP/session"
  PID=$(cat "$CLAIMS_TMP/pid")
}
kill_it() {
  local before
  before=$(checkpointer sql)
  kill -9 "$PID"
  exec 7>&-
  wait "$SESSION" || true
  wait_until has_restarted "$before" sql
}

in_session BEGIN "SELECT claims.begin_update(1, '[$(claim x)]', '[$(bucket old)]', '$(lease 1)')"
expect 'while it lives: in flight' "$(sql "SELECT conflicts->0->>'reason' FROM claims.try_begin_update(2, '[$(claim x)]')")" in_flight
kill_it
expect 'killed before COMMIT: no lease' "$(sql "SELECT claims.lease_outcome(1, '$(lease 1)') IS NULL")" t
expect 'killed before COMMIT: the claim is what it was' "$(sql "SELECT status FROM claims.get_record('ROUTES', 'old')")" ACTIVE
expect 'killed before COMMIT: check' "$(sql 'SELECT count(*) FROM claims.check()')" 0

in_session BEGIN "SELECT claims.begin_update(1, '[$(claim x)]', '[$(bucket old)]', '$(lease 1)')" COMMIT
kill_it
expect 'killed after COMMIT: outstanding' "$(sql "SELECT claims.lease_outcome(1, '$(lease 1)')")" outstanding
expect 'killed after COMMIT: leased' "$(sql "SELECT conflicts->0->>'reason' FROM claims.try_begin_update(2, '[$(claim x)]')")" leased
expect 'killed after COMMIT: it is listed' "$(sql "SELECT lease_uuid FROM claims.list_leases(1)")" "$(lease 1)"
expect 'the begin may be repeated' "$(sql "SELECT claims.begin_update(1, '[$(claim x)]', '[$(bucket old)]', '$(lease 1)')")" "$(lease 1)"

in_session BEGIN "SELECT claims.commit_update(1, '$(lease 1)')"
kill_it
expect 'a commit that was killed: still outstanding' "$(sql "SELECT claims.lease_outcome(1, '$(lease 1)')")" outstanding
expect 'a commit that was killed: check' "$(sql 'SELECT count(*) FROM claims.check()')" 0
expect 'the cell that died is rolled back' "$(sql "SELECT outcome, settled FROM claims.settle_leases(1, '{}', ARRAY['$(lease 1)'::uuid])")" 'rolled_back|t'
expect 'and its names are free' "$(sql "SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim x)]'))")" t
expect 'the old one is what it was' "$(sql "SELECT status, cell_id FROM claims.get_record('ROUTES', 'old')")" 'ACTIVE|1'
expect 'check' "$(sql 'SELECT count(*) FROM claims.check()')" 0

# The cell's own synchronous_commit does not matter: acknowledged calls survive. wal_writer_delay is long, so that the WAL writer does not flush.
sql "ALTER SYSTEM SET wal_writer_delay = '10s'" && sql 'SELECT pg_reload_conf()' >/dev/null
in_session 'SET synchronous_commit = off' 'SELECT 1' "SELECT claims.begin_update(1, '[$(claim off)]', '[]', '$(lease 21)')"
kill_it
expect 'killed after an asynchronous begin: outstanding' "$(sql "SELECT claims.lease_outcome(1, '$(lease 21)')")" outstanding
in_session 'SET synchronous_commit = off' "SELECT claims.commit_update(1, '$(lease 21)')"
kill_it
expect 'killed after an asynchronous commit: committed' "$(sql "SELECT claims.lease_outcome(1, '$(lease 21)')")" committed
# Transfers, corrections, forced rollbacks and epochs survive as well.
asynchronously() { in_session 'SET synchronous_commit = off' 'SELECT 1' "$@"; kill_it; }
owner() { sql "SELECT cell_id, status FROM claims.get_record('ROUTES', 'off')"; }
sql "SELECT claims.prepare_transfer('$(lease 30)', 1, 2, '[{\"type\": \"GROUP\", \"ids\": [1]}]', 'test')" >/dev/null
for act in switch reverse switch; do
  asynchronously "SELECT claims.${act}_transfer('$(lease 30)', 'test')"
  expect "killed after an asynchronous $act" "$(owner)" "$([ $act = switch ] && echo 2 || echo 1)|TRANSFERRING"
done
asynchronously "SELECT claims.finish_transfer('$(lease 30)')"
expect 'killed after an asynchronous finish' "$(owner)" '2|ACTIVE'
asynchronously "SELECT claims.verify_records(2, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '0', true)"
expect 'killed after an asynchronous correction' "$(owner)" ''
sql "SELECT claims.begin_update(1, '[$(claim forced)]', lease_uuid => '$(lease 31)')" >/dev/null
asynchronously "SELECT claims.force_rollback(1, '$(lease 31)', 'test')"
expect 'killed after an asynchronous forced rollback' "$(sql "SELECT claims.lease_outcome(1, '$(lease 31)')")" rolled_back
asynchronously 'SELECT claims.present_epoch(1, 10)'
asynchronously 'SELECT claims.present_epoch(1, 11, 10)'
expect 'killed after an asynchronous epoch' "$(sql 'SELECT epoch FROM claims.cell_epochs WHERE cell_id = 1')" 11
sql 'ALTER SYSTEM RESET wal_writer_delay'
