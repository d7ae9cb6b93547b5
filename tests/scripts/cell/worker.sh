#!/usr/bin/env bash
# The background worker: its jobs in a cell and at the service, and the failures that it survives.
. "$(dirname "$0")/../cells.bash"

# Recovery does not run for now: leases that are settled are settled because their transactions committed.
start_cells -c shared_preload_libraries=claims -c claims.databases=postgres -c claims.reconcile_interval=1h

# until_true WHAT CLUSTER STATEMENT: in time the statement says t.
until_true() { expect "$1" "$(wait_for t at "$2" "$3")" t; }
ONE_WORKER="SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'claims worker' AND datname = 'postgres'"
worker_pid() { at "$1" "SELECT pid FROM pg_stat_activity WHERE backend_type = 'claims worker'"; }
reload_with() { at "$1" "ALTER SYSTEM SET $2" && at "$1" 'SELECT pg_reload_conf()' >/dev/null; }
passes() { at "$1" "SELECT count(*) FROM claims.passes WHERE $2"; }

for cluster in shared cell1 cell2; do until_true "$cluster has a worker" "$cluster" "$ONE_WORKER"; done

# --- what committed is settled ----------------------------------------------------------------------------------------

save 1 1 before
sleep 1.5
expect 'a cell that nobody named is not attended to' "$(claimed 1) $(tracked 1)" 'before* 1'
as_app 1 "SELECT claims.attend(1, 'service')" >/dev/null
as_app 2 "SELECT claims.attend(2, 'service')" >/dev/null
expect 'attend needs a foreign server' "$(state_as_app 1 "SELECT claims.attend(1, 'nothing')")" 42704
expect 'and the right to act for the cell' "$(state_as_app 1 "SELECT claims.attend(2, 'service')")" 42501
until_true 'now it is: committed' shared "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'before'"
for number in 2 3 4; do
  save 1 $number "name$number"
  until_true "settled by itself: lease $number" shared "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'name$number'"
done
save 2 5 second
until_true 'also where the extension belongs to a role that cannot log in' shared "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'second'"
until_true 'and forgotten in the cell' cell1 'SELECT count(*) = 0 FROM claims.cells_outstanding_leases'

# --- recovery ---------------------------------------------------------------------------------------------------------

# From now on; a worker that is started anew does not wait for the end of the hour.
reload_with cell1 "claims.reconcile_interval = '1s'"
at cell1 "SELECT pg_terminate_backend($(worker_pid cell1), 60000)" >/dev/null
xid=$(as_app 1 "BEGIN; SELECT pg_current_xact_id(); ROLLBACK")
begin 1 6 given-up "$xid"
until_true 'a lease whose transaction was rolled back is rolled back' shared "SELECT count(*) = 0 FROM claims.claims WHERE bucket_value = 'given-up'"
until_true 'passes of recovery leave rows' cell1 "SELECT count(*) >= 2 FROM claims.passes WHERE kind = 'reconcile' AND cell_id = 1 AND sqlstate IS NULL AND counts ? 'rolled_back'"
expect 'one of them counts it' "$(passes cell1 "kind = 'reconcile' AND counts ->> 'rolled_back' = '1'")" 1
for cluster in shared cell2; do expect "purging leaves a row in $cluster" "$(passes $cluster "kind = 'purge'")" 1; done

# --- between two rounds it is out of everybody's way --------------------------------------------------------------------

until_true 'asleep it has no transaction and no snapshot' cell1 \
  "SELECT DISTINCT xact_start IS NULL AND backend_xmin IS NULL FROM pg_stat_activity, pg_sleep(0.3) WHERE backend_type = 'claims worker' AND state = 'idle'"

# --- nor while it waits for the service ----------------------------------------------------------------------------------

