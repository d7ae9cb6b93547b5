#!/usr/bin/env bash
# Names that are kept back, as cells meet them: a save, an observed one, an import, a verification, in the cell that gave them up and in another one.
. "$(dirname "$0")/../cells.bash"

start_cells
at shared "SELECT claims.set_quarantine('ROUTES', '30 days', 'a test')" >/dev/null
for number in 1 2; do
  at "cell$number" "ALTER TABLE routes OWNER TO app; ALTER DATABASE postgres SET claims.observe_timeout = '60s'"
  as_app $number "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic($number, 'service')" >/dev/null
done
# row ID NAME: the statement that saves a row with this id, which is its subject, too.
row() { printf "INSERT INTO routes (id, name) OVERRIDING SYSTEM VALUE VALUES (%s, '%s')" "$1" "$2"; }
# unclaimed CELL ID NAME: a row that calls for a claim which nobody has made.
unclaimed() { at "cell$1" "BEGIN; SELECT claims.skip_capture('a test'); $(row "$2" "$3"); COMMIT" >/dev/null; }
kept() { at shared "SELECT coalesce(string_agg(concat_ws(' ', bucket_value, cell_id, subject_id), ', ' ORDER BY bucket_value), '-') FROM claims.quarantined_names"; }
owner() { at shared "SELECT coalesce(string_agg(concat_ws(' ', cell_id, subject_id), ''), 'nobody') FROM claims.get_record('ROUTES', '$1')"; }
without_leases() { settled >/dev/null; }

# --- saves ------------------------------------------------------------------------------------------------------------------

as_app 1 "$(row 7 mine); $(row 8 renamed); $(row 9 corrected); $(row 10 imported)"
without_leases
as_app 1 "DELETE FROM routes WHERE id IN (7, 10); UPDATE routes SET name = 'other' WHERE id = 8"
without_leases
expect 'what a cell gives up' "$(kept)" 'imported 1 10, mine 1 7, renamed 1 8'
expect 'is taken for another cell, and for another row' "$(state_as_app 2 "$(row 7 mine)") $(state_as_app 1 "$(row 11 mine)")" '23505 23505'
conflict="DO \$\$ BEGIN $(row 7 mine); SET CONSTRAINTS ALL IMMEDIATE; EXCEPTION WHEN unique_violation THEN NULL; END \$\$; SELECT reason, retryable, holder_cell_id FROM claims.last_conflicts()"
expect 'says for how long, and not whose it was' "$(as_app 2 "$conflict")" 'quarantined|f|'
expect 'a form' "$(as_app 2 "SELECT claims.is_available('routes', 'name', 'mine'), claims.first_available('routes', 'name', '{mine,renamed,free}')") $(as_app 1 "SELECT claims.is_available('routes', 'name', 'renamed', '8')")" 'f|free t'
at shared "ALTER DATABASE postgres SET log_statement = 'all'; ALTER DATABASE postgres SET log_min_messages = 'log'"
asked() { cluster_log shared | grep -c 'FROM claims.name_holders(' || true; }
before=$(asked)
expect 'of a hundred names' "$(as_app 2 "SELECT claims.first_available('routes', 'name', array_fill('mine'::text, '{99}') || 'free'::text)")" free
expect 'it asks once' "$(($(asked) - before))" 1
at shared "ALTER DATABASE postgres RESET log_statement; ALTER DATABASE postgres RESET log_min_messages"
as_app 1 "$(row 7 mine)"
without_leases
expect 'the row of before has it back' "$(owner mine) $(kept)" '1 7 imported 1 10, renamed 1 8'
as_app 1 "DELETE FROM routes WHERE id = 7"
without_leases

# --- observed ---------------------------------------------------------------------------------------------------------------

as_app 2 "SELECT claims.set_enforcement('routes', 'name', 'observe', 'a test')" >/dev/null
as_app 2 "$(row 7 mine)"
expect 'an observed save goes through, and is counted' "$(at cell2 "SELECT outcome, bucket_value, count FROM claims.observations")" 'quarantined|mine|1'
expect 'and the name stays kept back' "$(owner mine) $(kept)" 'nobody imported 1 10, mine 1 7, renamed 1 8'

# --- imports ----------------------------------------------------------------------------------------------------------------

