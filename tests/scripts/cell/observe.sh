#!/usr/bin/env bash
# Saves of observed names: whatever the service does, no save fails, and none is delayed by more than its limit.
. "$(dirname "$0")/../cells.bash"

start_cells -c log_min_messages=fatal
start_wrong_service
at cell1 "CREATE TABLE others (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE); GRANT ALL ON others TO app;
  SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'),
         claims.claim_attribute('others', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_GROUPS'), claims.automatic(1, 'service');
  ALTER DATABASE postgres SET claims.service_timeout = '120s'; ALTER DATABASE postgres SET claims.observe_timeout = '1s'" >/dev/null
as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim taken)]'))" >/dev/null
# save NAME: the error of a save, and whether it took longer than its limit: half of the service's 120 seconds would be far beyond it.
save() {
  local started=$SECONDS
  printf '%s' "$(tell app "INSERT INTO routes (name) VALUES ('$1')")"
  [ $((SECONDS - started)) -lt 30 ] || printf 'late'
}
observed() {
  at cell1 "SELECT coalesce(string_agg(concat_ws(' ', outcome, bucket_value, count), ', ' ORDER BY outcome, bucket_value), '-') FROM claims.observations
             WHERE table_name = 'routes'::regclass;
            SELECT FROM claims.purge_observations('0 s')" | tr -d '\n'
}
owned() { as_cell 1 "SELECT count(*) FROM claims.list_records(1) WHERE bucket_value = '$1'"; }

open app cell1
expect 'enforced' "$(save taken)" 'ERROR:  23505'
at cell1 "SELECT claims.set_enforcement('routes', 'name', 'observe', 'test')" >/dev/null
expect 'observed, in the next transaction of an open session' "$(save taken) $(observed)" ' taken taken 1'
expect 'what is free is claimed' "$(save free) $(owned free) $(observed)" ' 1 -'
expect 'other columns are enforced' "$(tell app "INSERT INTO others (name) VALUES ('taken')")" 'ERROR:  23505'

say 'a change takes effect at COMMIT, for transactions that write the table after it'
as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim held/1), $(claim held/2), $(claim held/3)]'))" >/dev/null
set_mode() { printf "SELECT claims.set_enforcement('routes', 'name', '%s', 'test')" "$1"; }
open admin cell1 postgres; open other cell1
tell app "BEGIN; INSERT INTO routes (name) VALUES ('before')" >/dev/null
tell admin "BEGIN; $(set_mode enforce)" >/dev/null
expect 'not before' "$(tell other "INSERT INTO routes (name) VALUES ('held/1')") $(observed)" ' taken held/1 1'
tell admin COMMIT >/dev/null
expect 'a transaction that has written it goes on' "$(tell app "UPDATE routes SET name = 'held/2' WHERE name = 'before'; COMMIT") $(observed)" ' taken held/2 1'
expect 'the next one of every session is refused' "$(for s in app other; do tell $s "INSERT INTO routes (name) VALUES ('held/3')"; done)" 'ERROR:  23505ERROR:  23505'
at cell1 "$(set_mode observe)" >/dev/null
expect 'and not any more' "$(tell app "INSERT INTO routes (name) VALUES ('held/3')") $(observed)" ' taken held/3 1'
tell app "DELETE FROM routes WHERE name LIKE 'held/%'" >/dev/null
close other; close admin

say 'a service that hangs'
hold_up INSERT
expect 'at a begin' "$(save hangs) $(observed)" ' timeout 1'
tell app "SET claims.observe_timeout = '100s'; SET statement_timeout = '8s'" >/dev/null
expect 'longer than the statement may run' "$(save briefly) $(observed)" ' timeout 1'
tell app "SET statement_timeout = 0; SET claims.observe_timeout = '10s'" >/dev/null
several() {
  local started=$SECONDS
  printf '%s' "$(tell app "BEGIN; SET CONSTRAINTS ALL IMMEDIATE; $(for n in 1 2 3 4 5 6; do printf "INSERT INTO routes (name) VALUES ('%s'); " "$1$n"; done) COMMIT")"
  [ $((SECONDS - started)) -lt 30 ] || printf 'late'
}
expect 'for all statements of a transaction together' "$(several each) $(observed)" ' timeout 6'
tell app "SET claims.observe_timeout = '100s'" >/dev/null
send app "INSERT INTO routes (name) VALUES ('cancelled')"
waiting() { [ "$(at shared "SELECT count(*) FROM pg_stat_activity WHERE query ~ 'begin_update_text' AND state = 'active' AND pid <> pg_backend_pid()")" != 0 ]; }
wait_until waiting
at cell1 "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'app'" >/dev/null
expect 'a cancel ends the save' "$(answer app) $(saved 1 | grep -c cancelled)" 'ERROR:  57014 0'
tell app 'RESET claims.observe_timeout' >/dev/null
let_go
expect 'and goes on' "$(save again) $(owned again)" ' 1'
hold_up DELETE
expect 'at the settlement, for which no save waits' "$(save settles) $(observed)" ' -'
expect 'the next one waits for its limit' "$(save follows) $(observed)" ' timeout 1'
let_go
reconcile 1 '0 seconds' >/dev/null
expect 'and the lease is settled' "$(owned settles)" 1
open app cell1
postmaster=$(head -1 "${CLUSTER_DIR[shared]}/data/postmaster.pid")
kill -STOP "$postmaster"
said=$(save connects)
kill -CONT "$postmaster"
expect 'at connecting' "$said $(observed)" ' timeout 1'