waiting() { # WHAT: the worker of cell 1 is waiting for the service, which is held up
  until_true "$1: the worker waits for the service" shared "SELECT count(*) = 1 FROM pg_stat_activity WHERE usename = 'cell1' AND wait_event = 'PgSleep'"
  expect "$1: without a transaction and a snapshot" \
    "$(at cell1 "SELECT query LIKE 'claims: $1%', xact_start IS NULL AND backend_xid IS NULL AND backend_xmin IS NULL FROM pg_stat_activity WHERE backend_type = 'claims worker'")" 't|t'
}
hold_up DELETE
save 1 20 slowly
waiting settle
let_go
until_true 'it is settled all the same' shared "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'slowly'"
xid=$(as_app 1 "BEGIN; SELECT pg_current_xact_id(); ROLLBACK")
hold_up DELETE
begin 1 21 slowly-given-up "$xid"
waiting reconcile
let_go
until_true 'it is rolled back all the same' shared "SELECT count(*) = 0 FROM claims.claims WHERE bucket_value = 'slowly-given-up'"
at cell1 "CREATE ROLE watcher LOGIN; SELECT claims.grant_monitor('watcher')" >/dev/null
expect 'passes are for whoever monitors' "$( (use_cluster cell1; PGUSER=watcher sql "SELECT count(*) > 2 FROM claims.passes WHERE kind = 'reconcile'") )" t
expect 'and for the cell' "$(as_app 1 "SELECT count(*) > 2 FROM claims.passes WHERE kind = 'reconcile'")" t

# --- a service that is not there ----------------------------------------------------------------------------------------

begin 1 22 waits-for-service
halt shared immediate
as_app 1 "$(track 22)" >/dev/null
settling_fails() { at cell1 "SELECT value FROM claims.metrics() WHERE name = 'claims_pass_failed' AND labels ->> 'kind' = 'settle' AND labels ->> 'cell' = '1'"; }
expect 'the metrics have what fails' "$(wait_for 1 settling_fails)" 1
until_true 'a failed pass is in claims.passes' cell1 "SELECT count(*) > 0 FROM claims.passes WHERE sqlstate = '08001' AND message IS NOT NULL"
before=$(worker_pid cell1)
sleep 3
expect 'the worker lives on' "$(worker_pid cell1)" "$before"
expect 'and tries less and less often' "$( [ "$(passes cell1 "sqlstate IS NOT NULL AND kind = 'reconcile'")" -le 10 ] && echo yes)" yes
resume shared
xid=$(as_app 1 "BEGIN; SELECT pg_current_xact_id(); ROLLBACK")
begin 1 7 late "$xid"
until_true 'it goes on when the service is back' shared "SELECT count(*) = 0 FROM claims.claims WHERE bucket_value = 'late'"
until_true 'what had committed is settled' shared "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'waits-for-service'"
expect 'nothing fails any more' "$(wait_for 0 settling_fails)" 0
expect 'and one row of settling says so' "$(passes cell1 "kind = 'settle' AND cell_id = 1 AND sqlstate IS NULL")" 1

# --- DROP and CREATE EXTENSION, the end of the process, other settings ----------------------------------------------------

at cell1 "DROP EXTENSION claims CASCADE" 2>/dev/null
sleep 1
# The wrapper has gone with it, and with that the server.
at cell1 "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'app');
          CREATE SERVER service FOREIGN DATA WRAPPER claims_service
            OPTIONS (host '127.0.0.1', port '${CLUSTER_PORT[shared]}', dbname 'postgres', connect_timeout '5');
          CREATE USER MAPPING FOR postgres SERVER service OPTIONS (user 'cell1', password '$CELLS_PASSWORD');
          SELECT claims.attend(1, 'service')" >/dev/null
save 1 8 again
expect 'after DROP and CREATE EXTENSION it is another database: its epochs went with the extension' "$(state_at cell1 "SELECT * FROM claims.reconcile(1, 'service')")" 55000
until_true 'the worker is told the same, and keeps its SQLSTATE' cell1 "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'reconcile' AND sqlstate = '55000' AND message = 'another database acts as cell 1'"
expect 'no error of the service has another one' "$(passes cell1 "sqlstate NOT IN ('55000', '08001')")" 0
# It tries to settle what was committed before it recovers, and after that again.
until_true 'nor may it settle' cell1 "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'settle' AND sqlstate = '55000' AND message = 'another database acts as cell 1'"
expect 'nothing is settled' "$(at shared "SELECT status FROM claims.claims WHERE bucket_value = 'again'")" 2
expect 'until it is adopted' "$(at cell1 "SELECT claims.adopt_cell(1, 'service', 'the extension was made anew') > 0; SELECT orphaned FROM claims.reconcile(1, 'service')" | tr '\n' ' ')" 't 0 '
until_true 'then it goes on' shared "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'again'"

