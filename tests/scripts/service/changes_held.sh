#!/usr/bin/env bash
# Which transaction holds back the change feed: metrics() and check() say who, and of which cell, whatever it has written and in whatever database. With
# claims.change_feed_idle_timeout the worker ends sessions that do so while they are idle.
. "$(dirname "$0")/../cells.bash"

start_cluster held --fast -c claims.change_feed=on -c shared_preload_libraries=claims -c claims.databases=script_changes_held
trap 'for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup' EXIT
fresh_database script_changes_held
database=$PGDATABASE
sql 'CREATE DATABASE script_changes_other'
read_on() { sql $database "SELECT string_agg(bucket_value, ' ' ORDER BY xid, id) FROM claims.list_changes()"; }
checked() { sql $database "SET claims.stale_after = '${1:-0}'; SELECT detail FROM claims.check() WHERE problem = 'change feed is held'" | sed -E 's/session [0-9]+/session N/; s/ since .*\. R/ since T. R/'; }
held() { sql $database "SELECT concat_ws(' ', labels ->> 'holder', labels ->> 'usename', labels ->> 'name', labels ->> 'cell', value BETWEEN 0 AND 3600) FROM claims.metrics() WHERE name = 'claims_change_feed_held_seconds'"; }

# Autovacuum has transactions, too: it is off.
sql "ALTER SYSTEM SET autovacuum = off"; sql 'SELECT pg_reload_conf()' >/dev/null
expect 'without changes there is nothing to hold' "$(held)" ''
have 1 first
expect 'nobody holds the feed' "$(wait_for '' held)" ''
expect 'a change can be read at once' "$(wait_for first read_on)" first

# A role of cell 1 writes something else, in another database, and stays.
open idle held script_claims_one
tell idle "\\c script_changes_other" >/dev/null
tell idle "SET application_name = 'forgotten'; BEGIN; CREATE TEMP TABLE scratch (id int)" >/dev/null
have 2 second
expect 'who holds it' "$(wait_for 'session script_claims_one forgotten 1 t' held)" 'session script_claims_one forgotten 1 t'
expect 'later changes wait' "$(read_on)" first
expect 'check() says it after claims.stale_after' "$(checked '1 h')$(checked)" \
  'The transaction of session N of role script_claims_one, of cell 1 is open since T. Readers of the change feed get no later change until it ends.'
expect 'it is no violation' "$(sql $database "SELECT value FROM claims.metrics() WHERE name = 'claims_check_problems'")" 0
expect 'a transaction that only reads holds nothing' "$(tell idle 'ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class WHERE false') $(held)" '0 '
expect 'the change is there' "$(read_on)" 'first second'
close idle

# A prepared transaction of nobody's cell.
sql "CREATE TABLE public.scratch (id int)"
sql "BEGIN; INSERT INTO public.scratch VALUES (1); PREPARE TRANSACTION 'gid'"
have 2 third
expect 'a prepared transaction holds it' "$(held)" 'prepared transaction postgres gid t'
expect 'later changes wait for that' "$(read_on)" 'first second'
expect 'check() says that, too' "$(checked)" "Prepared transaction 'gid' of role postgres is open since T. Readers of the change feed get no later change until it ends."
sql "ROLLBACK PREPARED 'gid'"
expect 'then they are there' "$(held) $(read_on)" ' first second third'

# A role that does not want to be ended: it is, but not while it works, and not before it has been idle for long enough.
open busy held script_claims_one
tell busy "\\c script_changes_other" >/dev/null
tell busy 'SET idle_in_transaction_session_timeout = 0; BEGIN; CREATE TEMP TABLE scratch (id int)' >/dev/null
open holder held postgres
tell holder "\\c script_changes_other" >/dev/null
tell holder 'SELECT pg_advisory_lock(1)' >/dev/null
send busy 'SELECT pg_advisory_lock(1)'
open reads held script_claims_one
tell reads 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class WHERE false' >/dev/null
open idle held script_claims_one
tell idle "\\c script_changes_other" >/dev/null
tell idle 'SET idle_in_transaction_session_timeout = 0; BEGIN; CREATE TEMP TABLE scratch (id int)' >/dev/null
have 1 fourth
sessions() { sql "SELECT count(*) FROM pg_stat_activity WHERE usename = 'script_claims_one'"; }
sql "ALTER SYSTEM SET claims.change_feed_idle_timeout = '1 h'"; sql 'SELECT pg_reload_conf()' >/dev/null
sleep 2
expect 'nobody is ended before the time' "$(sessions)" 3
sql "ALTER SYSTEM SET claims.change_feed_idle_timeout = '1 s'"; sql 'SELECT pg_reload_conf()' >/dev/null
expect 'who is idle is ended' "$(wait_for 2 sessions)" 2
expect 'the log says why' "$(cluster_log held | grep -c 'WARNING:  claims worker has ended session [0-9]* of role "script_claims_one"')" 1
sleep 2
expect 'who works or only reads is not' "$(sessions) $(tell reads 'SELECT 1') $(read_on)" '2 1 first second third'
tell holder 'SELECT pg_advisory_unlock(1)' >/dev/null
expect 'when it has worked, it is' "$(wait_for 1 sessions)" 1
expect 'readers go on' "$(wait_for 'first second third fourth' read_on)" 'first second third fourth'
