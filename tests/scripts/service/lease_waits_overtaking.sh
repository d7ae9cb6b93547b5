#!/usr/bin/env bash
# Calls that find a name free while it is kept for others, and must not take it: a call whose time is over, one that has another batch to try, one
# that does not wait, and a save with automatic_here, which never waits.
. "$(dirname "$0")/../waiters.bash"
start_cluster overtaking --fast -c shared_preload_libraries=claims
fresh_database script_overtaking

first() { sql "SELECT coalesce(chosen::text, conflicts->0->>'reason') FROM claims.begin_first($1, '[$2]')"; }
batch() { printf '{"create_records": %s}' "$(names "$1")"; }
pids() { sql 'SELECT pid FROM claims.lease_waiters ORDER BY position'; }

# A name is kept for a waiter that does not come for 100 ms from when somebody asks, and then for the next one. The calls below ask fewer times than
# there are waiters, so however slow the machine is, it is never their turn.
WAITERS=20
sql "CREATE TABLE routes (id int PRIMARY KEY, name text UNIQUE, grp int);
     SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic_here(1)" >/dev/null
l=$(begin 1 ada)
for n in $(seq $WAITERS); do waits "w$n" 2 0 60s ada; done
wait_until is_there $WAITERS
stopped=$(pids)
for pid in $stopped; do stop_asleep "$pid"; done
expect 'all waiters are stopped' "$(wc -w <<<"$stopped")" $WAITERS
{
  echo '\set VERBOSITY sqlstate'
  echo "SELECT claims.rollback_update(1, '$l');"
  conflict="FROM claims.try_begin_update(1, '$(names ada)'), jsonb_array_elements(conflicts) c"
  echo "SELECT c->>'reason', c->>'retryable', (c->>'waiting')::int > 0, c->>'waited_seconds' $conflict;"
  echo "SELECT claims.begin_update(1, '$(names ada)');"
  echo "SET claims.lease_wait = '1ms';"
  echo "SELECT c->>'reason', (c->>'waited_seconds')::numeric > 0 $conflict;"
  echo "SET claims.lease_wait = '60s';"
  echo "SELECT chosen FROM claims.begin_first(1, '[$(batch ada), $(batch bea)]');"
  echo "INSERT INTO routes VALUES (1, 'ada', 1);"
} >"$CLAIMS_TMP/calls"
answers=$(psql -XqAt -f - <"$CLAIMS_TMP/calls" 2>&1 | sed 's/^psql:[^ ]* //' | tr '\n' ' ')
for pid in $stopped; do kill -CONT "$pid"; done
expect 'calls without lease_wait, one whose time is over, one with another batch, and a save with automatic_here leave the name to the first waiter' \
  "$answers" 't queued|true|t| ERROR:  55P03 queued|t 2 ERROR:  55P03 '
# (Those that have lost their turns meanwhile have no order with the others, until they have looked.)
expect 'one of them gets it' "$(wait_for 2 sql "SELECT creator_id FROM claims.claims WHERE bucket_value = 'ada'")" 2
sql 'SELECT pg_cancel_backend(pid) FROM claims.lease_waiters' >/dev/null
for n in $(seq $WAITERS); do ended "w$n"; done
expect 'nobody is left' "$(waiting)" 0
clean

# --- begin_first that waits, behind others ---------------------------------------------------------------------------
# One batch is taken for good, and one is leased.
commit 1 "$(begin 1 cyd)"
l=$(begin 1 dan)
queue a 2 0 60s dan
expect 'the end of the time is a temporary conflict' "$(PGOPTIONS='-c claims.lease_wait=100ms' first 1 "$(batch dan), $(batch cyd)")" leased
expect 'without lease_wait the conflicts are those of the last batch' "$(first 1 "$(batch dan), $(batch cyd)")" taken
rm -f "$CLAIMS_TMP/first.ended"
(PGOPTIONS='-c claims.lease_wait=60s' first 1 "$(batch dan), $(batch cyd)" >"$CLAIMS_TMP/first"; touch "$CLAIMS_TMP/first.ended") &
wait_until is_there 2
roll_back 1 "$l"
expect 'who waits longer gets the name' "$(answer a)" got
expect 'and the call with two batches waits on' "$(waiting)" 1
roll_back 2 "$(lease_of a)"
expect 'until it is its turn' "$(ended first; cat "$CLAIMS_TMP/first")" 1
