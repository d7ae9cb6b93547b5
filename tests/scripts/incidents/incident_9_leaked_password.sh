#!/usr/bin/env bash
# A role's password leaked: the test finds its changes, locks the role out, gives the cell a new role, and corrects the changes.
. "$(dirname "$0")/../cells.bash"

start_cells
at shared "CREATE ROLE claims_admin LOGIN CREATEROLE PASSWORD '$CELLS_PASSWORD'; GRANT postgres TO claims_admin; GRANT pg_read_all_stats, pg_signal_backend TO claims_admin" >/dev/null
as_admin() { ( use_cluster shared; export PGUSER=claims_admin; sql "$1" ) }
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id')" >/dev/null
for name in alpha beta; do
  as_app 1 "INSERT INTO routes (name) VALUES ('$name')"
done
counts() { as_app 1 "SELECT missing, different, extra, corrected, held_by_other FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0', correct => ${1:-false})"; }
expect 'the cell claims what it has' "$(counts true)" '2|0|0|2|0'
sleep 0.01
leaked_at=$(at shared "SELECT clock_timestamp()")

# The thief takes one name, gives one away, has a lease in hand, and stays connected.
as_cell 1 "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim loot)]', '[$(bucket alpha)]')); SELECT claims.begin_update(1, '[$(claim held)]', lease_uuid => '$(lease 1)')" >/dev/null
open thief shared cell1
expect 'he is there' "$(tell thief 'SELECT 1')" 1

# Look.
expect 'who is connected' "$(as_admin "SELECT count(*) FROM pg_stat_activity WHERE usename = 'cell1'")" 1
expect 'what he did' "$(as_admin "SELECT string_agg(bucket_value || ' ' || status, ', ' ORDER BY bucket_value) FROM claims.records WHERE cell_id = 1 AND updated_at > '$leaked_at'")" 'held LEASE_CREATING, loot ACTIVE'
expect 'and has in hand' "$(as_admin "SELECT lease_uuid FROM claims.leases WHERE cell_id = 1")" "$(lease 1)"

# Act.
as_admin "SELECT claims.set_mode('read_only', 'password leaked', 1)" >/dev/null
expect 'he can change nothing any more' "$(tell thief "SELECT claims.begin_update(1, '[$(claim more)]')")" 'ERROR:  55000'
as_admin "CREATE ROLE cell1b LOGIN PASSWORD 'x$CELLS_PASSWORD'; SELECT claims.register_cell(1, 'cell1b')" >/dev/null
expect 'nor does he see anything' "$(tell thief "SELECT claims.list_leases(1)") $(tell thief "SELECT claims.get_record('ROUTES', 'beta')")" 'ERROR:  42501 ERROR:  42501'
at shared "ALTER ROLE cell1 NOLOGIN"
as_admin "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = 'cell1'" >/dev/null
close thief 2>/dev/null || true
expect 'he is out' "$( (as_cell 1 'SELECT 1' 2>&1 || true) | grep -c 'not permitted to log in')" 1
at cell1 "ALTER USER MAPPING FOR postgres SERVER service OPTIONS (SET user 'cell1b', SET password 'x$CELLS_PASSWORD')"
as_admin "SELECT claims.set_mode('open', 'new role', 1)" >/dev/null
as_admin "SELECT claims.force_rollback(1, '$(lease 1)', 'begun by a thief')" >/dev/null
expect 'the cell works again' "$(reconcile 1)" '0|0|0|0|0'
expect 'what he did is put right' "$(counts true)" '1|0|1|2|0'

# Check.
expect 'nothing is left of it' "$(counts) $(claimed 1)" '0|0|0|0|0 alpha beta'
expect 'who did what, and why' "$(at shared "SELECT string_agg(action || coalesce(' ' || reason, ''), ', ' ORDER BY id) FROM claims.admin_log WHERE at > '$leaked_at'")" 'set_mode password leaked, register_cell, set_mode new role, force_rollback begun by a thief'
expect 'check' "$(at shared 'SELECT count(*) FROM claims.check()')" 0
