#!/usr/bin/env bash
# The shared database is restored from yesterday's backup; and another time it fails over and has lost its last second. Cells use names that it has
# lost: no cell gets one before every cell is compared.
. "$(dirname "$0")/../cells.bash"

start_cells -c log_min_messages=panic
at shared "CREATE ROLE claims_admin LOGIN; GRANT postgres TO claims_admin"
for number in 1 2; do
  at "cell$number" "CREATE ROLE cell_admin LOGIN; GRANT $([ $number = 1 ] && echo postgres || echo claims_owner) TO cell_admin;
    SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); GRANT SELECT ON routes TO PUBLIC" >/dev/null
done
as_admin() { ( use_cluster shared; export PGUSER=claims_admin; sql "$1" ) }
as_cell_admin() { ( use_cluster "cell$1"; export PGUSER=cell_admin; sql "$2" ) }
pass() { printf "SELECT committed, rolled_back, pending, orphaned FROM claims.reconcile(1, 'service', '0 s')"; }
verify() { as_app "$1" "SELECT missing, different, extra, held_by_other FROM claims.verify($1, 'service', 'RAILS_TABLE_ROUTES', recent => '0'${2:+, correct => true})"; }
# backup; restore: as the runbook says, it runs where no cell reaches it until the mode is set. compare: what each cell's verification counts,
# before and after it corrects.
backup() { halt shared; rm -rf "$CLAIMS_TMP/backup"; cp -a "${CLUSTER_DIR[shared]}/data" "$CLAIMS_TMP/backup"; resume shared; }
restore() {
  halt shared immediate
  rm -rf "${CLUSTER_DIR[shared]}/data"; cp -a "$CLAIMS_TMP/backup" "${CLUSTER_DIR[shared]}/data"; rm -f "${CLUSTER_DIR[shared]}/data/postmaster.pid"
  # Only users on the machine can connect: cells use TCP.
  (cd /tmp && as_server sed -i "s/^listen_addresses = .*/listen_addresses = ''/" "${CLUSTER_DIR[shared]}/data/postgresql.conf")
  resume shared
  expect 'no cell can reach it yet' "$(state_as_app 1 "SELECT claims.explain_lease(1, 'service', '$(lease 1)')")" 08001
  as_admin "SELECT claims.set_mode('settle_only', 'restored, being compared')" >/dev/null
  halt shared
  (cd /tmp && as_server sed -i "s/^listen_addresses = .*/listen_addresses = '127.0.0.1'/" "${CLUSTER_DIR[shared]}/data/postgresql.conf")
  resume shared
}
compare() {
  local number
  for number in 1 2; do
    expect "cell $number says that it is the cell" "$(as_cell_admin $number "SELECT claims.adopt_cell($number, 'service', 'the service was restored') > 0")" t
    expect "cell $number looks, and changes nothing" "$(verify $number)" "$1"; shift
    verify $number correct >/dev/null
    expect "cell $number has what it calls for" "$(verify $number)" "$1"; shift
  done
}

# --- yesterday's backup ------------------------------------------------------------------------------------------------------

save 1 1 early; save 2 2 other; commit 1 1 >/dev/null; commit 2 2 >/dev/null
save 1 3 given; commit 1 3 >/dev/null
for number in 1 2; do as_app $number "SELECT count(*) FROM claims.reconcile($number, 'service', '0 s')" >/dev/null; done
backup
save 1 4 lost; commit 1 4 >/dev/null
save 2 5 gone; commit 2 5 >/dev/null
# Given up since, by a rename: the backup still has the old name.
as_cell 1 "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim renamed 3)]', '[$(bucket given)]'))" >/dev/null
as_app 1 "UPDATE routes SET name = 'renamed' WHERE name = 'given'"
for number in 1 2 1 2; do as_app $number "SELECT count(*) FROM claims.reconcile($number, 'service', '0 s')" >/dev/null; done
# Saved, and not settled when the service goes.
save 1 6 unsettled

restore
expect 'a lost name is free' "$(as_cell 1 "SELECT count(*) FROM claims.get_record('ROUTES', 'lost')")" 0
expect 'and nobody can have it' "$(state_as_cell 2 "SELECT claims.begin_update(2, '[$(claim lost)]')")" 55000
expect 'recovery decides nothing here' "$(state_as_app 1 "$(pass)")" 55000
compare '3|0|1|0' '0|0|0|0' '1|0|0|0' '0|0|0|0'
expect 'recovery works again' "$(as_app 1 "$(pass)" 2>/dev/null)" '0|0|0|1'
expect 'what was saved under a lease that is lost' "$(as_app 1 'SELECT count(*) FROM claims.orphans(1)')" 1
as_app 1 'SELECT claims.forget_leases(ARRAY(SELECT lease_uuid FROM claims.orphans(1)))' >/dev/null
expect 'still nobody' "$(state_as_cell 2 "SELECT claims.begin_update(2, '[$(claim free)]')")" 55000
as_admin "SELECT claims.set_mode('open', 'compared')" >/dev/null
for name in early lost renamed unsettled; do
  expect "nobody has taken $name" "$(as_cell 2 "SELECT conflicts -> 0 ->> 'reason' FROM claims.try_begin_update(2, '[$(claim "$name")]')")" taken
done
expect 'the name that was given up is free' "$(as_cell 2 "SELECT claims.rollback_update(2, claims.begin_update(2, '[$(claim given)]'))")" t
agree 'after the restore'
expect 'both acts stand in the log' "$(at shared "SELECT string_agg(arguments ->> 'mode', ' ' ORDER BY id) FROM claims.admin_log WHERE action = 'set_mode'")" 'settle_only open'

# --- a failover that lost its last second: leases settled then are outstanding, unknown, or settled otherwise -------------------

begin 1 11 begun "$(at cell1 'SELECT pg_current_xact_id()')"
save 2 12 half
backup
commit 2 12 >/dev/null
save 1 13 second; commit 1 13 >/dev/null
as_app 2 "SELECT count(*) FROM claims.reconcile(2, 'service', '0 s')" >/dev/null
as_app 1 "BEGIN; INSERT INTO routes (name) VALUES ('begun'); $(track 11) COMMIT" >/dev/null
restore
expect 'the lost name is nobody else'"'"'s' "$(state_as_cell 2 "SELECT claims.begin_update(2, '[$(claim second)]')")" 55000
for number in 1 2; do as_cell_admin $number "SELECT claims.adopt_cell($number, 'service', 'failed over')" >/dev/null; done
expect 'a lease that is outstanding again is committed, one that is unknown is told' "$(as_app 1 "$(pass)" 2>/dev/null)" '1|0|0|1'
expect 'forgotten and outstanding again: rolled back, and then claimed again' "$(for _ in 1 2; do as_app 2 "SELECT count(*) FROM claims.reconcile(2, 'service', '0 s')" >/dev/null; done; outcome 2 12)" rolled_back
for number in 1 2; do verify $number correct >/dev/null; expect "cell $number is compared" "$(verify $number)" '0|0|0|0'; done
as_app 1 'SELECT claims.forget_leases(ARRAY(SELECT lease_uuid FROM claims.orphans(1)))' >/dev/null
as_admin "SELECT claims.set_mode('open', 'compared')" >/dev/null
agree 'after the failover'
