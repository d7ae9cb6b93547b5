#!/usr/bin/env bash
# A cell is restored from an old backup, and a clone of it runs by mistake beside it. Neither decides anything about what the other
# one has saved; adopt_cell says which one is the cell.
. "$(dirname "$0")/../cells.bash"

start_cells
at cell1 "CREATE ROLE cell_admin LOGIN; GRANT postgres TO cell_admin"
in_cluster() { ( use_cluster "$1"; export PGUSER=${3:-app}; sql "$2" ) }
state_in() { ( use_cluster "$1"; export PGUSER=${3:-app}; sqlstate "$2" ) }
message_in() { ( use_cluster "$1"; PGUSER=app psql -XqAt -c "$2" 2>&1 | grep -oE "another database acts as cell 1|HINT:.*adopt_cell" | tr '\n' '|' ); }
pass() { printf "SELECT committed, rolled_back, pending, orphaned FROM claims.reconcile(1, 'service', '0 s')"; }
correction() { printf "SELECT corrected FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0', correct => true)"; }

at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); GRANT SELECT ON routes TO PUBLIC" >/dev/null
save 1 1 early
expect 'a first pass' "$(in_cluster cell1 "$(pass)")" '1|0|0|0'
expect 'and another one' "$(in_cluster cell1 "$(pass)")" '0|0|0|0'

# --- a clone -----------------------------------------------------------------------------------------------------------

copy_of cell1 clone
copy_of cell1 backup
expect 'the cell goes on' "$(in_cluster cell1 "$(pass)")" '0|0|0|0'
# Saved here, and not there: recovery of the clone would roll them back.
save 1 2 after
begin 1 3 unknown "$(at cell1 'SELECT pg_current_xact_id()')"
as_app 1 "BEGIN; INSERT INTO routes (name) VALUES ('unknown'); $(track 3) COMMIT" >/dev/null
start_copy clone
at clone "DO \$\$ BEGIN FOR i IN 1..50 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END \$\$"
state_before=$(at shared "SELECT string_agg(concat_ws(' ', bucket_value, status, lease_uuid), ', ' ORDER BY bucket_value) FROM claims.claims")
for try in 1 2 3; do
  expect "the clone is refused, try $try" "$(state_in clone "$(pass)")" 55000
  expect "its correcting verification, too, try $try" "$(state_in clone "$(correction)")" 55000
done
expect 'it is told why, and what to do' "$(message_in clone "$(pass)")" 'another database acts as cell 1|HINT:  If this database is the cell, run claims.adopt_cell|'
expect 'it has decided nothing' "$(at shared "SELECT string_agg(concat_ws(' ', bucket_value, status, lease_uuid), ', ' ORDER BY bucket_value) FROM claims.claims")" "$state_before"
expect 'it has fenced nothing' "$(at clone 'SELECT count(*) FROM claims.lease_fences')" 0
expect 'a look is not refused' "$(in_cluster clone "SELECT checked > 0 FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0')")" t
expect 'the cell is not disturbed' "$(in_cluster cell1 "$(pass)")" '2|0|0|0'
expect 'and has what it saved' "$(claimed 1) $(outcome 1 2) $(outcome 1 3)" 'after early unknown committed committed'
halt clone

# --- concurrent passes and crashes do not lock the cell out ------------------------------------------------------------------------

errors=$CLAIMS_TMP/errors
for number in 1 2 3 4; do
  ( for _ in 1 2 3 4 5; do in_cluster cell1 "$(pass)" >/dev/null 2>>"$errors" || echo "worker $number: refused" >>"$errors"; done ) &
  workers+=($!)
done
for worker in "${workers[@]}"; do wait "$worker" || true; done
expect 'four at a time do each other no harm' "$(cat "$errors")" ''
for try in 1 2 3 4 5 6; do
  ( in_cluster cell1 "$(pass)" >/dev/null 2>&1 || true ) &
  worker=$!
  sleep "0.0$try"
  crash cell1
  wait $worker || true
  resume cell1
  expect "after a crash in the middle, try $try" "$(state_in cell1 "$(pass)")" 00000
done
# The cell flushes an epoch before it presents it, whatever synchronous_commit is, so a crash right after a pass does not lock the cell out.
at cell1 "ALTER DATABASE postgres SET synchronous_commit = off"; at cell1 "ALTER SYSTEM SET synchronous_commit = off"; at cell1 "ALTER SYSTEM SET wal_writer_delay = '10s'"
halt cell1; resume cell1
for try in 1 2 3; do
  in_cluster cell1 "$(pass)" >/dev/null
  crash cell1
  resume cell1
  expect "after a crash right behind a pass, try $try" "$(state_in cell1 "$(pass)")" 00000
done
at cell1 "ALTER DATABASE postgres RESET synchronous_commit"; at cell1 "ALTER SYSTEM RESET ALL"; halt cell1; resume cell1
crash shared; resume shared
expect 'after a crash of the service' "$(state_in cell1 "$(pass)")" 00000

# --- a backup in its place -----------------------------------------------------------------------------------------------

save 1 4 latest
expect 'the newest name' "$(in_cluster cell1 "$(pass)")" '1|0|0|0'
halt cell1
start_copy backup
expect 'the backup is refused' "$(state_in backup "$(pass)")" 55000
expect 'saves go on meanwhile' "$(state_as_cell 1 "SELECT claims.rollback_update(1, claims.begin_update(1, '[$(claim meanwhile)]'))")" 00000
expect 'it is not for the application to say' "$(state_in backup "SELECT claims.adopt_cell(1, 'service', 'x')")" 42501
expect 'nor without a reason' "$(state_in backup "SELECT claims.adopt_cell(1, 'service', '')" cell_admin)" 22023
expect 'an administrator says so' "$(in_cluster backup "SELECT claims.adopt_cell(1, 'service', 'restored after a fire') > 0" cell_admin)" t
expect 'now it is the cell' "$(state_in backup "$(pass)")" 00000
expect 'which both logs have' "$(at backup "SELECT role, reason FROM claims.admin_log WHERE action = 'adopt_cell'") $(at shared "SELECT role, reason FROM claims.admin_log WHERE action = 'adopt_cell'")" 'cell_admin|restored after a fire cell1|restored after a fire'
expect 'what it lost is found' "$(in_cluster backup "SELECT extra FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0')")" 3
expect 'and corrected' "$(in_cluster backup "$(correction)")" 3
expect 'its claims are what it has' "$(claimed 1)" early
# The one that was the cell before comes back.
resume cell1
expect 'the other one is refused from now on' "$(state_in cell1 "$(pass)") $(state_in cell1 "$(correction)")" '55000 55000'
expect 'check' "$(at shared 'SELECT count(*) FROM claims.check()')" 0

# --- no place for the process that commits ----------------------------------------------------------------------------------

at backup "ALTER SYSTEM SET max_worker_processes = 0"; halt backup; resume backup
expect 'without a place for a background worker' "$(state_in backup "$(pass)")" 53400
expect 'nothing is broken by that' "$(at backup "ALTER SYSTEM RESET max_worker_processes"; halt backup; resume backup; state_in backup "$(pass)")" 00000
