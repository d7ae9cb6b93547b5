#!/usr/bin/env bash
# The service need not flush the commit that a session sends after its own COMMIT: a crash there may undo it. Confirmed outcomes, and tracked rows
# deleted after them, are never lost.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic(1, 'service')" >/dev/null
save_name() { tell app "INSERT INTO routes (name) VALUES ('$1')"; }
fall() { crash shared; resume shared; }
# unflushed LEASE: a lease that was begun, and committed without a flush.
unflushed() { begin 1 "$1" "name$1"; as_cell 1 "SELECT claims.commit_unflushed(1, '$(lease "$1")')"; }

say 'at the service'
alone
expect 'committed' "$(unflushed 1) $(claimed 1)" 't name1'
fall
expect 'a crash undoes it' "$(claimed 1) $(outcome 1 1)" 'name1* outstanding'
alone
expect 'again, and not for the first time' "$(unflushed 2) $(as_cell 1 "SELECT claims.commit_unflushed(1, '$(lease 2)')")" 't f'
expect 'commit_update says that it was done before' "$(commit 1 2)" f
fall
expect 'which is true' "$(outcome 1 2)" committed
# told WHAT STATEMENT ANSWER: the answer of a call about lease N is still right after a crash.
told() {
  alone; unflushed "$N" >/dev/null
  expect "$1 tells" "$(eval "$2")" "$3"
  fall
  expect "$1 has told the truth" "$(outcome 1 "$N")" committed
  N=$((N + 1))
}
N=3
told lease_outcome 'outcome 1 $N' committed
told settle_leases 'as_cell 1 "SELECT outcome, settled FROM claims.settle_leases(1, ARRAY['"'"'$(lease $N)'"'"'::uuid])"' 'committed|f'
told rollback_update 'state_as_cell 1 "SELECT claims.rollback_update(1, '"'"'$(lease $N)'"'"')"' 55000
told 'whatever is committed next' 'begin 1 99 name99; echo -n' ''
at shared "ALTER SYSTEM SET claims.change_feed = on"; at shared 'SELECT pg_reload_conf()' >/dev/null
told list_changes 'at shared "SELECT count(*) FROM claims.list_changes() WHERE bucket_value = '"'"'name$N'"'"'"' 1
told change_cursor 'at shared "SELECT claims.change_cursor() IS NOT NULL"' t
at shared "ALTER SYSTEM RESET claims.change_feed"; at shared 'SELECT pg_reload_conf()' >/dev/null
expect 'in one transaction with a begin it is flushed' "$(alone; as_cell 1 "SELECT claims.begin_update(1, '[$(claim own)]', lease_uuid => '$(lease 50)'), claims.commit_unflushed(1, '$(lease 50)')" | tail -c 2; fall; outcome 1 50)" 't
committed'
at shared 'CREATE TABLE others (n int)'
# other N STATEMENT...: whether another row of the session that runs these survives a crash.
other() {
  local n=$1 statement statements=()
  shift
  for statement in "$@" "INSERT INTO others VALUES ($n)" COMMIT 'SHOW synchronous_commit'; do statements+=(-c "$statement"); done
  alone
  ( use_cluster shared; psql -XqAt "${statements[@]}" | tail -1 )
  fall
  at shared "SELECT count(*) FROM others WHERE n = $n"
}
for n in 51 52 53; do begin 1 $n "name$n" >/dev/null; done
call() { echo "SELECT claims.commit_unflushed(1, '$(lease "$1")')"; }
expect 'only its own transaction is not flushed' "$(other 1 BEGIN "$(call 51)" COMMIT BEGIN)" 'on
1'
expect 'not one whose savepoint was rolled back' "$(other 2 BEGIN 'SAVEPOINT s' "$(call 52)" 'ROLLBACK TO s')" 'on
1'
expect 'nor the one after a call that was rolled back' "$(other 3 BEGIN "$(call 53)" ROLLBACK BEGIN)" 'on
1'
at shared "SELECT claims.commit_update(1, uuid) FROM claims.claim_leases; DELETE FROM claims.claims" >/dev/null

say 'a session of a cell'
open app cell1
expect 'a first save' "$(save_name one)$(settled)" soon
alone
expect 'a save' "$(save_name two)$(settled) $(claimed 1)" 'soon one two'
fall
expect 'is undone at the service, and tracked here' "$(claimed 1) $(tracked 1 | wc -w)" 'one two* 2'
expect 'recovery repeats it' "$(reconcile 1) $(claimed 1)" '1|1|0|0|0 one two'
agree 'repeated'
# More than are settled once more and forgotten at one time; and at the end something unflushed.
alone
saves=''; for n in $(seq 1 130); do saves="$saves INSERT INTO routes (name) VALUES ('many$n');"; done
expect 'many saves' "$(tell app "$saves")$(settled)" soon
kept=$(tracked 1 | wc -w)
expect 'most are forgotten' "$([ "$kept" -ge 1 ] && [ "$kept" -le 60 ] && echo "some are kept")" 'some are kept'
fall
expect 'the last one is undone' "$(claimed 1 | tr ' ' '\n' | grep -c '\*')" 1
expect 'and no other' "$(claimed 1 | tr ' ' '\n' | grep -c .)" 132
reconcile 1 >/dev/null
agree 'many'

say 'the background worker'
at cell1 "ALTER SYSTEM SET claims.databases = 'postgres'"; at cell1 'SELECT pg_reload_conf()' >/dev/null
forgotten() { if [ "$(wait_for - tracked 1)" = - ]; then echo forgotten; else tracked 1; fi; }
expect 'a save before' "$(save_name before)$(forgotten)" forgotten
alone
expect 'a save that it forgets' "$(save_name after)$(forgotten)" forgotten
fall
expect 'is not lost' "$(claimed 1 | tr ' ' '\n' | grep after)" after
close app
reconcile 1 >/dev/null
agree 'the worker'
