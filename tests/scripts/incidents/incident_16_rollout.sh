#!/usr/bin/env bash
# docs/rollout.md as a new user executes it, literally: two cells with rows from before, of which two collide with the other cell's, go from nothing to
# enforced names while their applications save. Each step is taken, taken back, and taken again; then the emergency, and a copy for staging.
# The service hangs for a second every now and then, and saves that observe leave names unclaimed; in the end every row has its claim.
# ROLLOUT_ROWS: rows from before in cell 1 (3000), ROLLOUT_ROWS_2: in cell 2 (a tenth of that). ROLLOUT_HANG: seconds between two hangs (10).
# test: long
. "$(dirname "$0")/../cells.bash"
. "$(dirname "$0")/../documented.bash"

rows=${ROLLOUT_ROWS:-3000}
rows_2=${ROLLOUT_ROWS_2:-$((rows / 10))}
probes=400
DOCUMENT=docs/rollout.md
profiles='1. Choose profiles' declare='2. Declare' observe='3. Observe' collisions='4. Read what would collide' import='5. Import' enforce='6. Enforce'
emergency='Off in an emergency'
start_machines
trap 'rm -f "$CLAIMS_TMP/writing" "$CLAIMS_TMP/hanging"; wait; cleanup' EXIT
# in_cell NUMBER SECTION STEP [WORD]: a step in that cell, by that cell's number.
in_cell() { FILL="s/(1, /($1, /g" follow "$2" "$3" "cell$1" "${4:-}"; }
# others COMMAND...: the collisions that it lists or counts, without those of names that both cells save and of rows that share a name; and `end`, if it
# has not failed.
others() { local all; all=$("$@") && sed -E '/^(both\/.*|other_source\|[0-9]+|)$/d' <<<"$all" && echo end; }
# owners NAME...: who has each, 0 for nobody.
owners() { local name; for name; do as claims_admin service "SELECT coalesce((SELECT cell_id FROM claims.get_record('ROUTES', '$name')), 0)"; done | tr '\n' ' ' | sed 's/ $//'; }

# --- the applications ----------------------------------------------------------------------------------------------------

# Rows from before: of each cell, two that collide with the other cell's, and two of one cell that are one name in two spellings.
old_rows() {
  as app "cell$1" "INSERT INTO routes (path) SELECT 'Old-$1/' || n FROM generate_series(1, $2) n;
    INSERT INTO routes (path) VALUES ('$3'), ('gitlab-org'); ANALYZE routes"
  # The machine is busy; how long an answer of the service may take is tested elsewhere. A hang is longer than observing waits.
  as postgres "cell$1" "ALTER DATABASE app SET claims.service_timeout = '60s'; ALTER DATABASE app SET claims.observe_timeout = '500ms'"
}
old_rows 1 "$rows" Acme/Tools
old_rows 2 "$rows_2" acme/tools
as app cell1 "INSERT INTO routes (path) SELECT 'probe/' || n FROM generate_series(1, $probes) n; INSERT INTO routes (path) VALUES ('Twice/One'), ('twice/one'), ('no//path')"

