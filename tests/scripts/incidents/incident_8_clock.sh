#!/usr/bin/env bash
# The service's clock jumps a week ahead, and back. No decision is wrong meanwhile; rows dated in the future are listed, settled and verified like
# others.
. "$(dirname "$0")/../cells.bash"

library=$(find /usr/lib -name libfaketime.so.1 2>/dev/null | head -1)
[ -n "$library" ] || { echo 'ok: skipped, there is no libfaketime (scripts/setup installs it)'; exit 0; }
start_cells -c log_min_messages=panic
at shared "CREATE ROLE watch LOGIN; SELECT claims.grant_monitor('watch')" >/dev/null
at shared "CREATE ROLE claims_admin LOGIN; GRANT postgres TO claims_admin" >/dev/null
as_admin() { ( use_cluster shared; export PGUSER=claims_admin; sql "$1" ) }
as_watch() { ( use_cluster shared; export PGUSER=watch; sql "$1" ) }
clock() { ( halt shared; [ -z "${1:-}" ] || export LD_PRELOAD=$library FAKETIME=$1 DONT_FAKE_MONOTONIC=1 FAKETIME_DONT_FAKE_MONOTONIC=1; resume shared ); }
ahead() { at shared "SELECT round(extract(epoch FROM clock_timestamp() - to_timestamp($(date +%s))) / 86400)"; }
future() { as_watch "SELECT value FROM claims.metrics() WHERE name = 'claims_future_leases' AND labels ->> 'cell' = '1'"; }
pass() { as_app 1 "SELECT committed, rolled_back, pending, orphaned FROM claims.reconcile(1, 'service')" 2>>"$CLAIMS_TMP/warnings"; }
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); GRANT SELECT ON routes TO PUBLIC" >/dev/null

# Before: a lease that is saved and settled, but not forgotten; one in an open transaction; one that is not saved yet.
save 1 1 settled; commit 1 1 >/dev/null
open late cell1
xid=$(tell late 'BEGIN; SELECT pg_current_xact_id()')
begin 1 2 open "$xid"
begin 1 3 young
expect 'the clock is right' "$(ahead)" 0

# --- a week ahead ----------------------------------------------------------------------------------------------------------

clock +8d
expect 'the clock is a week ahead' "$(ahead)" 8
expect 'purging drops every outcome' "$(at shared 'SELECT claims.purge_outcomes()')" 1
expect 'what has not been saved for a week, as it seems, is fenced first; what is in an open transaction waits' "$(pass)" '0|0|2|1'
expect 'the next pass gives it up' "$(pass)" '0|1|1|1'
expect 'who was only late cannot save under it any more' "$(state_as_app 1 "BEGIN; INSERT INTO routes (name) VALUES ('young'); $(track 3) COMMIT")" 55000
tell late "INSERT INTO routes (name) VALUES ('open'); $(track 2) COMMIT" >/dev/null
expect 'the open one has saved, and is committed' "$(pass)" '1|0|0|1'
begin 1 4 dated
save 1 5 kept
as_cell 1 "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim extra 77)]'))" >/dev/null
as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim elsewhere)]'))" >/dev/null
at shared "SELECT claims.purge_changes('100 years')" >/dev/null
as_admin "SELECT claims.prepare_transfer('$(lease 8)', 2, 1, '[{\"type\": \"GROUP\", \"ids\": [8]}]', 'test'); SELECT claims.cancel_transfer('$(lease 8)', 'test')" >/dev/null

# --- and back ----------------------------------------------------------------------------------------------------------------

clock
expect 'the clock is right again' "$(ahead)" 0

# Look.
expect 'leases from the future' "$(future)" 2
expect 'the clock itself is a metric' "$(as_watch "SELECT abs(value - $(date +%s)) < 60 FROM claims.metrics() WHERE name = 'claims_time_seconds'")" t
expect 'check() tells of them, and of what was settled then' "$(as_watch "SELECT count(*) FILTER (WHERE problem ~ 'future|ahead') > 2, count(*) = count(*) FILTER (WHERE problem ~ 'future|ahead') FROM claims.check()")" 't|t'
expect 'the oldest is not older than nothing' "$(as_watch "SELECT value FROM claims.metrics() WHERE name = 'claims_oldest_lease_age_seconds' AND labels ->> 'cell' = '1'")" 0

# Act: ordinary recovery. It does not wait for the end of the week.
expect 'what was saved is committed, the other one fenced' "$(pass)" '1|0|1|1'
expect 'and given up' "$(pass)" '0|1|0|1'
expect 'none from the future any more' "$(future)" 0
expect 'what it is sure of' "$(outcome 1 5) $(outcome 1 4)" 'committed rolled_back'

# Outcomes that were purged: no claim is missing, and tracked leases are forgotten.
expect 'the service does not know one any more' "$(as_app 1 'SELECT right(lease_uuid::text, 1), outcome FROM claims.orphans(1)')" '1|'
expect 'a claim that is extra is no recent one, though it is from the future' "$(as_app 1 "SELECT missing, different, extra, corrected, skipped FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '1 minute', correct => true)")" '0|2|1|2|1'
expect 'what has just been settled is' "$(as_app 1 "SELECT missing, different, extra, corrected, skipped FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0', correct => true)")" '0|1|0|1|0'
expect 'and then nothing' "$(as_app 1 "SELECT missing, different, extra FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0')")" '0|0|0'
as_app 1 'SELECT claims.forget_leases(ARRAY(SELECT lease_uuid FROM claims.orphans(1)))' >/dev/null
expect 'each has what it claims' "$(saved 1)" "$(claimed 1)"
expect 'nothing is tracked' "$(tracked 1)" -
expect 'a new lease works as ever' "$(as_cell 1 "SELECT claims.rollback_update(1, claims.begin_update(1, '[$(claim new)]'))")" t

# Rows that stay dated in the future: given the present time, as the runbook has it.
expect 'check() still tells of the future' "$(as_watch "SELECT string_agg(DISTINCT problem, ', ' ORDER BY problem) FROM claims.check()")" 'claim is dated in the future, outcome is dated in the future, transfer is dated in the future'
expect 'so do the passes' "$(as_watch "SELECT count(*) > 0 FROM claims.passes WHERE ended_at > now()")" t
steps=$(sed -n '/^## A clock has jumped/,/^## A snapshot/p' "$CLAIMS_ROOT/docs/runbook.md" | grep -oE '`(UPDATE|DELETE) [^`]*`' | tr -d '`')
expect 'four statements' "$(grep -c . <<<"$steps")" 4
as_admin "$steps" >/dev/null
expect 'check() finds nothing any more' "$(as_watch 'SELECT count(*) FROM claims.check()')" 0
expect 'no pass is from the future' "$(as_watch "SELECT count(*) FROM claims.passes WHERE ended_at > now()")" 0
expect 'a name is still settled by what it was' "$(as_app 1 "SELECT missing, different, extra FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0')")" '0|0|0'
