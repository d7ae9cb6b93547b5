#!/usr/bin/env bash
# Point-in-time recovery of the service: a base backup, the archived log, and a mistake. Rows that cells saved since are compared and corrected as the
# runbook says, and no cell gets a name meanwhile.
. "$(dirname "$0")/../cells.bash"

start_cells
archive=$(cd /tmp && as_server mktemp -d "${CLAIMS_CLUSTERS:-/tmp}/claims-archive.XXXXXX")
trap 'for session in "${!SESSION_PID[@]}"; do close "$session"; done; rm -rf "$archive"; cleanup' EXIT
data=${CLUSTER_DIR[shared]}/data
at shared "ALTER SYSTEM SET archive_mode = on" && at shared "ALTER SYSTEM SET archive_command = 'cp %p $archive/%f'"
halt shared; resume shared
for number in 1 2; do
  at cell$number "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id');
    SELECT claims.automatic($number, 'service'); GRANT SELECT ON routes TO PUBLIC" >/dev/null
done
put() { as_app "$1" "INSERT INTO routes (name) VALUES ('$2')"; }
pass() { reconcile "$1" '0 s'; }
# verify CELL [ARGUMENTS]: missing|different|extra|corrected|held_by_other|leased; as few as differ are counted.
verify() { as_app "$1" "SELECT missing, different, extra, corrected, held_by_other FROM claims.verify($1, 'service', 'RAILS_TABLE_ROUTES', recent => '0'${2:+, $2})"; }
settled() { [ "$(wait_for "$1" at shared 'SELECT count(*) FROM claims.claim_leases')" = "$1" ] || die "there are never $1 leases"; }

# --- a backup, and what happens after it ----------------------------------------------------------------------------------

put 1 kept; put 1 given; put 2 theirs
settled 0
(cd /tmp && as_server "$CLAIMS_BINDIR/pg_basebackup" -h "${CLUSTER_DIR[shared]}" -p "${CLUSTER_PORT[shared]}" -U postgres -D "$archive/base" -X none -c fast --no-manifest 2>/dev/null)
put 1 archived; put 2 also
settled 0
pass 1 >/dev/null; pass 2 >/dev/null
open saver cell1
expect 'a lease is outstanding' "$(tell saver "BEGIN; INSERT INTO routes (name) VALUES ('halfway'); SET CONSTRAINTS ALL IMMEDIATE")" ''
settled 1
moment=$(at shared 'SELECT clock_timestamp()')
sleep 0.1
expect 'which is committed after the moment' "$(tell saver COMMIT)" ''
settled 0
# Recovery makes passes: it forgets the lease, and changes the cell's epoch at the service.
pass 1 >/dev/null; pass 2 >/dev/null
put 1 late; put 2 later
as_app 1 "DELETE FROM routes WHERE name = 'given'"
settled 0
pass 1 >/dev/null
expect 'nothing is tracked any more' "$(tracked 1)" -

# --- the mistake -------------------------------------------------------------------------------------------------------------

expect 'the wrong number' "$(at shared "SELECT claims.release_records(2, 'it is gone')")" 3
put 1 theirs
settled 0
expect 'two cells use one name' "$(saved 1) / $(saved 2)" 'archived halfway kept late theirs / also later theirs'

# --- back to the moment before it -----------------------------------------------------------------------------------------

at shared 'SELECT pg_switch_wal()' >/dev/null
halt shared
(cd /tmp && as_server mv "$data" "$data.mistaken" && as_server cp -a "$archive/base" "$data" && as_server touch "$data/recovery.signal")
# Only users of the socket can connect until the mode is set.
printf '%s\n' "restore_command = 'cp $archive/%f %p'" "recovery_target_time = '$moment'" "recovery_target_action = promote" \
  "listen_addresses = ''" | (cd /tmp && as_server sh -c "cat >> '$data/postgresql.auto.conf'")
resume shared
expect 'it recovers' "$(wait_for f at shared 'SELECT pg_is_in_recovery()')" f
expect 'the names of the moment' "$(claimed 1) / $(claimed 2)" 'archived given halfway* kept / also theirs'
expect 'no cell can connect' "$(state_as_app 1 "INSERT INTO routes (name) VALUES ('too early')")" 08001
at shared "SELECT claims.set_mode('settle_only', 'restored, being compared')"
at shared "ALTER SYSTEM RESET listen_addresses" && at shared "ALTER SYSTEM RESET recovery_target_time"
halt shared; resume shared

# --- as the runbook says ------------------------------------------------------------------------------------------------------

expect 'no name is given out' "$(state_as_app 2 "INSERT INTO routes (name) VALUES ('late')")" 55000
expect 'recovery is refused' "$(state_as_app 1 "SELECT claims.reconcile(1, 'service')")" 55000
for number in 1 2; do
  at cell$number "SELECT claims.adopt_cell($number, 'service', 'the service was restored')" >/dev/null
done
# The lease of a save that the cell has long forgotten is rolled back: only comparing brings its name back. So recovery goes first.
pass 1 >/dev/null; pass 1 >/dev/null; pass 2 >/dev/null
expect 'no lease is left' "$(at shared 'SELECT count(*) FROM claims.claim_leases')" 0
expect 'what differs in cell 1' "$(verify 1)" '3|0|1|0|1'
expect 'what differs in cell 2' "$(verify 2)" '1|0|0|0|0'
expect 'corrected in cell 1' "$(verify 1 'correct => true')" '3|0|1|3|1'
expect 'corrected in cell 2' "$(verify 2 'correct => true')" '1|0|0|1|0'
expect 'the names that cells have' "$(claimed 1) / $(claimed 2)" 'archived halfway kept late / also later theirs'
# Saved after the moment, tracked still, and unknown to the service. The names are claimed again.
for number in 1 2; do
  expect "an orphan in cell $number" "$(at cell$number "SELECT count(*), min(coalesce(outcome, 'unknown')) FROM claims.orphans($number)")" '1|unknown'
  at cell$number "SELECT claims.forget_leases(ARRAY(SELECT lease_uuid FROM claims.orphans($number)))" >/dev/null
done
at shared "SELECT claims.set_mode('open', 'compared')"
# The name that the mistake gave away: people decide, and cell 1 gives it up.
as_app 1 "UPDATE routes SET name = 'ours' WHERE name = 'theirs'"
settled 0
pass 1 >/dev/null; pass 2 >/dev/null
for number in 1 2; do
  expect "nothing differs in cell $number" "$(verify $number)" '0|0|0|0|0'
done
agree 'after the restore'
