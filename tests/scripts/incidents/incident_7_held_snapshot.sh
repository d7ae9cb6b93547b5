#!/usr/bin/env bash
# test: timed
# A report holds its snapshot for hours while leases come and go: seen by metrics(), named, and ended. Reading by key, begins and commits are as
# fast as before all the while, and so are lists of leases, where the library is preloaded. INCIDENT_LEASES: how many leases (40000).
. "$(dirname "$0")/../cells.bash"

leases=${INCIDENT_LEASES:-40000}
start_cells -c shared_preload_libraries=claims -c log_min_messages=panic -c autovacuum=off
at shared "CREATE ROLE watch LOGIN; SELECT claims.grant_monitor('watch'); CREATE ROLE claims_admin LOGIN; GRANT pg_signal_backend, pg_read_all_stats TO claims_admin; CREATE ROLE report LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA claims TO report; GRANT USAGE ON SCHEMA claims TO report" >/dev/null
as_watch() { ( use_cluster shared; export PGUSER=watch; sql "$1" ) }
as_admin() { ( use_cluster shared; export PGUSER=claims_admin; sql "$1" ) }
holder() { as_watch "SELECT labels ->> 'holder', labels ->> 'usename', labels ->> 'name' FROM claims.metrics() WHERE name = 'claims_oldest_snapshot_age_seconds' AND labels ->> 'usename' = 'report'"; }
# cycle COUNT: begins and commits of one claim, and of its end
cycle() {
  as_cell 1 "DO \$\$ BEGIN FOR i IN 1..$1 LOOP
      PERFORM claims.commit_update(1, claims.begin_update(1, jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', 'x$2-' || i % 100 || '-' || i / 200), 'subject', '{\"type\": \"GROUP\", \"id\": 1}'::jsonb, 'source', '{\"type\": \"RAILS_TABLE_ROUTES\", \"id\": 1}'::jsonb))));
      PERFORM claims.commit_update(1, claims.begin_update(1, '[]', jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', 'x$2-' || i % 100 || '-' || i / 200)))));
      COMMIT; END LOOP; END \$\$"
}
# took WHAT: milliseconds of CPU, the mean of thirty in one session
took() {
  ( use_cluster shared; export PGUSER=cell1
    { printf '%s;\n' "$1" "$1" 'SELECT public.cpu_ms()'; for _ in $(seq 1 30); do printf '%s;\n' "$1"; done; echo 'SELECT public.cpu_ms();'; } | psql -XqAt -v ON_ERROR_STOP=1 |
      awk 'NR == 3 { before = $1 } { last = $1 } END { print (last - before) / 30 }' )
}
# at_most TIMES BEFORE AFTER: with what a busy machine adds, whose caches others use
at_most() { awk -v t="$1" -v b="$2" -v a="$3" 'BEGIN { print a <= t * b + 0.5 ? "yes" : a " ms after " b " ms" }'; }
by_key="SELECT count(*) FROM claims.get_record('ROUTES', 'kept')"
begin_commit="SELECT claims.rollback_update(1, claims.begin_update(1, '[$(claim timed)]'))"
list="SELECT count(*) FROM claims.list_leases(1)"

( use_cluster shared; make_cpu_ms )
as_cell 1 "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim kept)]'))" >/dev/null
cycle 500 warm
at shared 'VACUUM (ANALYZE) claims.claim_leases'; at shared 'VACUUM (ANALYZE) claims.claims'
key_before=$(took "$by_key") begin_before=$(took "$begin_commit") list_before=$(took "$list")
expect 'nobody holds one' "$(holder)" ''

open report shared report
tell report "BEGIN ISOLATION LEVEL REPEATABLE READ; SET application_name = 'monthly report'; SELECT count(*) > 0 FROM claims.claims" >/dev/null
cycle $((leases / 4)) a & first=$!
cycle $((leases / 4)) b & second=$!
wait $first $second
expect 'leases have gone by' "$(as_watch "SELECT sum(value) >= $leases FROM claims.metrics() WHERE name = 'claims_begins_total'")" t

# Look.
expect 'it is seen, and named' "$(holder)" 'session|report|monthly report'
expect 'how many transactions it has outlived' "$(as_watch "SELECT value > $leases / 4 FROM claims.metrics() WHERE name = 'claims_oldest_snapshot_transactions' AND labels ->> 'usename' = 'report'")" t
is_older() { as_watch "SELECT value > 1 FROM claims.metrics() WHERE name = 'claims_oldest_snapshot_age_seconds' AND labels ->> 'usename' = 'report'"; }
expect 'and its age grows' "$(wait_for t is_older)" t
at shared 'VACUUM claims.claim_leases'
expect 'vacuum cannot remove what it could see' "$(at shared "SELECT pg_relation_size('claims.claim_leases') > 40 * $leases")" t

# Calls of saves and routers are as fast as before.
expect 'reading by key' "$(at_most 2 "$key_before" "$(took "$by_key")")" yes
expect 'begin and rollback' "$(at_most 2 "$begin_before" "$(took "$begin_commit")")" yes
expect 'a list of no leases, and so recovery' "$(at_most 2 "$list_before" "$(took "$list")")" yes
expect 'metrics are there' "$(as_watch "SELECT count(*) > 50 FROM claims.metrics()")" t

# Act: end it, by the pid that the metric has.
pid=$(as_watch "SELECT labels ->> 'pid' FROM claims.metrics() WHERE name = 'claims_oldest_snapshot_age_seconds' AND labels ->> 'usename' = 'report'")
expect 'the administrator ends it' "$(as_admin "SELECT pg_terminate_backend($pid)")" t
expect 'nobody holds one any more' "$(wait_for '' holder)" ''
at shared 'VACUUM claims.claim_leases'

# Check.
expect 'a list is as fast as before' "$(at_most 2 "$list_before" "$(took "$list")")" yes
expect 'check' "$(at shared 'SELECT count(*) FROM claims.check()')" 0
close report 2>/dev/null || true

# A prepared transaction that nobody ends holds a snapshot, too: the metric has its gid.
as_cell 1 "BEGIN; SELECT claims.begin_update(1, '[$(claim prepared)]'); PREPARE TRANSACTION 'forgotten by somebody'" >/dev/null
expect 'a prepared transaction' "$(as_watch "SELECT DISTINCT labels ->> 'holder', labels ->> 'name', labels ->> 'usename' FROM claims.metrics() WHERE name LIKE 'claims_oldest_snapshot%' AND labels ->> 'holder' LIKE 'prepared%'")" 'prepared transaction|forgotten by somebody|cell1'
as_cell 1 "ROLLBACK PREPARED 'forgotten by somebody'"
