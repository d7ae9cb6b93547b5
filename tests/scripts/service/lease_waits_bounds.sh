#!/usr/bin/env bash
# The bounds of waiting for names: the most calls that may wait, names with one gate, other databases, a standby, the death of the server, and a call
# that loses a race.
. "$(dirname "$0")/../waiters.bash"
start_cluster bounds --fast -c shared_preload_libraries=claims
fresh_database script_bounds
at_most() {
  sql "ALTER SYSTEM SET claims.max_lease_waiters = $1" && sql 'SELECT pg_reload_conf()' >/dev/null
  expect "at most $1 calls may wait" "$(wait_for "$1" sql 'SHOW claims.max_lease_waiters')" "$1"
}

# open_other SQL: executes it in another session, which stays open; tell_other SQL; close_other.
open_other() {
  coproc psql -XqAt
  other=$COPROC_PID
  tell_other "$1; SELECT 'open'"
  while read -r -u "${COPROC[0]}" line && [ "$line" != open ]; do :; done
}
tell_other() { echo "$1;" >&"${COPROC[1]}"; }
close_other() { exec {COPROC[1]}>&-; wait "$other"; }

# --- more calls than may wait ----------------------------------------------------------------------------------------
l=$(begin 1 ada)
at_most 2
queue a 2 0 60s ada
queue b 1 0 60s ada
waits c 2 0 60s ada
expect 'one more answers as without lease_wait' "$(answer c)" 55P03
expect 'it has not waited' "$(grep -c waited_seconds "$CLAIMS_TMP/c")" 0
sql "SELECT pg_cancel_backend(pid) FROM claims.lease_waiters WHERE position = 2" >/dev/null
expect 'when one of them ends' "$(answer b)" 57014
waits e 2 0 60s ada
expect 'half of them are of one cell at most' "$(answer e)" 55P03
queue c 1 0 60s ada
expect 'another one may wait' "$(waiting)" 2
at_most 0
waits d 2 0 60s ada
expect 'nobody else' "$(answer d)" 55P03
roll_back 1 "$l"
expect 'those who wait already get their turn' "$(answer a)" got
roll_back 2 "$(lease_of a)"
expect 'and the next one' "$(answer c)" got
clean
sql 'ALTER SYSTEM RESET claims.max_lease_waiters' && sql 'SELECT pg_reload_conf()' >/dev/null
expect 'the default' "$(wait_for 1024 sql 'SHOW claims.max_lease_waiters')" 1024

# --- names with one gate ---------------------------------------------------------------------------------------------
# A waiter closes 32 of 4096 gates. Of 2000 other names, 16 have one of these gates; the probability of none is one in ten million.
held=$(for i in $(seq 32); do echo "held$i"; done)
l=$(begin 1 $held)
queue a 2 0 60s $held
expect 'it waits for 32 names' "$(sql 'SELECT names FROM claims.lease_waiters')" 32
others() { sql "SELECT claims.rollback_update(1, claims.begin_update(1, (SELECT jsonb_agg(replace('$(claim N)', '\"N\"', '\"other' || n || '\"')::jsonb) FROM generate_series(1, 2000) n)))"; }
expect 'names that share a gate with these are not refused' "$(others)" t
roll_back 1 "$l"
expect 'and the waiter gets all of its own' "$(answer a)" got
clean

# --- two databases ---------------------------------------------------------------------------------------------------
sql "CREATE DATABASE script_bounds_2 TEMPLATE template0 ENCODING 'UTF8'"
elsewhere() { PGDATABASE=script_bounds_2 "$@"; }
elsewhere sql "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'script_claims_one'), claims.register_cell(2, 'script_claims_two')" >/dev/null
l=$(begin 1 bea)
m=$(elsewhere begin 1 bea)
queue a 2 0 60s bea
expect 'a waiter of another database is not shown' "$(elsewhere waiting)" 0
expect 'nor waited for' "$(elsewhere roll_back 1 "$m"; elsewhere sql "SELECT claims.rollback_update(1, claims.begin_update(1, '$(names bea)'))")" t
m=$(elsewhere begin 1 bea)
elsewhere queue b 1 0 60s bea
expect 'it is alone in its database' "$(elsewhere sql "SELECT string_agg(position::text, ' ') FROM claims.lease_waiters")" 1
elsewhere roll_back 1 "$m"
expect 'the end of a lease in one database' "$(answer b)" got
expect 'leaves the waiters of the other one' "$(waiting)" 1
# DROP DATABASE
elsewhere queue b 2 0 60s bea
expect 'a database with a waiter is in use' "$(sqlstate 'DROP DATABASE script_bounds_2')" 55006
at_most 2
waits c 2 0 60s cyd
expect '(a name that is free needs no room)' "$(answer c)" got
waits d 1 0 60s cyd
expect 'the two waiters take all the room' "$(answer d)" 55P03
sql 'DROP DATABASE script_bounds_2 WITH (FORCE)'
expect 'DROP DATABASE WITH (FORCE) ends its waiters' "$(ended b; grep -o 57P01 "$CLAIMS_TMP/b")" 57P01
queue d 1 0 60s cyd
expect 'and leaves nothing of them' "$(waiting)" 2
roll_back 1 "$l"
expect 'those of other databases go on' "$(answer a)" got
roll_back 2 "$(lease_of c)"
expect 'in their order' "$(answer d)" got
clean