as_app 2 "SELECT claims.automatic(NULL, NULL)" >/dev/null
expect 'what an import would meet' "$(as_app 2 "SELECT bucket_value, source_id, reason FROM claims.preview_import(2, 'service', 'RAILS_TABLE_ROUTES')")" 'mine|7|quarantined'
as_app 2 "CALL claims.import_claims(2, 'service', 'RAILS_TABLE_ROUTES')" >/dev/null 2>&1
expect 'it meets' "$(as_app 2 "SELECT bucket_value, reason, holder_cell_id FROM claims.import_collisions(2, 'RAILS_TABLE_ROUTES')")" 'mine|quarantined|'
unclaimed 1 10 imported
expect 'who gave it up meets nothing' "$(as_app 1 "SELECT bucket_value FROM claims.preview_import(1, 'service', 'RAILS_TABLE_ROUTES')")" ''
as_app 1 "CALL claims.import_claims(1, 'service', 'RAILS_TABLE_ROUTES')" >/dev/null 2>&1
expect 'and has it back' "$(owner imported) $(kept)" '1 10 mine 1 7, renamed 1 8'

# --- verifications ----------------------------------------------------------------------------------------------------------

# verify CELL: missing|extra|corrected, and what is left.
verify() {
  as_app "$1" "SELECT missing, extra, corrected FROM claims.verify($1, 'service', 'RAILS_TABLE_ROUTES', recent => '0 s', correct => true)"
  as_app "$1" "SELECT discrepancy, bucket_value, outcome, holder_cell_id FROM claims.list_discrepancies($1, 'service', 'RAILS_TABLE_ROUTES', recent => '0 s')"
}
expect 'a row of another cell' "$(verify 2 | tr '\n' ' ')" '1|0|0 missing|mine|quarantined| '
unclaimed 1 7 mine
at cell1 "BEGIN; SELECT claims.skip_capture('a test'); DELETE FROM routes WHERE id = 9; COMMIT" >/dev/null
expect 'of the cell that gave it up, and a claim that no row calls for' "$(verify 1)" '1|1|2'
expect 'the one is claimed, the other kept back' "$(owner mine) $(kept)" '1 7 corrected 1 9, renamed 1 8'
expect 'and the row of the other cell is one of two' "$(verify 2 | tr '\n' ' ')" '1|0|0 missing|mine|held_by_other|1 '

# --- its time -----------------------------------------------------------------------------------------------------------------

at shared "UPDATE claims.claims SET available_at = clock_timestamp() - interval '1 s' WHERE status = 5"
at cell2 'DELETE FROM routes'
as_app 2 "SELECT claims.automatic(2, 'service'), claims.set_enforcement('routes', 'name', 'enforce', 'a test')" >/dev/null
expect 'what is over is free for everybody' "$(as_app 2 "SELECT claims.is_available('routes', 'name', 'corrected')") $(state_as_app 2 "$(row 1 corrected)")" 't 00000'
without_leases
expect 'and is theirs' "$(owner corrected)" '2 1'

# --- handed over ----------------------------------------------------------------------------------------------------------------

as_app 1 "$(row 12 handed); $(row 13 handed-too)"
without_leases
kept_before=$(kept)
at shared "SELECT claims.hand_over('ROUTES', 'handed', 2, 'GROUP', '50', 'RAILS_TABLE_ROUTES', '50', 'a court'),
                  claims.hand_over('ROUTES', 'handed-too', 2, 'GROUP', '51', 'RAILS_TABLE_ROUTES', '51', 'a court')" >/dev/null
expect 'the cell that had them reports them' "$(verify 1 | tr '\n' ' ')" '2|0|0 missing|handed|held_by_other|2 missing|handed-too|held_by_other|2 '
expect 'and goes on' "$(state_as_app 1 "UPDATE routes SET name = 'another' WHERE id = 12; DELETE FROM routes WHERE id = 13")" 00000
expect 'the row that one was given to adopts it, and so does the first row with the other' "$(state_as_app 2 "$(row 50 handed); $(row 52 handed-too)")" 00000
without_leases
expect 'nobody has given a name up' "$(owner handed) $(owner handed-too) $([ "$(kept)" = "$kept_before" ] && echo same)" '2 50 2 52 same'

for number in 1 2; do reconcile $number '0 s' >/dev/null; done
agree 'in the end'
