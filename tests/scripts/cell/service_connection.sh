#!/usr/bin/env bash
# The connection to the service: its lifetime, failures, and what is sent at the end of a transaction.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c log_connections=on -c log_statement=all -c log_min_messages=warning
for n in 1 2; do
  at "cell$n" "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic($n, 'service')" >/dev/null
done
# The sessions of cell 1 at the service; until there are so many of them.
service_pids() { at shared "SELECT coalesce(string_agg(pid::text, ' '), '-') FROM pg_stat_activity WHERE application_name = 'claims cell 1'"; }
until_sessions() { [ "$(wait_for "$1" at shared "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'claims cell 1'")" = "$1" ] || echo "there are $(service_pids)" >&2; }
outstanding() { at shared 'SELECT count(*) FROM claims.claim_leases'; }
# Recovery forgets settled leases; then both sides agree.
all_agree() { reconcile 1 >/dev/null; reconcile 2 >/dev/null; agree "$1"; }
save_name() { tell app "INSERT INTO routes (name) VALUES ('$1')"; }

say 'one connection, kept'
open app cell1
expect 'a save' "$(save_name one)" ''
expect 'is settled by itself' "$(settled) $(claimed 1)" 'soon one'
first=$(service_pids)
expect 'two more' "$(save_name two)$(save_name three)" ''
expect 'over the same connection' "$(settled) $(service_pids)" "soon $first"
expect 'where the calls of every save are prepared' "$(grep -cE 'execute claims_(begin|commit_unflushed):' "${CLUSTER_DIR[shared]}/log")" 5
expect 'recovery has nothing to settle, and forgets' "$(tell app "SELECT * FROM claims.reconcile(1, 'service')") $(tracked 1)" '0|0|0|0|0 -'
expect 'a name of another cell' "$(as_app 2 "INSERT INTO routes (name) VALUES ('other')")$(settled) $(save_name other)" 'soon ERROR:  23505'
expect 'leaves the connection as it is' "$(save_name four)$(settled) $(service_pids)" "soon $first"
close app; until_sessions 0
expect 'the session ends, and the connection with it' "$(service_pids)" -

say 'what an abort leaves'
open app cell1
tell app "BEGIN; INSERT INTO routes (name) VALUES ('aborted'); SET CONSTRAINTS ALL IMMEDIATE" >/dev/null
expect 'a lease is there' "$(outstanding)" 1
expect 'ROLLBACK' "$(tell app ROLLBACK)$(settled) $(claimed 1)" 'soon four one three two'
expect 'begin_pending, and an error' "$(tell app "BEGIN; INSERT INTO routes (name) VALUES ('aborted'); SELECT claims.begin_pending(1, 'service') IS NOT NULL; SELECT 1 / 0; COMMIT")" 't ERROR:  22012'
expect 'is rolled back, too' "$(settled) $(claimed 1)" 'soon four one three two'
expect 'a savepoint, and the same name again' "$(tell app "BEGIN; SAVEPOINT s; INSERT INTO routes (name) VALUES ('again'); SELECT claims.begin_pending(1, 'service') IS NOT NULL; ROLLBACK TO s; INSERT INTO routes (name) VALUES ('again'); COMMIT")" t
expect 'all is settled' "$(settled) $(claimed 1)" 'soon again four one three two'
expect 'several leases of one transaction' "$(tell app "BEGIN; INSERT INTO routes (name) VALUES ('s1'); SET CONSTRAINTS ALL IMMEDIATE; INSERT INTO routes (name) VALUES ('s2'); SAVEPOINT s; INSERT INTO routes (name) VALUES ('s3'); ROLLBACK TO s; INSERT INTO routes (name) VALUES ('s4'); COMMIT")" ''
expect 'are settled together' "$(settled) $(claimed 1)" 'soon again four one s1 s2 s4 three two'
at cell1 "DELETE FROM routes WHERE name LIKE 's_' OR name = 'again'"
for n in 1 2 3 4 5 6 7 8; do rounds="${rounds:-} SAVEPOINT r; INSERT INTO routes (name) VALUES ('r$n'); SELECT claims.begin_pending(1, 'service') IS NULL; ROLLBACK TO r;"; done
expect 'many savepoints, one after the other' "$(tell app "BEGIN; $rounds INSERT INTO routes (name) VALUES ('r8'); COMMIT" | tr -d ' ')$(settled)" ffffffffsoon
at cell1 "DELETE FROM routes WHERE name = 'r8'"
expect 'begin_pending, and COMMIT: finish stays the caller'\''s' "$(tell app "BEGIN; INSERT INTO routes (name) VALUES ('p1'); SELECT claims.begin_pending(1, 'service') AS lease \\gset
COMMIT")$(outstanding)" 1
expect 'finish, twice' "$(tell app "SELECT claims.finish(1, 'service', :'lease'), claims.finish(1, 'service', :'lease')")$(outstanding)" 't|f0'
expect 'PREPARE TRANSACTION leaves the lease' "$(tell app "BEGIN; INSERT INTO routes (name) VALUES ('p2'); PREPARE TRANSACTION 'p'")$(outstanding)" 1
expect 'until recovery has seen its end' "$(tell app "COMMIT PREPARED 'p'")$(reconcile 1)" '1|1|0|0|0'
all_agree 'aborts'

