#!/usr/bin/env bash
# Cursors of the change feed when the database changes: on a standby, after a crash, after a failover that lost changes
# and one that lost none, after dump and restore. No change is left out without an error.
. "$(dirname "$0")/../common.bash"

start_cluster primary --fast -c synchronous_commit=on -c wal_level=replica -c max_wal_senders=4 -c hot_standby=on
fresh_database script_changes_history
sql "SELECT claims.grant_read('script_claims_router'); ALTER DATABASE script_changes_history SET claims.change_feed = on" >/dev/null
expect 'the setting reaches every session' "$(PGUSER=script_claims_one sql 'SELECT claims.version() IS NOT NULL; SHOW claims.change_feed' | tail -1)" on

# told CURSOR: prints the changes after it, as a router; place: prints the last one's cursor. '' is the beginning.
cursor() { [ -n "$1" ] && printf "'%s'" "$1" || printf NULL; }
told() { PGUSER=script_claims_router sql "SELECT string_agg(op || ' ' || bucket_value, ', ' ORDER BY xid, id) FROM claims.list_changes($(cursor "$1"))"; }
place() { PGUSER=script_claims_router sql "SELECT cursor FROM claims.list_changes($(cursor "$1")) ORDER BY xid DESC, id DESC LIMIT 1"; }
refused() { PGUSER=script_claims_router sqlstate "SELECT count(*) FROM claims.list_changes('$1')"; }

have 1 a b
have 2 c
first=$(PGUSER=script_claims_router sql 'SELECT cursor FROM claims.list_changes(max_results => 1)')
expect 'a router reads' "$(told '')" 'create a, create b, create c'
expect 'and goes on' "$(told "$first")" 'create b, create c'

# --- a crash ---
restart_cluster primary immediate
expect 'after a crash' "$(told "$first")" 'create b, create c'
have 1 d
expect 'and what comes then' "$(told "$first")" 'create b, create c, create d'

# --- a standby ---
make_standby
caught_up
expect 'the standby tells the same' "$(on_standby told "$first")" 'create b, create c, create d'
expect 'and where one begins' "$(on_standby sql 'SELECT claims.change_cursor()')" "$(sql 'SELECT claims.change_cursor()')"
expect 'a history on a standby' "$(on_standby sql "SELECT count(*) FROM claims.bucket_history('ROUTES', 'a')")" 1
# a transaction that is open on the primary delays later changes there, too
mkfifo "$CLAIMS_TMP/open"
psql -XqAt <"$CLAIMS_TMP/open" >/dev/null &
exec 7>"$CLAIMS_TMP/open"
echo "BEGIN; SELECT pg_current_xact_id(); CREATE TABLE public.open ();" >&7
wait_for 1 sql "SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND state = 'idle in transaction'" >/dev/null
have 2 e
caught_up
expect 'kept back on the primary' "$(told "$first")" 'create b, create c, create d'
expect 'kept back on the standby' "$(on_standby told "$first")" 'create b, create c, create d'
echo 'COMMIT;' >&7
exec 7>&-
wait $!
caught_up
expect 'then told on the primary' "$(told "$first")" 'create b, create c, create d, create e'
expect 'then told on the standby' "$(on_standby told "$first")" 'create b, create c, create d, create e'
last=$(place '')

# --- a standby that lags: a place that it has not come to is no error ---
on_standby sql "ALTER SYSTEM SET primary_conninfo = ''; SELECT pg_reload_conf()" >/dev/null 2>&1 || on_standby psql -XqAt -c "ALTER SYSTEM SET primary_conninfo = ''" -c 'SELECT pg_reload_conf()' >/dev/null
expect 'the standby is cut off' "$(wait_for 0 on_standby sql 'SELECT count(*) FROM pg_stat_wal_receiver')" 0
have 1 lost
expect 'told on the primary' "$(told "$last")" 'create lost'
lost=$(place "$last")
expect 'ahead of the standby' "$(on_standby told "$lost")" ''

# --- the primary is lost, and with it that change ---
control primary stop -m immediate
control standby promote
export PGHOST=${CLUSTER_DIR[standby]} PGPORT=${CLUSTER_PORT[standby]}
expect 'a place that was lost' "$(refused "$lost")" 55000
expect 'a place that was not' "$(told "$last")" ''
have 2 f g
expect 'it goes on' "$(told "$last")" 'create f, create g'
# now the same transaction ids, and more, are others
sql 'DO $$ BEGIN FOR n IN 1..50 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$'
have 1 h
expect 'it is still lost' "$(refused "$lost")" 55000
expect 'nothing is missing' "$(told "$first")" 'create b, create c, create d, create e, create f, create g, create h'
expect 'check' "$(sql 'SELECT count(*) FROM claims.check()')" 0

# --- dump and restore: another feed ---
sql postgres 'CREATE DATABASE script_changes_restored TEMPLATE template0'
pg_dump -Fc -d script_changes_history | pg_restore -d script_changes_restored --exit-on-error
last=$(place '')
PGDATABASE=script_changes_restored
expect 'no change was dumped' "$(told '')" ''
expect 'a place in the other database' "$(refused "$last")" 55000
expect 'the beginning of the other database' "$(refused "$first")" 55000
sql 'ALTER DATABASE script_changes_restored SET claims.change_feed = on'
begin=$(sql 'SELECT claims.change_cursor()')
have 1 i
expect 'a feed of its own' "$(told "$begin")" 'create i'
expect 'check of the restored one' "$(sql 'SELECT count(*) FROM claims.check()')" 0