# writer CELL ROWS: saves names of its own, renames and deletes old rows, and saves and deletes names that the other cell saves, too. Errors go to
# $CLAIMS_TMP/errors.CELL, and $CLAIMS_TMP/saves.CELL has a line for each save.
touch "$CLAIMS_TMP/writing"
writer() {
  while [ -e "$CLAIMS_TMP/writing" ]; do
    case $((RANDOM % 6)) in
      0 | 1) echo "INSERT INTO routes (path) VALUES ('New-$1/$RANDOM-$RANDOM-$RANDOM');" ;;
      2) echo "UPDATE routes SET path = 'Renamed-$1/$RANDOM-$RANDOM-$RANDOM' WHERE id = $((1 + (RANDOM * 32768 + RANDOM) % $2));" ;;
      3) echo "DELETE FROM routes WHERE id = $((1 + (RANDOM * 32768 + RANDOM) % $2)) AND id % 5 = 0;" ;;
      4) echo "INSERT INTO routes (path) VALUES ('Both/$((RANDOM % 30))') ON CONFLICT DO NOTHING;" ;;
      5) echo "DELETE FROM routes WHERE path = 'Both/$((RANDOM % 30))';" ;;
    esac
    echo '\echo saved'
    sleep 0.02
  done | ( in_place "cell$1"; PGUSER=app psql -XqAt -v VERBOSITY=sqlstate >"$CLAIMS_TMP/saves.$1" 2>>"$CLAIMS_TMP/errors.$1" )
}
writers() {
  touch "$CLAIMS_TMP/writing"
  writer 1 "$rows" &
  writer 2 "$rows_2" &
}
end_writers() {
  local pid
  rm -f "$CLAIMS_TMP/writing"
  for pid in $(jobs -p); do [ "$pid" = "${hanging:-}" ] || wait "$pid" || true; done
}
saves() { wc -l <"$CLAIMS_TMP/saves.$1"; }
has_saved() { [ "$(saves "$1")" -gt "$2" ]; }
# Every writer has saved twice since, so the transactions that were open have ended.
some_saves() { local cell before; for cell in 1 2; do before=$(saves $cell); wait_until has_saved $cell $((before + 1)); done; }
# errors: what saves have failed with since the last call, without duplicates.
errors() { some_saves; cat "$CLAIMS_TMP"/errors.* | sed 's/^.*ERROR: *//' | sort -u | tr '\n' ' '; forget_errors; }
forget_errors() { local cell; for cell in 1 2; do : >"$CLAIMS_TMP/errors.$cell"; done; }
: >"$CLAIMS_TMP/saves.1"; : >"$CLAIMS_TMP/saves.2"; forget_errors
writers
some_saves

# hangs: stops the processes of the service's sessions for a second, every few seconds, while the applications save.
hangs() {
  local postmaster
  postmaster=$(as_server head -1 "${CLUSTER_DIR[shared]}/data/postmaster.pid")
  while [ -e "$CLAIMS_TMP/hanging" ]; do
    sleep "${ROLLOUT_HANG:-10}"
    stopped=$(pgrep -P "$postmaster" -f 'cell_[12]' || true)
    [ -z "$stopped" ] || { as_server kill -STOP $stopped 2>/dev/null; sleep 1; as_server kill -CONT $stopped 2>/dev/null; } || true
  done
}
begin_hangs() { touch "$CLAIMS_TMP/hanging"; hangs & hanging=$!; }
end_hangs() { rm -f "$CLAIMS_TMP/hanging"; wait $hanging; }
begin_hangs

# --- 1. profiles ----------------------------------------------------------------------------------------------------------

expect 'one name in two spellings, and one that is none' "$(in_cell 1 "$profiles" Do canonical_form | sed 's/^[0-9]*|no/no/')" 'twice/one|2|Twice/One|twice/one
no//path'
expect 'in the other cell nothing' "$(in_cell 2 "$profiles" Do canonical_form)" ''
as app cell1 "UPDATE routes SET path = 'twice/two' WHERE path = 'twice/one'; UPDATE routes SET path = 'no/path' WHERE path = 'no//path'"
expect 'after two renames nothing' "$(in_cell 1 "$profiles" Do canonical_form)" ''
choose() { follow "$profiles" 'Do 1' && in_cell 1 "$profiles" 'Do 2' && in_cell 2 "$profiles" 'Do 2'; }
compared() { in_cell 1 "$profiles" See; as claims_admin service "$(in_document "$profiles" See | cut -f 3)"; }
expect 'chosen' "$(choose)$(compared | tr '\n' ' ')" 'group/project group/project '
in_cell 1 "$profiles" Back
in_cell 2 "$profiles" Back >/dev/null
expect 'and back' "$(compared | tr '\n' ' ')" 'Group/Project Group/Project '
expect 'again' "$(choose)$(compared | tr '\n' ' ')" 'group/project group/project '

# --- one cell after the other: 2 to 5 ----------------------------------------------------------------------------------------

save() { state_as app "cell$1" "INSERT INTO routes (path) VALUES ('$2')"; }

declared() { in_cell "$1" "$declare" 'Do 1' && wait_until in_cell "$1" "$declare" 'Do 2'; }
breaker() { in_cell "$1" "$observe" See breaker | cut -d'|' -f 1; }
observed() { in_cell "$1" "$observe" 'Do 1' >/dev/null && in_cell "$1" "$observe" 'Do 2' >/dev/null; }
# On a busy machine the service may be too late for an observed save: tries several.
claims_what_it_saves() {
  local n
  for n in $(seq 1 50); do
    save "$1" "first-$1/$n" >/dev/null
    [ "$(owned_by_now "first-$1/$n")" != "$1" ] || { echo yes; return; }
  done
}
owned_by_now() { sleep 0.2; owners "$1"; }

