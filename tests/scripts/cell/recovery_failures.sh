#!/usr/bin/env bash
# Failures between begin_update and commit_update, each with separate clusters, and what recovery does about them.
. "$(dirname "$0")/../cells.bash"

# The WAL writer sleeps: only what was flushed at its commit survives a crash.
start_cells -c wal_writer_delay=10s

# xid SESSION: opens a transaction and returns its id.
xid() { tell "$1" 'BEGIN; SELECT pg_current_xact_id()'; }

say 'the local transaction fails after begin'
open app cell1
begin 1 1 forbidden "$(xid app)"
expect 'the row breaks a constraint' "$(tell app "INSERT INTO routes (name) VALUES ('forbidden')")" 'ERROR:  23514'
tell app ROLLBACK >/dev/null
expect 'and the application takes its claim back' "$(as_cell 1 "SELECT claims.rollback_update(1, '$(lease 1)')")" t
begin 1 2 forbidden "$(xid app)"
tell app "INSERT INTO routes (name) VALUES ('forbidden')" >/dev/null
expect 'or it does not, and recovery does, as soon as the transaction is over' "$(tell app ROLLBACK)$(reconcile 1)" '1|0|1|0|0'
begin 1 3 forbidden
expect 'without its id recovery waits' "$(reconcile 1)$(fences 1)" '1|0|0|1|01'
expect 'until the lease is stale: then it fences' "$(reconcile 1 0) $(fences 1)" '1|0|0|1|0 2'
expect 'and rolls back' "$(reconcile 1 0)" '1|0|1|0|0'
agree 'constraint'

say 'the cell crashes before its COMMIT'
begin 1 11 early "$(xid app)"
tell app "INSERT INTO routes (name) VALUES ('early'); $(track 11)" >/dev/null
at cell1 'CREATE TABLE another_transaction ()'   # writes what is in the log so far: the crash does not forget the id
expect 'as long as it runs, recovery waits, however old' "$(reconcile 1 0)" '1|0|0|1|0'
crash cell1; resume cell1
expect 'the other cell cannot have the name yet' "$(as_cell 2 "SELECT conflicts->0->>'reason' FROM claims.try_begin_update(2, '[$(claim early)]')")" leased
expect 'then it rolls back at once' "$(reconcile 1)" '1|0|1|0|0'
save 2 12 early
expect 'and the name is free' "$(commit 2 12)$(as_app 2 "$(forget 12)")" t1
open app cell1
begin 1 13 unnamed
tell app "BEGIN; INSERT INTO routes (name) VALUES ('unnamed'); $(track 13)" >/dev/null
crash cell1; resume cell1
expect 'an unnamed transaction: when stale' "$(reconcile 1) $(reconcile 1 0) $(reconcile 1 0)" '1|0|0|1|0 1|0|0|1|0 1|0|1|0|0'
agree 'crash before COMMIT'

say 'the cell crashes with a prepared transaction'
open app cell1
begin 1 21 prepared "$(xid app)"
tell app "INSERT INTO routes (name) VALUES ('prepared'); $(track 21) PREPARE TRANSACTION 'p'" >/dev/null
crash cell1; resume cell1
expect 'it is still open' "$(reconcile 1 0) $(reconcile 1 0)" '1|0|0|1|0 1|0|0|1|0'
at cell1 "COMMIT PREPARED 'p'"
expect 'and commits' "$(reconcile 1)" '1|1|0|0|0'
agree 'prepared'

say 'the cell crashes after its COMMIT, before commit_update'
open app cell1
begin 1 31 late "$(xid app)"
tell app "SET synchronous_commit = off; INSERT INTO routes (name) VALUES ('late'); $(track 31) COMMIT" >/dev/null
crash cell1; resume cell1
expect 'what was tracked is still there, though it was not to wait for the disk' "$(saved 1) $(tracked 1)" 'late prepared 31'
expect 'and recovery commits it' "$(reconcile 1)" '1|1|0|0|0'
agree 'crash after COMMIT'

say 'the local row is not deleted'
save 1 41 row
commit 1 41 >/dev/null
crash cell1; resume cell1
expect 'crash between commit_update and forget_leases' "$(tracked 1)" 41
expect 'recovery forgets it' "$(reconcile 1)$(tracked 1)" '0|0|0|0|0-'
save 1 42 locked
open app cell1 postgres
tell app "BEGIN; SELECT FROM claims.cells_outstanding_leases FOR UPDATE" >/dev/null
expect 'another session holds the row: not waited for' "$(reconcile 1) $(tracked 1)" '1|1|0|0|0 42'
tell app ROLLBACK >/dev/null
expect 'the next pass forgets it' "$(reconcile 1)$(tracked 1)" '0|0|0|0|0-'
agree 'row not deleted'