say 'a service that breaks'
first=$(service_pids)
at shared "SELECT pg_terminate_backend($first, 60000)" >/dev/null
expect 'its session was killed: the call is repeated over another one' "$(save_name killed)$(settled)" soon
expect 'and that is kept' "$([ "$(service_pids)" != "$first" ] && service_pids | wc -w)" 1
restart_cluster shared
expect 'it was restarted' "$(save_name restarted)$(settled)" soon
# A crash would undo commits that are not flushed (service_unflushed.sh); here all are flushed.
at shared CHECKPOINT
crash shared; resume shared
expect 'it crashed' "$(save_name crashed)$(settled)" soon
halt shared
expect 'it is down' "$(save_name down)" 'ERROR:  08001'
resume shared
expect 'and up again' "$(save_name up)$(settled)" soon
first=$(service_pids)
kill -STOP "$first"
tell app "SET claims.service_timeout = 300" >/dev/null
expect 'it hangs' "$(save_name hangs)" 'ERROR:  57014'
tell app 'RESET claims.service_timeout' >/dev/null
expect 'the next call has a connection of its own' "$(save_name after)" ''
kill -CONT "$first"
wait_for 0 at shared "SELECT count(*) FROM pg_stat_activity WHERE pid = $first" >/dev/null
expect 'what the hanging one did is rolled back by recovery' "$(reconcile 1 | cut -d'|' -f 4-)" '0|0'
until_sessions 1
all_agree 'broken'

say 'a cancel between the question and the answer'
hold_up INSERT
expect 'statement_timeout' "$(tell app "SET statement_timeout = 300; BEGIN; INSERT INTO routes (name) VALUES ('cancelled'); SET CONSTRAINTS ALL IMMEDIATE; COMMIT; RESET statement_timeout")" 'ERROR:  57014'
since=$(at shared 'SELECT clock_timestamp()')
send app "INSERT INTO routes (name) VALUES ('cancelled too')"
wait_for 1 at shared "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%begin_update%' AND query_start > '$since' AND pid <> pg_backend_pid()" >/dev/null
at cell1 "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'app'" >/dev/null
expect 'a cancel at COMMIT' "$(answer app)" 'ERROR:  57014'
let_go
expect 'the late answer is nobody'\''s' "$(save_name later)" ''
until_sessions 1
expect 'recovery' "$(reconcile 1 | cut -d'|' -f 4-)" '0|0'
all_agree 'cancelled'

say 'nobody waits for what is sent after COMMIT'
hold_up DELETE
expect 'a save' "$(save_name quick1)" ''
expect 'is leased as yet' "$(outstanding)" 1
open other cell1
expect 'the session is killed meanwhile' "$(tell other "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = 'app' AND pid <> pg_backend_pid()" 2>&1 | head -c 1)" t
let_go
expect 'the service goes on' "$(settled)" soon
close app; close other; open app cell1
all_agree 'not waited for'

say 'keep_service_connection off'
tell app 'SET claims.keep_service_connection = off' >/dev/null
expect 'a save' "$(save_name closed)$(settled)" soon
until_sessions 0
expect 'leaves no session' "$(service_pids)" -
expect 'an abort' "$(tell app "BEGIN; INSERT INTO routes (name) VALUES ('closed2'); SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK")$(settled)" soon
tell app 'RESET claims.keep_service_connection' >/dev/null
all_agree 'closed'

