#!/usr/bin/env bash
# Which transaction holds back the change feed: metrics() says who, and of which cell, whatever it has written and in whatever database.
. "$(dirname "$0")/../common.bash"
. "$(dirname "$0")/../cells.bash"

start_cluster held --fast -c claims.change_feed=on
trap 'for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup' EXIT
fresh_database script_changes_held
database=$PGDATABASE
sql 'CREATE DATABASE script_changes_other'
read_on() { sql $database "SELECT string_agg(bucket_value, ' ' ORDER BY xid, id) FROM claims.list_changes()"; }
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
expect 'a transaction that only reads holds nothing' "$(tell idle 'ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class WHERE false') $(held)" '0 '
expect 'the change is there' "$(read_on)" 'first second'
close idle

# A prepared transaction of nobody's cell.
sql "CREATE TABLE public.scratch (id int)"
sql "BEGIN; INSERT INTO public.scratch VALUES (1); PREPARE TRANSACTION 'gid'"
have 2 third
expect 'a prepared transaction holds it' "$(held)" 'prepared transaction postgres gid t'
expect 'later changes wait for that' "$(read_on)" 'first second'
sql "ROLLBACK PREPARED 'gid'"
expect 'then they are there' "$(held) $(read_on)" ' first second third'
