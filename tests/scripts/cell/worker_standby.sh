#!/usr/bin/env bash
# On a standby there is no worker; it starts after promotion.
. "$(dirname "$0")/../common.bash"

start_cluster primary -c shared_preload_libraries=claims -c claims.databases=postgres -c claims.reconcile_interval=10min \
  -c max_wal_senders=4 -c claims.outcome_retention=1 -c claims.change_retention=1
sql "CREATE EXTENSION claims"
make_standby
workers="SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('claims worker', 'claims launcher')"

old='SELECT (SELECT count(*) FROM claims.lease_outcomes), (SELECT count(*) FROM claims.change_sets)'

expect 'the primary has launcher and worker' "$(wait_for 2 sql "$workers")" 2
sleep 2
expect 'the standby has no worker' "$(on_standby sql "$workers")" 0
# No cell is attended to, and nothing is old: it is due in ten minutes.
pid=$(sql "SELECT pid FROM pg_stat_activity WHERE backend_type = 'claims worker'")
wakes() { awk '/^voluntary_ctxt_switches/ { print $2 }' "/proc/$pid/status"; }
woken=$(wakes)
sleep 3
expect 'with nothing to do its worker sleeps' "$([ $(($(wakes) - woken)) -le 2 ] && echo yes)" yes
sql "INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome, settled_at) VALUES (gen_random_uuid(), 1, 'committed', now() - interval '1 hour')"
sql "INSERT INTO claims.change_sets (at, op, new_cell_id, actor, bucket_types, bucket_values) VALUES (now() - interval '1 hour', 'create', 1, 'somebody', '{1}', '{old}')"
# The worker keeps its intervals: the next purge is due.
sql "UPDATE claims.pass_log SET started_at = started_at - interval '1 hour', ended_at = ended_at - interval '1 hour' WHERE kind = 'purge'"
# Replication is asynchronous, and the primary is stopped as in a crash.
caught_up
stop_cluster primary
control standby promote
expect 'after the promotion it has both' "$(wait_for 2 on_standby sql "$workers")" 2
expect 'and the worker drops outcomes and changes that are old' "$(wait_for '0|0' on_standby sql "$old")" '0|0'