declared 1
expect 'declared, and turned off' "$(in_cell 1 "$declare" See) $(save 1 off/1) $(owners off/1)" 'routes|path|off 00000 0'
wait_until in_cell 1 "$declare" 'Back 1'
in_cell 1 "$declare" 'Back 2'
expect 'and back' "$(in_cell 1 "$declare" See)|$(save 1 off/2)" '|00000'
declared 1
expect 'no save has failed' "$(errors)" ''

observed 1
expect 'what is saved is claimed' "$(claims_what_it_saves 1)" yes
expect 'the worker recovers' "$(wait_for t as monitor cell1 "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'reconcile' AND sqlstate IS NULL")" t
expect 'the breaker is closed, and the worker has no error' "$(wait_for closed breaker 1) $(in_cell 1 "$observe" See reconcile | cut -d'|' -f 2 | sort -u)" 'closed '
in_cell 1 "$observe" See outcome >/dev/null
in_cell 1 "$observe" Back
some_saves
expect 'and back: nothing is claimed any more' "$(save 1 off/3) $(owned_by_now off/3)" '00000 0'
observed 1
expect 'again' "$(claims_what_it_saves 1)" yes

# A claim that a row had before the step back to `off` may be another one's by now. A save that the service did not answer has left a lease, which
# recovery ends within a minute.
expect 'the first cell collides with nobody' "$(wait_for end others in_cell 1 "$collisions" Do claims.preview)" end
expect 'which can be counted' "$(wait_for end others in_cell 1 "$collisions" See)" end
as app cell1 "BEGIN; UPDATE routes SET namespace_id = 2 WHERE path = 'gitlab-org'; PREPARE TRANSACTION 'held'"
( in_cell 1 "$import" 'Do 1' >"$CLAIMS_TMP/import" 2>&1 || true ) &
importer=$!
progress() { in_cell 1 "$import" See imports; }
has_begun() { [ "$(progress | cut -d'|' -f 3)" -gt 1000 ]; }
wait_until has_begun
expect 'the import is running' "$(progress | cut -d'|' -f 1,2)" 'RAILS_TABLE_ROUTES|running'
in_cell 1 "$import" Stop >/dev/null
wait $importer
as app cell1 "ROLLBACK PREPARED 'held'"
expect 'it is stopped' "$(progress | cut -d'|' -f 2) $(grep -c 'canceling statement' "$CLAIMS_TMP/import")" 'stopped 1'
claims_of() { as claims_admin service "SELECT count(*) FROM claims.claims WHERE creator_id = $1"; }
expect 'some are claimed' "$([ "$(claims_of 1)" -gt 500 ] && echo yes)" yes
in_cell 1 "$import" 'Back 1'
in_cell 1 "$import" 'Back 2' set_mode
expect 'no lease is left' "$(wait_for 0 in_cell 1 "$import" 'Back 2' leases)" 0
expect 'all are given back' "$(wait_for 0 in_cell 1 "$import" 'Back 3') $(claims_of 1)" '0 0'
in_cell 1 "$import" 'Back 4'
expect 'no save has failed' "$(errors)" ''
observed 1
in_cell 1 "$import" 'Do 1' 2>/dev/null
expect 'it continued' "$(progress | cut -d'|' -f 2)" finished
# The writers have claimed other names meanwhile.
expect 'in the middle' "$([ "$(as claims_admin service "SELECT count(*) FROM claims.claims WHERE creator_id = 1 AND bucket_value ~* '^old-1/'")" -lt "$rows" ] && echo yes)" yes
import_1() { in_cell 1 "$import" 'Do 1' 2>/dev/null && in_cell 1 "$import" 'Do 2' >/dev/null; }
in_the_way() { import_1 && others in_cell 1 "$import" See import_collisions; }
expect 'nothing of the old rows is in the way' "$(wait_for end in_the_way)" end
in_cell 1 "$import" See claims.verify >/dev/null
expect 'old names are claimed' "$(owners acme/tools gitlab-org probe/1)" '1 1 1'
expect 'no save has failed' "$(errors)" ''