# From here on the service answers at once, so the limit is one that no busy machine reaches.
tell app "SET claims.observe_timeout = '20s'" >/dev/null
at cell1 "ALTER DATABASE postgres SET claims.observe_timeout = '20s'"

say 'a service that lies'
port=$(at cell1 "SELECT split_part(o, '=', 2) FROM pg_foreign_server, unnest(srvoptions) o WHERE o ~ '^port'")
call_wrong_service
for kind in no_row one_more_row null words nothing other_lease copy_in row_behind two_errors no_real_sqlstate in_transaction rows; do
  answers "begin $kind"
  expect "$kind" "$(save "lie-$kind") $(observed | grep -oE 'error|refused|timeout')" ' error'
done
expect 'nothing counts as leased' "$(at cell1 "SELECT count(*) FROM claims.cells_outstanding_leases WHERE uuid = '00000000-0000-4000-8000-000000000001'")" 0
at cell1 "ALTER SERVER service OPTIONS (SET port '$port', DROP sslmode, DROP gssencmode)"
expect 'and goes on' "$(save truth) $(owned truth)" ' 1'

say 'a service that takes nothing'
at shared "SELECT claims.set_mode('settle_only', 'test')" >/dev/null
expect 'a mode' "$(save mode) $(observed)" ' refused 1'
at shared "SELECT claims.set_mode('open', 'test')" >/dev/null
at shared 'ALTER SYSTEM SET default_transaction_read_only = on'
at shared 'SELECT pg_reload_conf()' >/dev/null
is_read_only() { [ "$(at shared 'SHOW default_transaction_read_only')" = "$1" ]; }
wait_until is_read_only on
expect 'a standby' "$(save standby) $(observed)" ' unavailable 1'
at shared 'ALTER SYSTEM RESET default_transaction_read_only'
at shared 'SELECT pg_reload_conf()' >/dev/null
wait_until is_read_only off
at shared 'ALTER ROLE cell1 CONNECTION LIMIT 0'
open app cell1
available() { tell app "SELECT coalesce(claims.is_available('routes', 'name', '$1')::text, 'unknown')"; }
tell app "SET claims.observe_timeout = '8s'" >/dev/null
expect 'full' "$(save full) $(observed) $(available other)" ' unavailable 1 unknown'
refusals() { cluster_log shared | grep -c 'too many connections for role' || true; }
before=$(refusals)
is_refused() { [ "$(refusals)" -gt "$before" ]; }
send app "INSERT INTO routes (name) VALUES ('still full')"
wait_until is_refused
kill -STOP "$postmaster"
said=$(answer app)
kill -CONT "$postmaster"
expect 'full, and then it does not answer' "$said $(observed)" ' unavailable 1'
at shared 'ALTER ROLE cell1 CONNECTION LIMIT -1'
halt shared immediate
expect 'gone' "$(save gone) $(observed) $(available other)" ' unavailable 1 unknown'
expect 'for a breaker, too' "$(for n in 1 2 3 4 5 6 7; do save "gone$n"; done; observed)" 'unavailable 7'
expect 'enforced columns fail' "$(tell app "INSERT INTO others (name) VALUES ('gone')")" 'ERROR:  08001'
resume shared
at cell1 "DROP USER MAPPING FOR postgres SERVER service"
open app cell1
expect 'no user mapping' "$(save mapping) $(observed)" ' error 1'
at cell1 "CREATE USER MAPPING FOR postgres SERVER service OPTIONS (user 'cell1', password '$CELLS_PASSWORD')"

say 'sessions do not wait for each other'
at cell1 'ALTER TABLE routes DROP CONSTRAINT routes_name_key'
as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim hot)]'))" >/dev/null
open app cell1; open other cell1
save hot >/dev/null
tell app "BEGIN; SET CONSTRAINTS ALL IMMEDIATE; INSERT INTO routes (name) VALUES ('hot')" >/dev/null
expect 'a name that another transaction is counting' "$(tell other "SET lock_timeout = '60s'; INSERT INTO routes (name) VALUES ('hot'); INSERT INTO routes (name) VALUES ('hot')")" ''
tell app COMMIT >/dev/null
expect 'all are counted' "$(observed)" 'taken hot 4'

say 'tables of the cell that somebody has locked'
tell app "SET claims.observe_timeout = '1s'" >/dev/null
open locks cell1 postgres
tell locks 'BEGIN; LOCK TABLE claims.observed' >/dev/null
expect 'an observation is lost' "$(save hot)" ''
tell locks 'ROLLBACK; BEGIN; LOCK TABLE claims.cells_outstanding_leases' >/dev/null
expect 'nothing is claimed' "$(save locked)" ''
tell locks ROLLBACK >/dev/null
expect 'which is counted' "$(observed)" 'error 1'
close locks

say 'verification claims what was missed'
at cell1 "DELETE FROM routes WHERE name IN ('hot', 'taken')" >/dev/null
reconcile 1 '0 seconds' >/dev/null
expect 'all of it' "$(at cell1 "SELECT missing > 10, held_by_other FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', correct => true)")" 't|0'
expect 'nothing is missing' "$(at cell1 "SELECT missing, different, extra FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES')")" '0|0|0'