say 'the service is down'
save 1 51 down
begin 1 52 idle
halt shared
expect 'at begin: the cell learns it at once, and has saved nothing' "$(state_as_app 1 "SELECT * FROM claims.reconcile(1, 'service', '0')")" 08001
expect 'during recovery: nothing is changed' "$(tracked 1) $(fences 1)" "51 $(fences 1)"
before=$(fences 1)
expect 'the application has saved, and cannot commit' "$(commit 1 51 2>&1 | grep -c 'could not connect\|failed')" 1
resume shared
expect 'recovery, when it is back' "$(reconcile 1)" '2|1|0|1|0'
# the service dies in the middle of a pass: one lease is settled already, the next one hangs
at shared "CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN OLD; END';
           CREATE TRIGGER hang BEFORE DELETE ON claims.claim_leases FOR EACH ROW WHEN (OLD.uuid = '$(lease 54)') EXECUTE FUNCTION hang()"
save 1 53 first
save 1 54 second
open recovery cell1
send recovery "SELECT * FROM claims.reconcile(1, 'service', '0', 2)"
wait_for 1 at shared "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'" >/dev/null
expect 'the first page is settled' "$(outcome 1 53)" committed
crash shared
expect 'a crash of the service during recovery' "$(answer recovery)" 'ERROR:  08001'
expect 'nothing is changed here' "$(tracked 1) $(($(fences 1) - before))" '53 54 0'
resume shared
expect 'leases survive the crash' "$(at shared 'SELECT count(*) FROM claims.claim_leases') $(at shared "SELECT string_agg(problem, ', ') FROM claims.check()")" '2 table is not as the extension has created it'
# the service is silent: the pass can be cancelled, and leaves no connection
send recovery "SET statement_timeout = '700ms'; SELECT * FROM claims.reconcile(1, 'service')"
expect 'a silent service, and a cancel' "$(answer recovery)" 'ERROR:  57014'
at shared 'SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE wait_event = $$PgSleep$$; DROP TRIGGER hang ON claims.claim_leases' >/dev/null
expect 'recovery, when it is back' "$(tell recovery "RESET statement_timeout; SELECT * FROM claims.reconcile(1, 'service', '0')")" '2|1|0|1|0'
expect 'and what was never saved is rolled back by the next pass' "$(reconcile 1 0)" '1|0|1|0|0'
agree 'service down'

say 'the service restarts from its crash with leases outstanding'
save 1 61 kept
begin 1 62 lost
begin 2 63 other
crash shared; resume shared
expect 'cell 1' "$(reconcile 1) $(reconcile 1 0) $(reconcile 1 0)" '2|1|0|1|0 1|0|0|1|0 1|0|1|0|0'
expect 'cell 2' "$(reconcile 2 0) $(reconcile 2 0)" '1|0|0|1|0 1|0|1|0|0'
agree 'service restarted'

say 'the reply to begin is lost'
for number in 71 72 73 74 75; do
  # The client is killed somewhere between its start and its end.
  ( use_cluster shared; PGUSER=cell1 exec psql -XqAt -c "SELECT claims.begin_update(1, '[$(claim "lost$number")]', lease_uuid => '$(lease $number)')" ) >/dev/null 2>&1 &
  client=$!
  sleep "0.0$((number % 5))"
  kill -9 $client 2>/dev/null || true
  wait $client 2>/dev/null || true
  wait_for 0 at shared "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%lost$number%' AND state = 'active' AND pid <> pg_backend_pid()" >/dev/null
  save 1 $number "lost$number"
  expect 'the repeated call, and the rest' "$(commit 1 $number)$(as_app 1 "$(forget $number)")" t1
done
begin 1 76 never
expect 'repeated after its commit or rollback' "$(commit 1 75) $(as_cell 1 "SELECT claims.rollback_update(1, '$(lease 76)')") $(state_as_cell 1 "SELECT claims.begin_update(1, '[$(claim never)]', lease_uuid => '$(lease 76)')")" 'f t 55000'
agree 'reply lost'
