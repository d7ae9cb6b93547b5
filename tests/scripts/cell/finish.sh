#!/usr/bin/env bash
# finish() while another session is settling the same lease, has just settled it, or does not end.
. "$(dirname "$0")/../cells.bash"

start_cells
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id')" >/dev/null
open app cell1
open other shared cell1
open admin shared "$(at shared 'SELECT current_user')"
# saved NAME: a lease whose local transaction has committed
saved_with() { tell app "BEGIN; INSERT INTO routes (name) VALUES ('$1'); SELECT claims.begin_pending(1, 'service') AS lease \\gset
COMMIT; SELECT :'lease'"; }
finish="SELECT claims.finish(1, 'service', :'lease')"
# In a subshell where another session's answer is still to come: whose answer is awaited is remembered for one of them.
now_ms() { date +%s%3N; }

lease=$(saved_with one)
tell other "BEGIN; SELECT outcome FROM claims.settle_leases(1, ARRAY['$lease'::uuid])" >/dev/null
send app "$finish"; sleep 0.5
( tell other COMMIT ) >/dev/null
expect 'somebody else settles it and commits' "$(answer app) $(claimed 1)" 'f one'

lease=$(saved_with two)
tell other "BEGIN; SELECT outcome FROM claims.settle_leases(1, ARRAY['$lease'::uuid])" >/dev/null
send app "$finish"; sleep 0.5
( tell other ROLLBACK ) >/dev/null
expect 'somebody else settles it and does not commit' "$(answer app) $(claimed 1)" 't one two'

lease=$(saved_with three)
tell admin "BEGIN; SELECT FROM claims.claim_leases WHERE uuid = '$lease' FOR UPDATE" >/dev/null
tell app "SET claims.service_timeout = '3s'" >/dev/null
started=$(now_ms)
expect 'somebody who does not come to an end' "$(tell app "$finish")" 'ERROR:  55P03'
took=$(($(now_ms) - started))
expect 'is waited for as long as the service' "$([ $took -gt 1500 ] && [ $took -lt 60000 ] && echo 'some seconds')" 'some seconds'
tell app 'RESET claims.service_timeout' >/dev/null
tell admin ROLLBACK >/dev/null
expect 'later it can be done' "$(tell app "$finish; $finish")" 't f'

lease=$(saved_with four)
tell app 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM routes' >/dev/null
reconcile 1 >/dev/null
expect 'recovery has done it since the snapshot' "$(tell app "$finish; COMMIT")" f
lease=$(saved_with five)
tell app 'BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM routes' >/dev/null
as_cell 1 "SELECT claims.commit_update(1, '$lease')" >/dev/null
expect 'only at the service' "$(tell app "$finish; COMMIT")" f
reconcile 1 >/dev/null
agree 'finished'
