#!/usr/bin/env bash
# Saves present the epoch of their database: a clone, a restored backup and a promoted standby cannot begin or settle leases for the cell. Each
# comes in both orders: the cell's pass comes first, or that of the copy.
# test: long
. "$(dirname "$0")/../cells.bash"

start_cells
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); GRANT SELECT ON routes TO PUBLIC;
  SELECT claims.automatic(1, 'service')" >/dev/null
in_cluster() { ( use_cluster "$1"; export PGUSER=${3:-app}; sql "$2" ) }
state_in() { ( use_cluster "$1"; export PGUSER=app; sqlstate "$2" ) }
pass() { in_cluster "$1" "SELECT rolled_back, orphaned FROM claims.reconcile(1, 'service', '1 hour')"; }
add() { state_in "$1" "INSERT INTO routes (name) VALUES ('$2')"; }
remove() { state_in "$1" "DELETE FROM routes WHERE name = '$2'"; }
pending() { state_in "$1" "BEGIN; UPDATE routes SET name = '$2' WHERE name = 'early'; SELECT claims.begin_pending(1, 'service'); ROLLBACK"; }
adopt() { at "$1" "SELECT claims.adopt_cell(1, 'service', '$2') > 0"; }
at_service() { at shared "SELECT string_agg(concat_ws(' ', bucket_value, status, lease_uuid), ', ' ORDER BY bucket_value) FROM claims.claims"; }
# Whatever a refused database does at its application's hands: begin, settle, give up names.
refused() {
  local before; before=$(at_service)
  expect "$2: it adds no name" "$(add "$1" "by-$1")" 55000
  expect "$2: it gives up no name" "$(remove "$1" early)" 55000
  expect "$2: begin_pending is refused" "$(pending "$1" other)" 55000
  expect "$2: the service has what it had" "$(at_service)" "$before"
  expect "$2: nor did it save" "$(at "$1" "SELECT count(*) FROM routes WHERE name = 'by-$1' OR name = 'early'")" 1
}
goes_on() {
  expect "$2: it adds a name" "$(add "$1" "$3")" 00000
  expect "$2: and gives it up" "$(remove "$1" "$3") $(settled)" '00000 soon'
}

# --- no epoch yet ---------------------------------------------------------------------------------------------------------

expect 'before the first pass saves need no epoch' "$(add cell1 early) $(at cell1 'SELECT count(*) FROM claims.own_epochs')" '00000 0'
copy_of cell1 unborn
expect 'the first pass' "$(pass cell1)" '0|0'
goes_on cell1 'with an epoch' first
start_copy unborn
refused unborn 'a copy from before the first epoch'
( use_cluster unborn; PGUSER=app psql -XqAt -c "DELETE FROM routes WHERE name = 'early'" ) 2>&1 | tr '\n' ' ' >"$CLAIMS_TMP/said" || true
expect 'the error says why and what to do' "$(grep -cE 'ERROR:  another database acts as cell 1 DETAIL:  .*or the service was\. HINT:  If this database is the cell, run claims\.adopt_cell' "$CLAIMS_TMP/said")" 1
expect 'it is no failure of the service' "$(at unborn "SELECT count(*) FROM claims.service_state WHERE failures > 0 OR breaker <> 'closed'")" 0
halt unborn

# --- a clone: the cell's pass first -------------------------------------------------------------------------------------------

copy_of cell1 clone
copy_of cell1 quick
pass cell1 >/dev/null
start_copy clone
refused clone 'a clone'
goes_on cell1 'beside the clone' second
# The application's sessions have prepared the calls by now.
open o clone
expect 'every save of one session of the clone' "$(tell o "INSERT INTO routes (name) VALUES ('c1')"; tell o "INSERT INTO routes (name) VALUES ('c2')")" 'ERROR:  55000ERROR:  55000'
# It has tracked a lease in the meantime that its worker would settle.
begin 1 5 stuck
at clone "INSERT INTO claims.cells_outstanding_leases (uuid, cell_id) VALUES ('$(lease 5)', 1)"
expect 'finish is refused' "$(state_in clone "SELECT claims.finish(1, 'service', '$(lease 5)')") $(outcome 1 5)" '55000 outstanding'
expect 'the cell may end it' "$(as_cell 1 "SELECT claims.rollback_update(1, '$(lease 5)')")" t
close o; halt clone