declared 2
observed 2
expect 'cell 2 claims what it saves' "$(claims_what_it_saves 2)" yes
would_collide() { others in_cell 2 "$collisions" Do claims.preview | cut -d'|' -f 1,3,4 | sort | tr '\n' ' '; }
expect 'two names are in both cells' "$(would_collide)" 'acme/tools|held_by_other|1 end gitlab-org|held_by_other|1 '
# People decide: cell 2 gives the one up, cell 1 the other.
expect 'people decide' "$(state_as app cell2 "UPDATE routes SET path = 'acme/tools-2' WHERE path = 'acme/tools'") $(state_as app cell1 "UPDATE routes SET path = 'gitlab-org-1' WHERE path = 'gitlab-org'")" '00000 00000'
# A rename that the service did not answer has left a lease, which recovery ends within a minute. Then the correction gives the old name up, and the
# import claims the new one.
given_up() { in_cell 1 "$import" 'Do 2' >/dev/null && would_collide; }
expect 'nothing would collide' "$(wait_for 'end ' given_up)" 'end '
import_2() { in_cell 2 "$import" 'Do 1' 2>/dev/null && in_cell 2 "$import" 'Do 2' >/dev/null; }
collided() { import_2 && others in_cell 2 "$import" See import_collisions; }
expect 'nothing has collided' "$(wait_for end collided)" end
expect 'each has the names that were decided' "$(owners acme/tools gitlab-org gitlab-org-1 acme/tools-2)" '1 2 1 2'
expect 'no save has failed' "$(errors)" ''

# --- 6. enforce -----------------------------------------------------------------------------------------------------------------

# refused FILE: cell 2 saves all names of cell 1's probes. FILE gets the number and the SQLSTATE of each that is refused; prints the SQLSTATEs.
refused() {
  seq 1 $probes | sed "s|.*|INSERT INTO routes (path) VALUES ('probe/&');\n\\\\if :ERROR\n\\\\echo & :SQLSTATE\n\\\\endif|" |
    ( in_place cell2; PGUSER=app psql -XqAt 2>/dev/null ) | sort >"$CLAIMS_TMP/$1"
  as app cell2 "DELETE FROM routes WHERE path LIKE 'probe/%'"
  cut -d' ' -f 2 "$CLAIMS_TMP/$1" | sort -u
}
number() { wc -l <"$CLAIMS_TMP/$1"; }
beyond() { comm -23 "$CLAIMS_TMP/$1" "$CLAIMS_TMP/$2" | wc -l; }
step() { in_cell 1 "$enforce" "$1" >/dev/null; in_cell 2 "$enforce" "$1" >/dev/null; }

expect 'observed names are never refused' "$(refused none)$(number none)" 0
in_cell 2 "$enforce" See observations >"$CLAIMS_TMP/seen"
expect 'but counted' "$(cut -d'|' -f 1 "$CLAIMS_TMP/seen" | grep -c taken)" 1
step 'Do 1'
refused one >/dev/null
expect 'one percent' "$([ "$(number one)" -lt $((probes / 20)) ] && echo yes)" yes
step 'Do 2'
expect 'ten percent' "$(refused ten) $([ "$(number ten)" -gt $((probes / 30)) ] && [ "$(number ten)" -lt $((probes / 4)) ] && echo yes) $(beyond one ten)" '23505 yes 0'
step 'Do 3'
expect 'all' "$(refused all) $(number all)" "23505 $probes"
conflicts() { in_cell 2 "$enforce" See claims_conflicts_total; }
expect 'the service counts them' "$(conflicts | grep '"cell": "2"' | grep -c '"taken".*|[1-9]')" 1
step Back
some_saves; forget_errors
expect 'and back' "$(refused none)$(number none)" 0
expect 'no save has failed' "$(errors)" ''
step 'Do 3'

# --- an emergency ------------------------------------------------------------------------------------------------------------------

