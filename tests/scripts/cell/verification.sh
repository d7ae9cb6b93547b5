#!/usr/bin/env bash
# Verification between separate clusters, a service and two cells: an unreachable service, a killed verifier, another
# locale in the cell, and the progress as seen by another session.
. "$(dirname "$0")/../cells.bash"

start_cells

# routes(id, name): the claims that each cell's rows call for, as they would be after an hour
for number in 1 2; do
  at "cell$number" "ALTER TABLE routes ADD COLUMN grp int NOT NULL DEFAULT 7;
    INSERT INTO claims.claimed_attributes VALUES ('routes', 'name', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', 'id', NULL)"
done
# verify CELL [ARGUMENTS]: checked|missing|different|extra|corrected|held_by_other|skipped|finished
verify() { as_app "$1" "SELECT * FROM claims.verify($1, 'service', 'RAILS_TABLE_ROUTES'${2:+, $2})" 2>>"$CLAIMS_TMP/warnings"; }
age() { at shared "UPDATE claims.claims SET updated_at = now() - interval '2 hours' WHERE lease_uuid IS NULL"; }

expect 'nothing here, nothing there' "$(verify 1)" '0|0|0|0|0|0|0|t'
at cell1 "INSERT INTO routes (name) SELECT 'one-' || i FROM generate_series(1, 2500) i"
at cell2 "INSERT INTO routes (name) SELECT 'two-' || i FROM generate_series(1, 300) i"
expect 'a cell that claims what it has' "$(verify 1 'correct => true')" '2500|2500|0|0|2500|0|0|t'
expect 'and the other one' "$(verify 2 'correct => true')" '300|300|0|0|300|0|0|t'
expect 'in order' "$(verify 1) $(verify 2)" '2500|0|0|0|0|0|0|t 300|0|0|0|0|0|0|t'
expect 'digests agree across clusters' "$(as_cell 1 "SELECT records, digest FROM claims.digest_records(1, 'RAILS_TABLE_ROUTES')")" \
  "$(as_app 1 "SELECT records, digest FROM claims.digest_expected('RAILS_TABLE_ROUTES')")"

# a name that both cells have: the owner keeps it, the other cell reports it
at cell2 "INSERT INTO routes (name) VALUES ('one-17')"
age
expect 'held by another cell' "$(verify 2 'correct => true')" '301|1|0|0|0|1|0|t'
expect 'and still the owner'\''s' "$(at shared "SELECT creator_id FROM claims.claims WHERE bucket_value = 'one-17'")" 1
at cell2 "DELETE FROM routes WHERE name = 'one-17'"

# damage at the service
at shared "DELETE FROM claims.claims WHERE bucket_value = 'one-5'; UPDATE claims.claims SET subject_id = '8' WHERE bucket_value = 'one-1500';
  INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status, updated_at)
    SELECT 1, 'stray ' || i, 2, '7', 3, i, 1, 1, now() - interval '2 hours' FROM generate_series(9000, 9004) i"
expect 'reported' "$(verify 1)" '2505|1|1|5|0|0|0|t'
expect 'nothing changed' "$(verify 1)" '2505|1|1|5|0|0|0|t'

# killed while it corrects: its corrections at the service stay, the next call finds the rest
at cell1 "CREATE FUNCTION slow(id bigint) RETURNS boolean LANGUAGE plpgsql AS \$\$ BEGIN
    IF id = 2000 AND current_setting('application_name') = 'victim' THEN PERFORM pg_sleep(600); END IF; RETURN true; END \$\$;
  UPDATE claims.claimed_attributes SET condition = 'public.slow(id)'"