# --- a clone: its pass first -------------------------------------------------------------------------------------------------

# The copy is older than the last pass of the cell: it has lost already.
start_copy quick
expect 'its pass is refused' "$(state_in quick "SELECT * FROM claims.reconcile(1, 'service')")" 55000
halt quick
copy_of cell1 faster
start_copy faster
# Nobody has made a pass since the copy, so it has the epoch of the cell.
expect 'a copy whose pass comes first waits while the cell acts' "$(state_in faster "SELECT * FROM claims.reconcile(1, 'service')")" 55000
( use_cluster faster; PGUSER=app psql -XqAt -c "SELECT * FROM claims.reconcile(1, 'service')" ) 2>&1 | tr '\n' ' ' >"$CLAIMS_TMP/said" || true
expect 'the error says where the other one is' "$(grep -cF "It acts from $(hostname):$(as_server realpath "${CLUSTER_DIR[cell1]}/data"), with the same epoch" "$CLAIMS_TMP/said")" 1
refused faster 'a copy with the same epoch'
goes_on cell1 'beside the copy' undisturbed
at shared "UPDATE claims.cell_epochs SET acted_at = clock_timestamp() - interval '11 s'"
goes_on cell1 'the cell acts by saving' acting
expect 'which the service has noted' "$(at shared "SELECT acted_at > clock_timestamp() - interval '8 s' FROM claims.cell_epochs WHERE cell_id = 1")" t
crash cell1; resume cell1
goes_on cell1 'a crash and a restart are no copy' restarted
expect 'the copy still waits' "$(state_in faster "SELECT * FROM claims.reconcile(1, 'service')")" 55000
silent 1
refused faster 'a copy that may take over does so with a pass, not with a save'
expect 'a clone whose pass comes first, after silence' "$(pass faster)" '0|0'
refused cell1 'the cell'
goes_on faster 'the clone is the cell now' third
expect 'an administrator takes the cell back' "$(adopt cell1 'this one is production')" t
goes_on cell1 'production' fourth
refused faster 'the clone'
halt faster

# --- what is sent after the end of a transaction ------------------------------------------------------------------------------------

copy_of cell1 sudden
start_copy sudden
open commits cell1; tell commits "BEGIN; INSERT INTO routes (name) VALUES ('open-commit'); SET CONSTRAINTS ALL IMMEDIATE" >/dev/null
open aborts cell1; tell aborts "BEGIN; INSERT INTO routes (name) VALUES ('open-abort'); SET CONSTRAINTS ALL IMMEDIATE" >/dev/null
open pends cell1; tell pends "BEGIN; INSERT INTO routes (name) VALUES ('open-pends'); SELECT claims.begin_pending(1, 'service') IS NULL AS nothing" >/dev/null
open_leases() { at shared "SELECT string_agg(concat_ws(' ', bucket_value, status), ', ' ORDER BY bucket_value) FROM claims.claims WHERE bucket_value LIKE 'open-%'"; }
expect 'three leases have begun' "$(open_leases)" 'open-abort 2, open-commit 2, open-pends 2'
expect 'another database becomes the cell' "$(adopt sudden 'by mistake')" t
expect 'the transactions end all the same' "$(tell commits COMMIT)$(tell aborts ROLLBACK)$(tell pends COMMIT)" ''
# A session reads the answer to what it has sent before that to its next call.
expect 'the next saves of their sessions are refused' "$(for name in commits aborts pends; do tell "$name" "INSERT INTO routes (name) VALUES ('next-$name')"; done)" 'ERROR:  55000ERROR:  55000ERROR:  55000'
expect 'neither commit nor rollback was accepted' "$(open_leases)" 'open-abort 2, open-commit 2, open-pends 2'
expect 'production is taken back' "$(adopt cell1 'the clone was started by mistake')" t
expect 'its pass ends them' "$(in_cluster cell1 "SELECT committed, rolled_back, pending, orphaned FROM claims.reconcile(1, 'service', '1 hour')")" '2|1|0|0'
expect 'as they ended here' "$(open_leases)" 'open-commit 1, open-pends 1'
for name in commits aborts pends; do close "$name"; done
halt sudden

