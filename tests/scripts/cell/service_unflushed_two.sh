#!/usr/bin/env bash
# A session confirms the commits of its leases, which the service has not flushed, by its next begin there, and forgets fifty of them at one time. An
# answer of that service to another call confirms nothing, nor does a begin at another service: a crash may still undo the commit.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims
start_second_service -c shared_preload_libraries=claims
kept() { tracked 1 | tr ' ' '\n' | grep -vc '^-$' || true; }
# save FROM TO: saves of one name each, in the session.
save() { local n saves=; for n in $(seq "$1" "$2"); do saves="$saves INSERT INTO routes (name) VALUES ('many$n');"; done; tell app "$saves"; }

say 'the begin of the fifty-first save confirms fifty'
open app cell1
expect 'fifty saves' "$(save 1 50)$(settled) $(kept)" 'soon 50'
alone
expect 'the next one forgets them, and is tracked itself' "$(save 51 51)$(settled) $(kept)" 'soon 1'
crash shared; resume shared
expect 'a crash undoes it alone' "$(claimed 1 | tr ' ' '\n' | grep '\*')" 'many51*'
expect 'recovery repeats it' "$(reconcile 1)" '1|1|0|0|0'
agree 'fifty-one saves'
close app

say 'an answer to another call, and a begin at another service'
open app cell1
expect 'forty-nine saves' "$(save 101 149)$(settled) $(kept)" 'soon 49'
alone
expect 'the fiftieth' "$(save 150 150)$(settled) $(kept)" 'soon 50'
expect 'its answer is read by a look-up' "$(tell app "SELECT claims.is_available('routes', 'name', 'free')")" t
expect 'a save at the other service forgets nothing' "$(tell app "INSERT INTO users (name) VALUES ('elsewhere')") $(kept)" ' 51'
crash shared; resume shared
expect 'a crash undoes the fiftieth' "$(claimed 1 | tr ' ' '\n' | grep '\*')" 'many150*'
as_app 1 "SELECT * FROM claims.reconcile(1, 'second', '0')" >/dev/null
expect 'recovery repeats it' "$(reconcile 1 | cut -d '|' -f 2) $(claimed 1 | grep -c '\*')" '1 0'
reconcile 1 >/dev/null
agree 'two services'
close app

say 'a row that another session has locked'
open app cell1
tell app "SET lock_timeout = '5s'" >/dev/null
open locker cell1 postgres
expect 'fifty saves' "$(save 201 250)$(settled) $(kept)" 'soon 50'
expect 'one of them is locked' "$(tell locker "BEGIN; SELECT 1 FROM claims.cells_outstanding_leases ORDER BY uuid LIMIT 1 FOR UPDATE")" 1
expect 'the next one leaves it, without waiting' "$(save 251 251)$(settled) $(kept)" 'soon 2'
close locker
reconcile 1 >/dev/null
agree 'the locked row'
