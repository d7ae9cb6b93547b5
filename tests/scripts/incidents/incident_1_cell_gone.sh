#!/usr/bin/env bash
# A cell's database is gone for good: an administrator who is no superuser frees its names and removes the cell.
. "$(dirname "$0")/../cells.bash"

start_cells
at shared "CREATE ROLE claims_admin LOGIN PASSWORD '$CELLS_PASSWORD'; GRANT postgres TO claims_admin"
as_admin() { ( use_cluster shared; export PGUSER=claims_admin; sql "$1" ) }
state_as_admin() { ( use_cluster shared; export PGUSER=claims_admin; sqlstate "$1" ) }
expect 'the administrator is no superuser' "$(as_admin "SHOW is_superuser")" off

# Cell 1 has names, and dies with leases in hand: one begun, one whose local transaction committed.
for name in alpha beta gamma; do
  as_cell 1 "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim $name)]'))" >/dev/null
done
begin 1 10 begun
save 1 11 saved
as_cell 1 "SELECT claims.begin_update(1, '[]', '[$(bucket gamma)]', '$(lease 12)')" >/dev/null
begin 2 20 other
crash cell1
as_server rm -rf "${CLUSTER_DIR[cell1]}/data/base"
expect 'its names are nobody else'"'"'s' "$(state_as_cell 2 "SELECT claims.begin_update(2, '[$(claim alpha)]')")" 23505
expect 'nor those of its leases' "$(state_as_cell 2 "SELECT claims.begin_update(2, '[$(claim begun)]')")" 55P03

# Look.
expect 'what it has in hand' "$(as_admin "SELECT cell_id, cell_name, creates, destroys FROM claims.leases WHERE cell_id = 1 ORDER BY lease_uuid")" '1|cell 1|1|0
1|cell 1|1|0
1|cell 1|0|1'
expect 'which names, and whose' "$(as_admin "SELECT role_name, creates #>> '{0,bucket,value}' FROM claims.lease_details('$(lease 11)')")" 'cell1|saved'
expect 'it cannot be removed yet' "$(state_as_admin "SELECT claims.remove_cell(1, 'its disks burnt')")" 55000

# Act.
as_admin "SELECT claims.set_mode('read_only', 'its disks burnt', 1)" >/dev/null
expect 'whoever acts for it is told so' "$(state_as_cell 1 "SELECT claims.begin_update(1, '[$(claim late)]')")" 55000
expect 'also who would settle' "$(state_as_cell 1 "SELECT claims.commit_update(1, '$(lease 11)')")" 55000
expect 'the other cell works on' "$(as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim meanwhile)]'))")" t
expect 'its leases end' "$(as_admin "SELECT string_agg(claims.force_rollback(cell_id, lease_uuid, 'its disks burnt') #>> '{freed,0,bucket,value}', ' ' ORDER BY lease_uuid) FROM claims.leases WHERE cell_id = 1")" 'begun saved'
expect 'how much there is' "$(as_admin "SELECT claims.release_records(1, 'its disks burnt', dry_run => true)")" 3
expect 'its claims go, step by step' "$(as_admin "SELECT claims.release_records(1, 'its disks burnt', 2); SELECT claims.release_records(1, 'its disks burnt', 2); SELECT claims.release_records(1, 'its disks burnt', 2)" | tr '\n' ' ')" '2 1 0 '
as_admin "SELECT claims.remove_cell(1, 'its disks burnt')" >/dev/null

# Check.
expect 'nothing of it is left' "$(at shared "SELECT (SELECT count(*) FROM claims.cells WHERE cell_id = 1), (SELECT count(*) FROM claims.claims WHERE creator_id = 1), (SELECT count(*) FROM claims.claim_leases WHERE creator_id = 1), (SELECT count(*) FROM claims.modes WHERE cell_id = 1)")" '0|0|0|0'
expect 'its role may do nothing any more' "$(state_as_cell 1 "SELECT claims.begin_update(1, '[$(claim late)]')")" 42501
expect 'its role can be dropped' "$(at shared "DROP ROLE cell1" >/dev/null && echo yes)" yes
for name in alpha gamma begun saved; do
  expect "$name is free" "$(as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim $name)]'))")" t
done
expect 'the other cell has lost nothing' "$(as_cell 2 "SELECT claims.commit_update(2, '$(lease 20)')")" t
expect 'check' "$(at shared 'SELECT count(*) FROM claims.check()')" 0
expect 'who did it, and why' "$(at shared "SELECT DISTINCT session_role, role, reason FROM claims.admin_log WHERE arguments @> '{\"cell_id\": 1}' AND action <> 'register_cell'")" 'claims_admin|claims_admin|its disks burnt'
expect 'in which order' "$(at shared "SELECT string_agg(DISTINCT action, ' ') FROM claims.admin_log WHERE reason IS NOT NULL")" 'force_rollback release_records remove_cell set_mode'