open victim cell1
send victim "SET application_name = victim; SELECT * FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', 10, correct => true);"
progress="SELECT running, checked BETWEEN 640 AND 1930, estimated > 0 OR estimated = 0, discrepancies, source_id::int < 2000 FROM claims.verification_progress"
expect 'its progress is seen by others, before it commits' "$(wait_for 't|t|t|2|t' at cell1 "$progress")" 't|t|t|2|t'
at cell1 "SELECT pg_terminate_backend(pid) FROM claims.verification_progress WHERE running" >/dev/null
close victim
expect 'and is gone with it' "$(at cell1 'SELECT count(*) FROM claims.verification_progress')" 0
expect 'what it put right stays right' "$(at shared "SELECT bucket_value, subject_id, source_id FROM claims.claims WHERE bucket_value IN ('one-5', 'one-1500') ORDER BY 1")" $'one-1500|7|1500\none-5|7|5'
at cell1 'UPDATE claims.claimed_attributes SET condition = NULL'
expect 'the rest is found by the next' "$(verify 1 'correct => true')" '2505|0|0|5|5|0|0|t'
expect 'then all is in order' "$(verify 1)" '2500|0|0|0|0|0|0|t'

# the service is down, or goes down during the call: a clear error, no position stored, no connection left open
halt shared immediate
expect 'service down' "$(state_as_app 1 "SELECT * FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES')")" 08001
resume shared
expect 'and up again' "$(verify 1)" '2500|0|0|0|0|0|0|t'
at cell1 "UPDATE claims.claimed_attributes SET condition = 'public.slow(id)'"
open victim cell1
send victim "SET application_name = victim; SELECT * FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', 10, correct => true);"
wait_for t at cell1 'SELECT checked > 0 FROM claims.verification_progress' >/dev/null
crash shared
at cell1 "SELECT pg_cancel_backend(pid) FROM claims.verification_progress WHERE running" >/dev/null
expect 'canceled while the service is gone' "$(answer victim | grep -o '[0-9A-Z]\{5\}$')" 57014
expect 'the session goes on' "$(tell victim 'SELECT 1;')" 1
close victim
at cell1 'UPDATE claims.claimed_attributes SET condition = NULL'
resume shared
expect 'after a crash of the service' "$(verify 1)" '2500|0|0|0|0|0|0|t'

# stopped by max_runtime, then the cell crashes: the next call continues at the stored position
for _ in 1 2; do verify 1 "10, max_runtime => '0'" >/dev/null; done
stopped=$(at cell1 'SELECT source_id FROM claims.verification_progress')
crash cell1; resume cell1
expect 'the position survives a crash' "$(at cell1 'SELECT source_id FROM claims.verification_progress')" "$stopped"
expect 'and is where it goes on' "$(verify 1 '10')" "$((2500 - stopped))|0|0|0|0|0|0|t"

# a verification while the application saves and removes, the protocol in full: it finds nothing wrong, and does no harm
writer() {
  local n
  for n in $(seq 100 180); do
    save 1 "$n" "busy$n"; commit 1 "$n" >/dev/null
    [ $((n % 2)) = 0 ] || {
      as_cell 1 "SELECT claims.begin_update(1, '[]', '[$(bucket "busy$n")]', '$(lease $((n + 1000)))')" >/dev/null
      as_app 1 "BEGIN; DELETE FROM routes WHERE name = 'busy$n'; $(track $((n + 1000))) COMMIT" >/dev/null
      commit 1 $((n + 1000)) >/dev/null
    }
  done
}
# the protocol's helpers claim with subject and source 1, which the rows do not have: set right by verification afterwards
(leave_sessions; writer) &
while kill -0 $! 2>/dev/null; do verify 1 "100, correct => true, recent => '1 hour'"; done >"$CLAIMS_TMP/while_busy"
wait $!
expect 'while the application works nothing is missing, nothing corrected' "$(cut -d'|' -f2,5,6 "$CLAIMS_TMP/while_busy" | sort -u)" '0|0|0'
reconcile 1 0 >/dev/null
expect 'afterwards subject and source are put right' "$(verify 1 "100, correct => true, recent => '0'" | cut -d'|' -f2,4,5,7)" '0|0|41|0'
agree 'verified'