end_hangs
halt shared immediate
expect 'saves fail' "$(save 1 gone/1) $(save 2 gone/2)" '08001 08001'
for cell in 1 2; do in_cell $cell "$emergency" 'Do 1' >/dev/null; done
expect 'saves go through' "$(save 1 gone/1) $(save 2 gone/2)" '00000 00000'
some_saves; forget_errors
for cell in 1 2; do in_cell $cell "$emergency" 'Do 2' >/dev/null; done
expect 'and without calls' "$(save 1 gone/3) $(save 2 gone/4)" '00000 00000'
expect 'no save has failed since' "$(errors)" ''
resume shared
begin_hangs
for cell in 1 2; do
  in_cell $cell "$emergency" Back claims.automatic >/dev/null
  expect 'the service is called again' "$(wait_for closed in_cell $cell "$emergency" Back breaker)" closed
  in_cell $cell "$import" 'Do 2' >/dev/null
done
expect 'what was saved meanwhile is claimed' "$(owners gone/1 gone/2 gone/3 gone/4)" '1 2 1 2'
expect 'no save has failed' "$(errors)" ''
step 'Do 1'; step 'Do 2'; step 'Do 3'
some_saves
expect 'saves fail for names of the other cell only' "$(errors | sed -E 's/(23505|55P03) //g')" ''

# --- the end ------------------------------------------------------------------------------------------------------------------------

end_writers
# unclaimed CELL: corrects, and says how many rows have no claim, how many are open, and which names they have.
unclaimed() { in_cell "$1" "$enforce" 'Do 4' >/dev/null 2>&1; in_cell "$1" "$enforce" 'Do 5' unclaimed_rows; }
is_settled() { unclaimed "$1" | cut -d'|' -f 2 | grep -qx 0; }
for cell in 1 2; do wait_until is_settled $cell; done
# Names that both have saved while they were observed: the cell without the claim gives them up.
for cell in 1 2; do
  given_up=$(in_cell $cell "$enforce" See list_discrepancies | cut -d'|' -f 1)
  expect "only names that both wanted ($cell)" "$(grep -vE '^(both/.*|)$' <<<"$given_up" || true)" ''
  [ -z "$given_up" ] || as app cell$cell "DELETE FROM routes WHERE claims.canonical_form('path', path) IN ($(sed "s/.*/'&'/" <<<"$given_up" | paste -sd,))"
done
for cell in 1 2; do
  expect "every row has its claim ($cell)" "$(wait_for '0|0|{}' unclaimed $cell)" '0|0|{}'
  expect "nothing is left to say ($cell)" "$(in_cell $cell "$enforce" 'Do 5' list_discrepancies)" ''
  in_cell $cell "$enforce" 'Do 6' >/dev/null
  expect "verification is clean ($cell)" "$(in_cell $cell "$import" See claims.verify) $(as app cell$cell "SELECT missing, different, extra, held_by_other FROM claims.verify($cell, 'claims_service', 'RAILS_TABLE_ROUTES', recent => '0')")" '0|0|0|0 0|0|0|0'
  as app cell$cell "SELECT claims.canonical_form('path', path) FROM routes" | LC_ALL=C sort >"$CLAIMS_TMP/saved.$cell"
  as claims_admin service "SELECT bucket_value FROM claims.claims WHERE creator_id = $cell AND status = 1" | LC_ALL=C sort >"$CLAIMS_TMP/owned.$cell"
  expect "every name is owned by the cell that has saved it ($cell)" "$(cmp "$CLAIMS_TMP/saved.$cell" "$CLAIMS_TMP/owned.$cell" && echo yes)" yes
done
expect 'and by no other one' "$(LC_ALL=C comm -12 "$CLAIMS_TMP/saved.1" "$CLAIMS_TMP/saved.2" | wc -l)" 0
expect 'check()' "$(as monitor service 'SELECT count(*) FROM claims.check()') $(as monitor cell1 'SELECT count(*) FROM claims.check()')" '0 0'

end_hangs

# --- a copy for staging -----------------------------------------------------------------------------------------------------------------

copy_of cell1 copied
echo "claims.databases = ''" | (cd /tmp && as_server sh -c "cat >>'${CLUSTER_DIR[copied]}/data/postgresql.conf'")
without_password start_copy copied
for step in 1 2; do DOCUMENT=docs/runbook.md follow 'A copy for staging' "Act $step" copied >/dev/null; done
expect 'the copy saves without claims' "$(state_as app copied "INSERT INTO routes (path) VALUES ('gitlab-org'), ('staged')") $(owners gitlab-org staged)" '00000 2 0'

expect 'every command of the page was executed' "$(comm -13 <(sort -u "$CLAIMS_TMP/followed") <(in_document | sort -u))" ''