say 'changes of the catalog'
save_name c1 >/dev/null; first=$(service_pids)
at cell1 "ALTER SERVER service OPTIONS (ADD application_name 'renamed')"
expect 'ALTER SERVER' "$(save_name c2)$(at shared "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'renamed'") $(until_sessions 0; service_pids)" '1 -'
at cell1 "ALTER SERVER service OPTIONS (DROP application_name)"
save_name c3 >/dev/null; first=$(service_pids)
at cell1 "ALTER USER MAPPING FOR postgres SERVER service OPTIONS (ADD passfile '/dev/null')"
expect 'ALTER USER MAPPING' "$(save_name c4)$([ "$(service_pids)" = "$first" ] || echo another)" another
at cell1 "DROP USER MAPPING FOR postgres SERVER service"
expect 'DROP USER MAPPING' "$(save_name c5)" 'ERROR:  42704'
at cell1 "CREATE USER MAPPING FOR postgres SERVER service OPTIONS (user 'cell1', password '$CELLS_PASSWORD')"
expect 'and back' "$(save_name c6)$(settled)" soon
at cell1 "CREATE ROLE somebody; ALTER SERVER service OWNER TO somebody"
expect 'a server that is not an administrator'\''s any more' "$(save_name c7)" 'ERROR:  42501'
at cell1 "ALTER SERVER service OWNER TO postgres"
# Postgres would refuse what it writes, with the same SQLSTATE, but only after it has called: the message says who refuses.
for call in "claims.reconcile(1, 'service')" "claims.explain_lease(1, 'service', gen_random_uuid())"; do
  at cell1 "ALTER FUNCTION ${call%%(*} PARALLEL SAFE"
  expect "a parallel worker never connects: ${call%%(*}" "$( ( use_cluster cell1; psql -XqAt \
    -c "SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')" -c "SELECT * FROM $call" 2>&1 | sed -n 2p))" \
    'ERROR:  cannot call the claims service during a parallel operation'
  at cell1 "ALTER FUNCTION ${call%%(*} PARALLEL UNSAFE"
done
all_agree 'catalog'

say 'passwords'
at cell2 "ALTER USER MAPPING FOR claims_owner SERVER service OPTIONS (SET password 'open-sesame-$CELLS_PASSWORD')"
denied=$( ( use_cluster cell2; psql -XqAt -v VERBOSITY=verbose -U app -c "INSERT INTO routes (name) VALUES ('denied')" 2>&1 ) || true)
expect 'a wrong one' "$(grep -o '08001: .*' <<<"$denied")" '08001: claims service "service" cannot be reached'
at cell2 "ALTER USER MAPPING FOR claims_owner SERVER service OPTIONS (DROP password)"
expect 'none, where the owner is no superuser' "$(state_as_app 2 "SELECT * FROM claims.reconcile(2, 'service')")" 2F003
at cell2 "ALTER USER MAPPING FOR claims_owner SERVER service OPTIONS (ADD password '$CELLS_PASSWORD'); ALTER SERVER service OPTIONS (SET host '${CLUSTER_DIR[shared]}')"
expect 'one that is not asked for' "$(state_as_app 2 "SELECT * FROM claims.reconcile(2, 'service')")" 2F003
at cell2 "ALTER USER MAPPING FOR claims_owner SERVER service OPTIONS (ADD password_required 'false')"
expect 'which a superuser allows' "$(state_as_app 2 "SELECT * FROM claims.reconcile(2, 'service')")" 00000
at cell2 "ALTER SERVER service OPTIONS (SET host '127.0.0.1')"
expect 'never in what sessions show' "$(at cell1 'SELECT * FROM pg_stat_activity' | grep -c "$CELLS_PASSWORD")$(at shared 'SELECT * FROM pg_stat_activity' | grep -c "$CELLS_PASSWORD")" 00
# The commands above are in the logs as they were given.
expect 'nor in errors and logs' "$( { echo "$denied"; cluster_log shared; cluster_log cell1; cluster_log cell2; } | grep -vE 'USER MAPPING|CREATE ROLE|SERVER service OPTIONS' | grep -c "$CELLS_PASSWORD")" 0
all_agree 'passwords'
