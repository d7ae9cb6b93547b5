#!/usr/bin/env bash
# Capture between separate clusters: begin_pending and automatic mode, conflicts, a service that is down or silent, crashes, a dump.
. "$(dirname "$0")/../cells.bash"

start_cells
for n in 1 2; do
  at "cell$n" "INSERT INTO routes (name) VALUES ('old-$n'), ('both');
    SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id');
    SELECT claims.automatic($n, 'service')" >/dev/null
done
add() { printf "INSERT INTO routes (name) VALUES ('%s');" "$1"; }

# Rows that were there before the column was claimed: verification claims them, and a name that both cells have goes to one.
verify() { as_app "$1" "SELECT concat_ws(' ', missing, different, extra, corrected, held_by_other) FROM claims.verify($1, 'service', 'RAILS_TABLE_ROUTES'${2:+, $2})"; }
rename() { printf "UPDATE routes SET name = '%s' WHERE name = '%s'" "$2" "$1"; }
expect 'from before: not claimed yet' "$(claimed 1) $(claimed 2) $(verify 1) $(verify 2)" '- - 2 0 0 0 0 2 0 0 0 0'
at cell1 "SET session_replication_role = replica; $(add older-1) $(add oldest-1)"
expect 'from before: renamed and deleted' "$(state_as_app 1 "$(rename older-1 new)") $(state_as_app 1 "DELETE FROM routes WHERE name IN ('new', 'oldest-1')") $(reconcile 1 >/dev/null; claimed 1)" '00000 00000 -'
expect 'from before: claimed by the first cell' "$(verify 1 'correct => true') $(claimed 1)" '2 0 0 2 0 both old-1'
expect 'from before: what the other one has is reported' "$(verify 2 'correct => true') $(claimed 2)" '2 0 0 1 1 old-2'
expect 'from before: the other one is renamed, and the name stays with the first cell' "$(state_as_app 2 "$(rename both both-2)") $(reconcile 2 >/dev/null; claimed 2) $(claimed 1)" '00000 both-2 old-2 both old-1'
expect 'from before: now renamed' "$(state_as_app 1 "$(rename old-1 new-1)") $(state_as_app 2 "DELETE FROM routes WHERE name = 'old-2'") $(settled)" '00000 00000 soon'
reconcile 1 >/dev/null; reconcile 2 >/dev/null
agree 'from before'
for n in 1 2; do
  as_app $n 'DELETE FROM routes'; settled >/dev/null; reconcile $n >/dev/null
  at "cell$n" 'SELECT claims.automatic(NULL, NULL)' >/dev/null
done

# Without automatic mode, as the application's role: begin_pending before the COMMIT, finish after it.
open app cell1
expect 'by hand: begin' "$(tell app "BEGIN; $(add hand) SELECT claims.begin_pending(1, 'service') IS NOT NULL;")" t
lease=$(at shared 'SELECT uuid FROM claims.claim_leases')
expect 'by hand: not before the COMMIT' "$(tell app "SAVEPOINT s; SELECT claims.finish(1, 'service', '$lease'); ROLLBACK TO s;")" 'ERROR:  55000'
expect 'by hand: finish' "$(tell app "COMMIT; SELECT claims.finish(1, 'service', '$lease');")" t
agree 'by hand'
# Without it, nothing is claimed in this mode: that is what automatic mode is for.

for n in 1 2; do at "cell$n" "SELECT claims.automatic($n, 'service')" >/dev/null; done
# From here on what a session sends after its transaction gets lost: recovery, and the cell's own next batch, do it.
at shared "CREATE FUNCTION lost() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN IF current_query() ~ ''(commit_update|commit_unflushed|rollback_update)'' THEN RAISE ''lost''; END IF; RETURN NULL; END';
  CREATE TRIGGER lost BEFORE DELETE ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION lost()"
as_app 1 "$(add one)"
expect 'automatic: leased and tracked' "$(claimed 1) $(at cell1 'SELECT count(*) FROM claims.cells_outstanding_leases')" 'hand one* 1'
expect 'leased elsewhere' "$(state_as_app 2 "$(add one)")" 55P03
expect 'the next pass commits it' "$(reconcile 1)" '1|1|0|0|0'
expect 'taken elsewhere' "$(state_as_app 2 "$(add one)")" 23505
expect 'one call for a transaction' "$(as_app 2 "BEGIN; $(add x1) $(add x2) UPDATE routes SET name = name || '!'; DELETE FROM routes WHERE name = 'x2!'; COMMIT"; at shared 'SELECT count(*) FROM claims.claim_leases')" 1
expect 'changed again before it is settled' "$(as_app 2 "UPDATE routes SET name = 'x' WHERE name = 'x1!'"; claimed 2)" 'x* x1!*'
expect 'a local constraint comes first: no lease' "$(state_as_app 1 "$(add forbidden)") $(state_as_app 1 "$(add one)") $(at shared 'SELECT count(*) FROM claims.claim_leases')" '23514 23505 1'
reconcile 1 >/dev/null; reconcile 2 >/dev/null
agree 'automatic'

# The deferred trigger called at once, the first time in its session: queueing itself again calls it inside of itself.
expect 'immediate: the first time' "$(as_app 1 "BEGIN; $(add now) SET CONSTRAINTS ALL IMMEDIATE; $(add then) COMMIT"; settled; reconcile 1 >/dev/null)" soon
agree 'immediate'