# --- a profile that is being changed, a table that is locked ----------------------------------------------------------
for change in "SELECT claims.set_profile('ROUTES', 'username', 'test', dry_run => false)" 'LOCK claims.claims' 'LOCK claims.claim_leases IN SHARE MODE'; do
  l=$(begin 1 fay)
  queue a 2 0 60s fay
  open_other "BEGIN; $change; SELECT pg_sleep(0.5)"
  waits b 2 0 1s fay
  waits c 1 0 60s "gus$l"
  expect "$change: a call answers when its time has passed" "$(answer b)" 55P03
  expect 'those with more time wait on' "$(ls "$CLAIMS_TMP" | grep -cE '^[ac]\.ended$')" 0
  expect 'and keep their positions' "$(sql 'SELECT cell_id, position, names FROM claims.lease_waiters WHERE names > 0')" '2|1|1'
  close_other
  expect 'a free name is leased when the other transaction has ended' "$(answer c)" got
  roll_back 1 "$l"
  expect 'one that was held, when its lease has ended' "$(answer a)" got
  clean
done

# --- a standby -------------------------------------------------------------------------------------------------------
l=$(begin 1 dan)
make_standby
caught_up
expect 'on a standby nothing is waited for' "$(PGOPTIONS='-c claims.lease_wait=60s' on_standby sqlstate "SELECT claims.begin_update(2, '$(names dan)')")" 25006
queue a 2 0 60s dan
expect 'and nobody is shown' "$(on_standby waiting)" 0
control standby promote
on_standby queue b 1 0 60s dan
expect 'after a promotion it has waiters of its own' "$(on_standby sql 'SELECT cell_id FROM claims.lease_waiters') $(sql 'SELECT cell_id FROM claims.lease_waiters')" '1 2'
on_standby roll_back 1 "$l"
expect 'which get their names' "$(answer b)" got
stop_cluster standby

# --- the death of the server -----------------------------------------------------------------------------------------
waiter=$(sql 'SELECT pid FROM claims.lease_waiters')
kill -KILL "$(head -1 "$PGHOST/data/postmaster.pid")"
is_gone() { ! kill -0 "$1" 2>/dev/null; }
expect 'a waiter ends with its server' "$(wait_until is_gone "$waiter" && answer a)" ''
is_up() { restart_cluster bounds || return 1; sql 'SELECT 1'; }
wait_until is_up
expect 'a new server has no waiters' "$(waiting)" 0
queue a 2 0 60s dan
roll_back 1 "$l"
expect 'and takes new ones' "$(answer a)" got
clean

# --- a call that loses a race ----------------------------------------------------------------------------------------
awaited_table="FROM pg_locks WHERE locktype = 'relation' AND mode = 'ShareLock' AND NOT granted"
# A trigger makes both calls find the name free, and then try to take it.
sql "CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
       WHILE NOT pg_try_advisory_lock_shared(42) LOOP PERFORM pg_sleep(0.01); END LOOP;
       PERFORM pg_advisory_unlock_shared(42);
       IF EXISTS (SELECT $awaited_table) THEN RAISE unique_violation; END IF;
       RETURN NEW; END \$\$;
     CREATE TRIGGER stop_here BEFORE INSERT ON claims.claims FOR EACH ROW EXECUTE FUNCTION stop_here()"
open_other "SELECT pg_advisory_lock(42)"
waits a 1 0 60s eve
waits b 2 0 60s eve
stopped() { sql "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'waiter%' AND wait_event = 'PgSleep'"; }
expect 'both try to take the name' "$(wait_for 2 stopped)" 2
tell_other "SELECT pg_advisory_unlock(42)"
wait_until is_there 1
loser=$(sql "SELECT right(application_name, 1) FROM pg_stat_activity JOIN claims.lease_waiters USING (pid)")
winner=$(tr ab ba <<<"$loser")
expect 'one of them gets it' "$(answer "$winner")" got
# It has given back everything but the transaction id.
holds() { sql "SELECT (backend_xid IS NULL, backend_xmin IS NULL, (SELECT count(*) FROM pg_locks l WHERE l.pid = a.pid AND locktype NOT IN ('virtualxid', 'transactionid')))
                 FROM pg_stat_activity a WHERE application_name = 'waiter $loser'"; }
expect 'the other one waits, with an id, and without a lock or a snapshot' "$(wait_for '(f,t,0)' holds)" '(f,t,0)'
expect 'it is in nobody'"'"'s way' "$(sql "SET lock_timeout = '20s'; SELECT claims.set_profile('ROUTES', 'username', 'test', dry_run => false)" >/dev/null; sql "SELECT profile FROM claims.bucket_types WHERE name = 'ROUTES'")" username
roll_back "$(sql 'SELECT creator_id FROM claims.claim_leases')" "$(lease_of "$winner")"
expect 'and gets the name in its turn' "$(answer "$loser")" got
close_other
clean

# --- a table that is locked between a look and the attempt -------------------------------------------------------------
open_other "SELECT pg_advisory_lock(42)"
waits a 1 0 60s hal
expect 'a call tries to take a name' "$(wait_for 1 stopped)" 1
# The trigger undoes the attempt when this one waits for the table, which it then locks.
sql "BEGIN; LOCK claims.claims IN SHARE MODE; SELECT pg_sleep(0.5); ROLLBACK" >/dev/null &
expect 'another one waits for the table' "$(wait_for 1 sql "SELECT count(*) $awaited_table")" 1
tell_other "SELECT pg_advisory_unlock(42)"
expect 'the call waits for its end' "$(answer a)" got
close_other