# --- a backup that is restored in the cell's place -------------------------------------------------------------------------------

copy_of cell1 backup
pass cell1 >/dev/null
expect 'a name that the backup does not know' "$(add cell1 later) $(settled)" '00000 soon'
halt cell1
start_copy backup
refused backup 'the backup'
expect 'until it is adopted' "$(adopt backup 'restored after a fire')" t
goes_on backup 'the backup' fifth
resume cell1
refused cell1 'the one before'
expect 'it keeps the names of the one before' "$(at shared "SELECT count(*) FROM claims.claims WHERE bucket_value = 'later'")" 1
expect 'back again' "$(adopt cell1 'the disk was fine') $(state_in cell1 "SELECT 1")" 't 00000'
halt backup

# The other order: the backup is as new as the cell, and its pass comes first, while the cell is down.
copy_of cell1 newest
halt cell1
start_copy newest
silent 1
expect 'a backup whose pass comes first' "$(pass newest)" '0|0'
goes_on newest 'the backup is the cell now' eighth
resume cell1
refused cell1 'the one before'
expect 'its pass, too' "$(state_in cell1 "SELECT * FROM claims.reconcile(1, 'service')")" 55000
goes_on newest 'the backup saves beside it' ninth
expect 'production is taken back' "$(adopt cell1 'the backup was started by mistake')" t
goes_on cell1 'production' tenth
refused newest 'the backup'
halt newest

# --- a promoted standby that lost its race ---------------------------------------------------------------------------------------

use_cluster cell1
make_standby promoted
expect 'the primary saves' "$(add cell1 streamed)" 00000
caught_up promoted
control promoted promote
pass cell1 >/dev/null
refused promoted 'a standby that was promoted beside its primary'
goes_on cell1 'the primary' sixth
expect 'the standby is adopted' "$(adopt promoted 'failover')" t
refused cell1 'the primary'
goes_on promoted 'the standby' seventh
# The other order: the standby makes a pass before the primary does, and nobody adopts it.
use_cluster promoted
make_standby second
expect 'the primary of now saves' "$(add promoted streamed-again) $(settled)" '00000 soon'
caught_up second
control second promote
expect 'a promoted standby saves at once' "$(add second promoted-early)" 00000
refused promoted 'its primary, whatever it has not heard of'
silent 1
expect 'the primary does not come back by itself' "$(state_in promoted "SELECT * FROM claims.reconcile(1, 'service')")" 55000
expect 'the pass of the standby' "$(pass second)" '0|0'
goes_on second 'the standby is the cell now' eleventh
refused promoted 'its primary'
goes_on second 'the standby saves beside its primary' twelfth
halt second
expect 'check' "$(at shared 'SELECT count(*) FROM claims.check()')" 0

# --- clients of their own, and passes beside saves ---------------------------------------------------------------------------------

expect 'clients of their own present nothing' "$(state_as_cell 1 "SELECT claims.rollback_update(1, claims.begin_update(1, '[$(claim theirs)]'))")" 00000
expect 'back at last' "$(adopt cell1 'failback')" t
errors=$CLAIMS_TMP/errors; : >"$errors"
( for number in $(seq 1 30); do state=$(add cell1 "beside-$number"); [ "$state" = 00000 ] || echo "save $number: $state" >>"$errors"; done ) & saving=$!
( while kill -0 $saving 2>/dev/null; do pass cell1 >/dev/null 2>>"$errors" || echo 'a pass failed' >>"$errors"; done ) & passing=$!
wait $saving; wait $passing || true
expect 'passes beside saves do them no harm' "$(cat "$errors") $(at shared "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'beside-%'")" ' 30'