# Prepared transactions: sent at PREPARE, decided later.
as_app 1 "BEGIN; $(add prepared) PREPARE TRANSACTION 'p'; BEGIN; $(add forgotten) PREPARE TRANSACTION 'f'" >/dev/null
expect 'prepared: recovery waits' "$(reconcile 1 0)" '2|0|0|2|0'
crash cell1; resume cell1
expect 'prepared: it waits after a crash, too' "$(reconcile 1 0)" '2|0|0|2|0'
as_app 1 "COMMIT PREPARED 'p'"; as_app 1 "ROLLBACK PREPARED 'f'"
expect 'prepared: each its own way' "$(reconcile 1)" '2|1|1|0|0'
agree 'prepared'

# The cell crashes: after the lease and before the COMMIT, and after the COMMIT.
open app cell1
tell app "BEGIN; $(add lost) SELECT claims.begin_pending(1, 'service');" >/dev/null
crash cell1; resume cell1; close app
# The transaction's id may not have reached the disk: then it is one of the future until some more are given out.
for _ in 1 2 3 4 5; do as_app 1 'SELECT pg_current_xact_id()' >/dev/null; done
expect 'crash before COMMIT: nothing is saved' "$(at cell1 "SELECT count(*) FROM routes WHERE name = 'lost'") $(reconcile 1)" '0 1|0|1|0|0'
as_app 1 "$(add kept)"
crash cell1; resume cell1
expect 'crash after COMMIT: it is saved and gets its claim' "$(at cell1 "SELECT count(*) FROM routes WHERE name = 'kept'") $(reconcile 1)" '1 1|1|0|0|0'
agree 'crashes'

# The service is down: nothing claimed can be changed, everything else can.
halt shared
expect 'service down: refused' "$(state_as_app 1 "$(add down)")" 08001
expect 'service down: what is not claimed goes on' "$(state_as_app 1 'UPDATE routes SET name = name')" 00000
resume shared
expect 'service back' "$(state_as_app 1 "$(add back)")" 00000
reconcile 1 >/dev/null
# It is silent: the local transaction is given up in time, and what the service did all the same is rolled back.
hold_up INSERT
expect 'service silent' "$(state_as_app 1 "SET claims.service_timeout = '250ms'; $(add silent)")" 57014
let_go
expect 'service silent: it did it after all' "$(wait_for_any eval "claimed 1 | tr ' ' '\n' | grep silent")" 'silent*'
expect 'service silent: rolled back at once' "$(reconcile 1)" '1|0|1|0|0'

# A transaction that asked the service and was rolled back then: the application tries again, before recovery has come by.
as_app 1 "BEGIN; $(add again) SELECT claims.begin_pending(1, 'service'); ROLLBACK" >/dev/null
expect 'rolled back: still leased' "$(claimed 1 | tr ' ' '\n' | grep again) $(state_as_app 2 "$(add again)")" 'again* 55P03'
expect 'rolled back: tried again at once' "$(state_as_app 1 "$(add again)") $(at shared 'SELECT count(*) FROM claims.claim_leases') $(reconcile 1)" '00000 1 1|1|0|0|0'
open app cell1
tell app "BEGIN; SAVEPOINT s; $(add open) SELECT claims.begin_pending(1, 'service'); ROLLBACK TO s; SAVEPOINT t;" >/dev/null
expect 'still open: its lease stays in the way' "$(tell app "$(add open) SELECT claims.begin_pending(1, 'service');")" 'ERROR:  55P03'
tell app 'ROLLBACK;' >/dev/null; close app
expect 'ended: out of the way' "$(state_as_app 1 "$(add open)") $(reconcile 1)" '00000 1|1|0|0|0'
agree 'tried again'

# Rows that swap their names: their claims go along.
in_order="SELECT concat_ws(' ', missing, different, extra, corrected) FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0'"
expect 'verification finds captured claims in order' "$(as_app 1 "$in_order)")" '0 0 0 0'
as_app 1 "BEGIN; UPDATE routes SET name = 'swapped' WHERE name = 'kept'; UPDATE routes SET name = 'kept' WHERE name = 'back'; UPDATE routes SET name = 'back' WHERE name = 'swapped'; COMMIT"
reconcile 1 >/dev/null
expect 'a swap leaves nothing to verification' "$(as_app 1 "$in_order)")" '0 0 0 0'

# A dump of a cell, restored: still claimed, still automatic, by its triggers.
dump=$CLAIMS_TMP/cell.dump
( use_cluster cell1; pg_dump -Fc -f "$dump" postgres; createdb copy -T template0; pg_restore --exit-on-error -d copy "$dump" )
expect 'restored' "$( use_cluster cell1; sql copy "SELECT table_name || ' ' || attribute || ' ' || cell_id FROM claims.claimed_attributes, claims.automatic_service" )" 'routes name 1'
expect 'restored: captures' "$( use_cluster cell1; sql copy "BEGIN; DELETE FROM routes WHERE name = 'kept'; SELECT destroy_records #>> '{0,bucket,value}' FROM claims.pending_batch()" )" kept
expect 'restored: waits while the original acts' "$( use_cluster cell1; sqlstate copy "$(add x)" )" 55000

# Off: nothing is claimed any more, nothing asked.
at cell1 'SELECT claims.automatic(NULL, NULL)' >/dev/null
halt shared
expect 'off' "$(state_as_app 1 "$(add off); DELETE FROM routes WHERE name = 'off'")" 00000
resume shared
agree 'off'
