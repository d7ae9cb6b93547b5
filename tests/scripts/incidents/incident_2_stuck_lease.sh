#!/usr/bin/env bash
# A lease is stuck for days: the test finds its names, its cell, and the session of its local transaction.
. "$(dirname "$0")/../cells.bash"

start_cells
at shared "CREATE ROLE claims_admin LOGIN PASSWORD '$CELLS_PASSWORD'; GRANT postgres TO claims_admin; CREATE ROLE watch LOGIN PASSWORD '$CELLS_PASSWORD'; SELECT claims.grant_monitor('watch')" >/dev/null
at cell1 "GRANT pg_read_all_stats TO claims_owner" >/dev/null
as_admin() { ( use_cluster shared; export PGUSER=claims_admin; sql "$1" ) }
as_watch() { ( use_cluster shared; export PGUSER=watch; sql "$1" ) }
older() { at shared "UPDATE claims.claim_leases SET created_at = created_at - interval '3 days'" >/dev/null; }
explain() { as_app "${2:-1}" "SELECT at_service, tracked_at IS NOT NULL, fenced_at IS NOT NULL, xact_status, usename, application_name, open_for > '0', prepared_gid, verdict FROM claims.explain_lease(${2:-1}, 'service', '$(lease "$1")')"; }
advice() { as_app 1 "SELECT advice FROM claims.explain_lease(1, 'service', '$(lease "$1")')"; }

# Five leases, each stuck in its own way.
open holder cell1
tell holder "SET application_name = 'importer'; BEGIN; INSERT INTO routes (name) VALUES ('held')" >/dev/null
xid=$(tell holder "SELECT pg_current_xact_id()")
begin 1 1 held "$xid"
open preparer cell1
xid=$(tell preparer "BEGIN; SELECT pg_current_xact_id()")
begin 1 2 prepared "$xid"
tell preparer "INSERT INTO routes (name) VALUES ('prepared'); $(track 2) PREPARE TRANSACTION 'stuck'" >/dev/null
close preparer
begin 1 3 aborted "$(as_app 1 "SELECT pg_current_xact_id()")"
save 1 4 saved
begin 1 5 unnamed
older

# Look: how old, which names, whose.
expect 'an alert shows how old' "$(as_watch "SELECT cell_id, count(*), max(age) > '2 days' FROM claims.leases GROUP BY 1")" '1|5|t'
expect 'which names' "$(as_admin "SELECT cell_name, role_name, creates #>> '{0,bucket,value}', age > '2 days' FROM claims.lease_details('$(lease 1)')")" 'cell 1|cell1|held|t'
expect 'which lease has the name that somebody complains of' "$(as_admin "SELECT lease_uuid FROM claims.lease_details(bucket_type => 'ROUTES', bucket_value => 'prepared')")" "$(lease 2)"
expect 'monitoring sees no names' "$( (use_cluster shared; PGUSER=watch sqlstate "SELECT * FROM claims.lease_details('$(lease 1)')") )" 42501

# Why, and where: in the cell.
expect 'an open transaction' "$(explain 1)" 'outstanding|f|f|in progress|app|importer|t||wait'
expect 'its process' "$(as_app 1 "SELECT pid FROM claims.explain_lease(1, 'service', '$(lease 1)')")" "$(tell holder 'SELECT pg_backend_pid()')"
expect 'a prepared one' "$(explain 2)" 'outstanding|f|f|in progress|||t|stuck|wait'
expect 'one that was rolled back' "$(explain 3)" 'outstanding|f|f|committed||||'"|rollback"
expect 'one that committed' "$(explain 4)" 'outstanding|t|f|||||'"|commit"
expect 'one that is not known' "$(explain 5)" 'outstanding|f|f|||||'"|wait"
expect 'what to do about them' "$(for n in 1 2 5; do advice $n | grep -oE 'pg_terminate_backend|COMMIT PREPARED|fences it'; done | tr '\n' ' ')" 'pg_terminate_backend COMMIT PREPARED fences it '
expect 'to look changes and fences nothing' "$(fences 1) $(at shared 'SELECT count(*) FROM claims.claim_leases') $(tracked 1)" '0 5 4'
expect 'not for other cells' "$(state_as_app 1 "SELECT * FROM claims.explain_lease(2, 'service', '$(lease 1)')")" 42501
expect 'nor of other cells' "$(explain 1 2)" 'unknown|f|f|||||'"|none"

# Act: end the session, decide the prepared transaction; recovery does the rest.
at cell1 "SELECT pg_terminate_backend(pid, 60000) FROM claims.explain_lease(1, 'service', '$(lease 1)')" >/dev/null
close holder 2>/dev/null || true
at cell1 "COMMIT PREPARED 'stuck'"
expect 'what it says now' "$(for n in 1 2 3 4 5; do as_app 1 "SELECT verdict FROM claims.explain_lease(1, 'service', '$(lease $n)')"; done | tr '\n' ' ')" 'rollback commit rollback commit wait '
reconcile 1 >/dev/null
expect 'the pass did what was said' "$(for n in 1 2 3 4 5; do outcome 1 $n; done | tr '\n' ' ')" 'rolled_back committed rolled_back committed outstanding '
expect 'the last one is fenced' "$(explain 5)" 'outstanding|f|t|||||'"|rollback"
reconcile 1 >/dev/null

# Check.
expect 'none is left' "$(as_watch 'SELECT count(*) FROM claims.leases')" 0
expect 'what is known of settled ones' "$(explain 4) $(explain 5) $(explain 99)" 'committed|f|f||||||none rolled_back|f|t||||||none unknown|f|f||||||none'
agree 'at the end'

# An orphan: an administrator has rolled the lease back at the service by mistake.
save 1 6 lost
as_admin "SELECT claims.force_rollback(1, '$(lease 6)', 'by mistake')" >/dev/null
expect 'it is explained' "$(explain 6)" 'rolled_back|t|f|||||'"|orphan"
expect 'nobody has seen it yet' "$(as_app 1 "SELECT count(*) FROM claims.orphans(1)")" 0
reconcile 1 >/dev/null
expect 'recovery has' "$(as_app 1 "SELECT lease_uuid, tracked_at < seen_at, outcome FROM claims.orphans(1)")" "$(lease 6)|t|rolled_back"
expect 'other cells cannot ask' "$(state_as_app 1 "SELECT * FROM claims.orphans(2)") $(state_as_app 1 "SELECT * FROM claims.orphans(NULL)")" '42501 22023'
as_app 1 "$(forget 6)" >/dev/null
expect 'whoever forgets it has seen to it' "$(as_app 1 "SELECT count(*) FROM claims.orphans(1)")" 0
reconcile 1 >/dev/null
expect 'recovery has forgotten it, too' "$(at cell1 'SELECT count(*) FROM claims.seen_orphans')" 0