before=$(worker_pid cell1)
at cell1 "SELECT pg_terminate_backend($before)" >/dev/null
until_true 'terminated, it is started again' cell1 "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'claims worker' AND pid <> $before"
crash cell1
resume cell1
until_true 'after a crash of the server, too' cell1 "$ONE_WORKER"
save 1 9 crashed
until_true 'and works' shared "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'crashed'"

reload_with cell1 "claims.databases = ''"
until_true 'a database that is no longer named has none' cell1 "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'claims worker'"
reload_with cell1 "claims.databases = 'postgres, \"Later\"'"
until_true 'one that is named again has one' cell1 "$ONE_WORKER"
sleep 1
at cell1 'CREATE DATABASE "Later"'
until_true 'one that comes later has one then' cell1 "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'claims worker' AND datname = 'Later'"
at cell1 'DROP DATABASE "Later" WITH (FORCE)'
until_true 'and keeps nobody from dropping it' cell1 "$ONE_WORKER"

# --- verification -----------------------------------------------------------------------------------------------------------

as_app 1 "CREATE TEMP TABLE nothing ()" >/dev/null 2>&1 || true
at cell1 "CREATE TABLE paths (id bigint PRIMARY KEY, path text UNIQUE, namespace_id bigint);
          INSERT INTO paths VALUES (1, 'unclaimed', 1);
          SELECT claims.claim_attribute('paths', 'path', 'ROUTES', 'GROUP', 'namespace_id', 'RAILS_TABLE_GROUPS')" >/dev/null
expect 'nobody has asked for any: it has verified nothing' "$(passes cell1 "kind = 'verify'")" 0
reload_with cell1 "claims.verify_interval = 1"
until_true 'verification of every source type' cell1 "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'verify' AND source_type = 'RAILS_TABLE_GROUPS' AND counts ->> 'missing' = '1'"
expect 'it corrects nothing by itself' "$(passes cell1 "kind = 'verify' AND counts ->> 'corrected' <> '0'")" 0
reload_with cell1 "claims.verify_correct = on"
until_true 'unless it is to' shared "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'unclaimed'"
# While the service does not answer, no transaction is open here.
open locker shared "$(at shared 'SELECT current_user')"
tell locker 'BEGIN; LOCK TABLE claims.claims' >/dev/null
until_true 'verify: the worker waits for the service' shared "SELECT count(*) > 0 FROM pg_stat_activity WHERE usename = 'cell1' AND wait_event_type = 'Lock' AND query LIKE '%digest_records%'"
expect 'verify: without a transaction and a snapshot' \
  "$(at cell1 "SELECT query LIKE 'claims.verify: %', xact_start IS NULL AND backend_xid IS NULL AND backend_xmin IS NULL FROM pg_stat_activity WHERE backend_type = 'claims verifier'")" 't|t'
tell locker ROLLBACK >/dev/null
close locker
at cell1 "INSERT INTO paths VALUES (2, 'later', 1)" >/dev/null
until_true 'and goes on' shared "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'later'"
reload_with cell1 "claims.verify_interval = 0"

# --- who is attended to -----------------------------------------------------------------------------------------------------

as_app 1 "SELECT claims.attend(1, NULL)" >/dev/null
save 1 30 unattended
sleep 2.5
expect 'a cell that is attended to no more' "$(at shared "SELECT status FROM claims.claims WHERE bucket_value = 'unattended'") $(tracked 1)" '2 30'
as_app 1 "SELECT claims.automatic(1, 'service')" >/dev/null
until_true 'automatic mode names it, too' shared "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'unattended'"
as_app 1 "SELECT claims.automatic(NULL, NULL)" >/dev/null
save 1 31 attended
until_true 'which is attended to when that is over' shared "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'attended'"

expect 'check' "$(at shared 'SELECT count(*) FROM claims.check()')" 0
