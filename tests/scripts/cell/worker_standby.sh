#!/usr/bin/env bash
# On a standby there is no worker; it starts after promotion.
. "$(dirname "$0")/../common.bash"

start_cluster primary -c shared_preload_libraries=claims -c claims.databases=postgres -c claims.reconcile_interval=10min \
  -c max_wal_senders=4 -c claims.outcome_retention=1 -c claims.change_retention=1
sql "CREATE EXTENSION claims"
standby=$(cd /tmp && as_server mktemp -d /tmp/claims-standby.XXXXXX)
(cd /tmp && as_server "$CLAIMS_BINDIR/pg_basebackup" -h "$PGHOST" -p "$PGPORT" -U postgres -D "$standby/data" -R -X stream -c fast >/dev/null)
port=$(take_port)
end_standby() { (cd /tmp && as_server "$CLAIMS_BINDIR/pg_ctl" -D "$standby/data" -m immediate stop >/dev/null 2>&1) || true; rm -rf "$standby"; cleanup; }
trap end_standby EXIT
(cd /tmp && as_server "$CLAIMS_BINDIR/pg_ctl" -D "$standby/data" -l "$standby/log" -w -o "-p $port -k $standby" start </dev/null >/dev/null 2>&1)
on_standby() { PGHOST=$standby PGPORT=$port sql "$1"; }
workers="SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('claims worker', 'claims launcher')"

old='SELECT (SELECT count(*) FROM claims.lease_outcomes), (SELECT count(*) FROM claims.change_sets)'

expect 'the primary has launcher and worker' "$(wait_for 2 sql "$workers")" 2
sleep 2
expect 'the standby has no worker' "$(on_standby "$workers")" 0
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
stop_cluster primary
on_standby 'SELECT pg_promote()' >/dev/null
expect 'after the promotion it has both' "$(wait_for 2 on_standby "$workers")" 2
expect 'and the worker drops outcomes and changes that are old' "$(wait_for '0|0' on_standby "$old")" '0|0'
