#!/usr/bin/env bash
# A switch-over that a kept connection survives: primary and standby change places behind a pooler, which keeps the connections of its clients and
# connects to the old primary again.
. "$(dirname "$0")/../cells.bash"

start_cells
trap 'kill "${pooler:-}" 2>/dev/null || true; for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup' EXIT
use_cluster shared
make_standby other
wait_for 1 at shared "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'" >/dev/null

python3 "$(dirname "$0")/transaction_pooler.py" "$CLAIMS_TMP/port" "${CLUSTER_DIR[shared]}/.s.PGSQL.${CLUSTER_PORT[shared]}" 0 &
pooler=$!
wait_until test -s "$CLAIMS_TMP/port"
port=$(cat "$CLAIMS_TMP/port")
# Cell 1 knows both servers, cell 2 only what is behind the pooler.
at cell1 "ALTER SERVER service OPTIONS (SET host '127.0.0.1,127.0.0.1', SET port '$port,${CLUSTER_PORT[other]}', ADD target_session_attrs 'read-write')"
# The pooler asks for no password, which only a superuser may go without.
at cell2 "ALTER ROLE claims_owner SUPERUSER; ALTER SERVER service OPTIONS (SET port '$port')"
for n in 1 2; do
  at "cell$n" "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); SELECT claims.automatic($n, 'service')" >/dev/null
  open "app$n" "cell$n"
  expect "cell $n saves" "$(tell "app$n" "INSERT INTO routes (name) VALUES ('before$n')")" ''
done
wait_for 0 at shared 'SELECT count(*) FROM claims.claim_leases' >/dev/null

halt shared
control other promote
# The old primary becomes the standby of the new one.
(cd /tmp && as_server sh -c "printf '%s\n' \"primary_conninfo = 'host=${CLUSTER_DIR[other]} port=${CLUSTER_PORT[other]} user=postgres'\" \
  >> '${CLUSTER_DIR[shared]}/data/postgresql.auto.conf'; touch '${CLUSTER_DIR[shared]}/data/standby.signal'")
resume shared
expect 'they have changed places' "$(at shared 'SELECT pg_is_in_recovery()') $(at other 'SELECT pg_is_in_recovery()')" 't f'
wait_for 1 at other "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'" >/dev/null

expect 'where there is no other host the error is told' "$(tell app2 "INSERT INTO routes (name) VALUES ('refused')")" 'ERROR:  25006'
sessions() { at other "SELECT count(*) || ' ' || coalesce(min(pid), 0) FROM pg_stat_activity WHERE usename = 'cell1'"; }
expect 'nobody is connected to the new primary yet' "$(sessions)" '0 0'
expect 'the session saves at the new primary, at once' "$(tell app1 "INSERT INTO routes (name) VALUES ('after')")" ''
kept=$(sessions)
expect 'over one new connection' "${kept% *}" 1
expect 'which is kept' "$(tell app1 "INSERT INTO routes (name) VALUES ('later')")$(sessions)" "$kept"
wait_for 0 at other 'SELECT count(*) FROM claims.claim_leases' >/dev/null
expect 'all names are there' "$(at other "SELECT string_agg(bucket_value || ' ' || status, ', ' ORDER BY created_at) FROM claims.claims WHERE creator_id = 1")" 'before1 1, after 1, later 1'
expect 'the standby has them, too' "$(wait_for 3 at shared 'SELECT count(*) FROM claims.claims WHERE creator_id = 1')" 3
expect 'no failure was counted' "$(tell app1 'SELECT breaker, failures FROM claims.service_state')" 'closed|0'
