#!/usr/bin/env bash
# Answers to the holder of an expiring claim survive a crash, and so does a fence of recovery, whatever synchronous_commit is.
. "$(dirname "$0")/../common.bash"

# The WAL writer sleeps: only what was flushed at its commit survives a crash.
start_cluster expiring_crash --fast -c synchronous_commit=on -c wal_writer_delay=10s
fresh_database script_expiring_crash
sql "SELECT claims.add_expiring('k', '{a,b}')" >/dev/null

# killed_after STATEMENT...: a session that does not wait for the disk; prints the last answer, and then its backend is killed.
# The checkpoint keeps its WAL records from sharing a page that is flushed for another reason.
killed_after() {
  local before
  before=$(checkpointer sql)
  sql CHECKPOINT
  { printf '%s;\n' 'SET synchronous_commit = off' 'SELECT 1' "$@"
    printf 'SELECT pg_backend_pid() AS pid \\gset\n\\setenv PID :pid\n\\! kill -9 $PID\n'; } \
    | psql -XqAt -d script_expiring_crash 2>/dev/null | tail -1 || true
  wait_until has_restarted "$before" sql
}
state() { sql "SELECT claimant, token, expires_at > clock_timestamp() + interval '$2' FROM claims.expiring_claims WHERE key = '$1'"; }

token=$(killed_after "SELECT token FROM claims.acquire_expiring('k', 'one', '10 min', 1)")
expect 'an acquire survives' "$(state a '0 s')" "one|$token|t"
killed_after "SELECT count(*) FROM claims.renew_expiring('k', 'one', '1 h')" >/dev/null
expect 'a renewal survives' "$(state a '30 min')" "one|$token|t"
# Answers in a transaction that never ended.
in_vain=$(killed_after BEGIN "SELECT token FROM claims.acquire_expiring('k', 'two', '1 h')")
expect 'the acquire is undone' "$(sql "SELECT claimant IS NULL FROM claims.expiring_claims WHERE key = 'b'")" t
next=$(sql "SELECT token FROM claims.acquire_expiring('k', 'two', '1 h')")
expect 'a token is not given out twice' "$((next > in_vain && in_vain > token))" 1
expect 'a key is held by one' "$(sql "SELECT string_agg(key || claimant, ' ' ORDER BY key) FROM claims.expiring_claims")" 'aone btwo'
killed_after "SELECT claims.remove_expiring('k', '{a}')" >/dev/null
expect 'a removed key stays removed' "$(sqlstate "SELECT claims.assert_held('k', 'a', $token)")" 55000

sql "SELECT claims.enqueue_request('q', 'e', 'update')" >/dev/null
killed_after "SELECT id FROM claims.take_requests('q', '$(lease 1)', hold_for => '10 min')" >/dev/null
expect 'a hold survives' "$(sql 'SELECT status, process_id FROM claims.requests')" "in-progress|$(lease 1)"
killed_after "SELECT claims.extend_requests('$(lease 1)', '1 h')" >/dev/null
expect 'an extension survives' "$(sql "SELECT hold_until > clock_timestamp() + interval '30 min' FROM claims.requests")" t

judge="SELECT verdict FROM claims.judge_leases('[{\"lease_uuid\": \"$(lease 3)\", \"created_at\": \"2020-01-01\"}]')"
expect 'a fence, and the verdict that rests on it' "$(killed_after "$judge" "$judge")" rollback
expect 'the fence survives' "$(sqlstate "SELECT claims.track_lease('$(lease 3)')")" 55000
