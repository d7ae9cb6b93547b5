#!/usr/bin/env bash
# test: timed
# The COMMIT that ends a lease wakes its first waiter at once, by every way, and when it is visible; what wakes nobody costs 50 ms, also without
# preloading, and a dead waiter 100 ms; eight waiters on one name are served in turn.
. "$(dirname "$0")/../waiters.bash"
work=$CLAIMS_TMP
# new_cluster NAME [OPTION...]
new_cluster() {
  start_cluster "$@"
  fresh_database script_wakeup
  sql "CREATE FUNCTION one(n text, subject int DEFAULT 1) RETURNS jsonb LANGUAGE sql
         AS \$\$ SELECT jsonb_set(replace('[$(claim N)]', '\"N\"', to_json(n)::text)::jsonb, '{0,subject,id}', to_jsonb(subject)) \$\$;
       CREATE TABLE saves (id int PRIMARY KEY, name text UNIQUE);
       SELECT claims.claim_attribute('saves', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic_here(1)" >/dev/null
}

# ends WAY: how the holder ends lease number i.
ends() {
  case $1 in
    rollback_update) echo "SELECT claims.rollback_update(1, md5('a$2')::uuid);" ;;
    commit_update | 'slow COMMIT' | 'kept back') echo "SELECT claims.commit_update(1, md5('a$2')::uuid);" ;;
    settle_leases) echo "SELECT claims.settle_leases(1, rollback_leases => ARRAY[md5('a$2')::uuid]);" ;;
    force_rollback) echo "SELECT claims.force_rollback(1, md5('a$2')::uuid, 'test');" ;;
    'COMMIT PREPARED') echo "COMMIT PREPARED 'p';" ;;
    cancel_transfer) echo "SELECT claims.cancel_transfer(md5('a$2')::uuid, 'test');" ;;
    finish_transfer) echo "SELECT claims.finish_transfer(md5('a$2')::uuid);" ;;
    automatic_here) echo COMMIT\; ;;
    # All names are taken in one transaction, the first one last.
    ROLLBACK) echo "ROLLBACK TO SAVEPOINT s$2;" ;;
  esac
}
# holds WAY: takes the name of each round.
holds() {
  local i transfer
  for i in $(seq $ROUNDS); do
    transfer="claims.prepare_transfer(md5('a$i')::uuid, 1, 2, '[{\"type\": \"GROUP\", \"ids\": [$i]}]', 'test')"
    case $1 in
      *_transfer)
        sql "SELECT claims.commit_update(1, claims.begin_update(1, one('w$i', $i)))" >/dev/null
        sql "SELECT * FROM $transfer" >/dev/null
        [ "$1" = cancel_transfer ] || sql "SELECT claims.switch_transfer(md5('a$i')::uuid, 'test')" >/dev/null ;;
      ROLLBACK | automatic_here) ;;
      'kept back')
        sql "SELECT claims.commit_update(1, claims.begin_update(1, one('w$i')))" >/dev/null
        sql "SELECT claims.begin_update(1, '[]', '[$(bucket "w$i")]', md5('a$i')::uuid)" >/dev/null ;;
      *) sql "SELECT claims.begin_update(1, one('w$i'), lease_uuid => md5('a$i')::uuid)" >/dev/null ;;
    esac
  done
}
# A waiter looks every 50 ms in any case: without a wake-up the median would be near 25 ms, as it is after a ROLLBACK and without preloading.
ROUNDS=40 HELD=0.003
# measure WAY LIMIT: the median time from the answer to the holder until the waiter has its own.
measure() {
  local way=$1 limit=$2 i median
  sql "SET client_min_messages = warning; DROP TABLE IF EXISTS got, ended; CREATE TABLE got (round int, at timestamptz); CREATE TABLE ended (round int, at timestamptz)"
  sql "SELECT claims.rollback_update(creator_id, uuid) FROM claims.claim_leases" >/dev/null
  sql "DELETE FROM claims.lease_outcomes; DELETE FROM claims.claims; DELETE FROM claims.transfer_subjects; DELETE FROM claims.cell_transfers"
  holds "$way"
  {
    # It begins when the holder has all names.
    [ "$way" != ROLLBACK ] || echo "DO \$\$ BEGIN WHILE pg_try_advisory_lock(8) LOOP PERFORM pg_advisory_unlock(8); PERFORM pg_sleep(0.01); END LOOP; END \$\$;"
    for i in $(seq $ROUNDS); do
      # Or that of the round.
      [ "$way" != automatic_here ] ||
        echo "DO \$\$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = $i) LOOP PERFORM pg_sleep(0.001); END LOOP; END \$\$;"
      echo "SELECT lease_uuid FROM claims.try_begin_update(2, one('w$i'));"
      echo "INSERT INTO got VALUES ($i, clock_timestamp());"
    done
  } >"$work/waiter.sql"
  {
    # Its COMMIT takes 20 ms until it is visible: who is woken before looks in vain, and once more after 50 ms.
    [ "$way" != 'slow COMMIT' ] || echo "SET commit_delay = 20000; SET commit_siblings = 0;"
    if [ "$way" = ROLLBACK ]; then
      echo BEGIN\;
      for i in $(seq $ROUNDS -1 1); do echo "SAVEPOINT s$i; SELECT claims.begin_update(1, one('w$i'));"; done
      echo "SELECT pg_advisory_lock(8);"
    fi
    for i in $(seq $ROUNDS); do
      [ "$way" != automatic_here ] ||
        echo "BEGIN; INSERT INTO saves VALUES ($i, 'w$i'); SET CONSTRAINTS ALL IMMEDIATE; SELECT pg_advisory_lock($i);"
      echo "DO \$\$ BEGIN WHILE NOT EXISTS ($WAITS) OR (SELECT count(*) FROM got) < $i - 1 LOOP
              PERFORM pg_sleep(0.001); PERFORM pg_stat_clear_snapshot(); END LOOP; PERFORM pg_sleep($HELD + 0.05 * random()); END \$\$;"
      [ "$way" != 'COMMIT PREPARED' ] || echo "BEGIN; SELECT claims.rollback_update(1, md5('a$i')::uuid); PREPARE TRANSACTION 'p';"
      ends "$way" "$i"
      printf '%s\n' '\o' "SELECT $i || E'\\t' || clock_timestamp();" '\o /dev/null'
    done
  } >"$work/holder.sql"
  PGAPPNAME=waiter PGOPTIONS='-c claims.lease_wait=60s' psql -Xq -f "$work/waiter.sql" >"$work/log" 2>&1 &
  psql -XqAt -v ON_ERROR_STOP=1 -c '\o /dev/null' -f "$work/holder.sql" >"$work/ended"
  wait
  psql -Xq -v ON_ERROR_STOP=1 -c "\copy ended FROM '$work/ended'"
  median=$(sql "SELECT round(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM got.at - ended.at) * 1000)::numeric, 2) FROM got JOIN ended USING (round)")
  echo "$way: median $median ms"
  expect "$way: a waiter has its answer within $limit ms" "$(sql "SELECT $median < $limit, (SELECT count(*) FROM got), (SELECT count(*) FROM ended)")" "t|$ROUNDS|$ROUNDS"
}

new_cluster slow --fast -c shared_preload_libraries=claims -c fsync=on
WAITS='SELECT FROM claims.lease_waiters'
measure 'slow COMMIT' 12

new_cluster alone --fast
WAITS="SELECT FROM pg_stat_activity WHERE application_name = 'waiter' AND query LIKE '%try_begin_update%' AND wait_event = 'Extension'"
# Its pauses grow for the first 50 ms.
ROUNDS=20 HELD=0.3
measure rollback_update 60
ROUNDS=40 HELD=0.003
# Without preloading nobody is in a queue, and a waiter holds as little.
l=$(begin 1 ada)
waits a 2 0 60s ada
holds_nothing() { sql "SELECT (wait_event, backend_xid IS NULL, backend_xmin IS NULL, (SELECT count(*) FROM pg_locks l WHERE l.pid = a.pid AND locktype <> 'virtualxid')) FROM pg_stat_activity a WHERE application_name = 'waiter a'"; }
expect 'without preloading a waiter holds no id, no snapshot and no lock' "$(wait_for '(Extension,t,t,0)' holds_nothing)" '(Extension,t,t,0)'
expect 'and is in no queue' "$(waiting)" 0
roll_back 1 "$l"
expect 'it gets the name' "$(answer a)" got

new_cluster wakeup --fast -c shared_preload_libraries=claims -c max_prepared_transactions=5
WAITS='SELECT FROM claims.lease_waiters'
for way in rollback_update commit_update settle_leases force_rollback 'COMMIT PREPARED' cancel_transfer finish_transfer automatic_here; do
  measure "$way" 12
done
# A name that is given up and kept back is free for none of them: who waits for it is answered as soon.
sql "SELECT claims.set_quarantine('ROUTES', '1 hour', 'a test')" >/dev/null
measure 'kept back' 12
sql "SELECT claims.set_quarantine('ROUTES', '0', 'a test')" >/dev/null
measure ROLLBACK 60

# The first waiter is as good as dead: the name is kept for it for 100 ms, and then the second one gets it.
sql "SELECT claims.rollback_update(creator_id, uuid) FROM claims.claim_leases" >/dev/null
took=()
for round in 1 2 3 4 5; do
  l=$(begin 1 zoe)
  queue a 2 0 60s zoe
  stopped=$(sql 'SELECT pid FROM claims.lease_waiters')
  queue b 1 0 60s zoe
  stop_asleep "$stopped"
  freed=$(psql -XqAt -c "SELECT claims.rollback_update(1, '$l')" -c "SELECT clock_timestamp()" | tail -1)
  expect 'who follows a waiter that does not come gets the name' "$(answer b)" got
  took+=("$(sql "SELECT round(extract(epoch FROM created_at - '$freed') * 1000) FROM claims.claim_leases")")
  kill -CONT "$stopped"
  roll_back 1 "$(lease_of b)"
  expect '(and then it)' "$(answer a)" got
  roll_back 2 "$(lease_of a)"
done
echo "after a dead waiter: ${took[*]} ms"
middle=$(printf '%s\n' "${took[@]}" | sort -n | sed -n 3p)
expect 'within 100 ms and some for the way' "$((middle < 180))" 1

# Eight sessions begin and roll back one name over and over. A session that has it gives it back when all others wait that have rounds left. So who
# was served longest ago is the next one: of those who waited when the name came free, nobody is served twice before another one was. Only who does not
# come for the name within 100 ms may lose a turn.
sql "SELECT claims.rollback_update(creator_id, uuid) FROM claims.claim_leases" >/dev/null
sql "CREATE TABLE served (n bigserial, who int, got timestamptz, freed timestamptz)"
for who in 1 2 3 4 5 6 7 8; do
  for i in $(seq $ROUNDS); do
    echo "SELECT claims.begin_update(1, one('hot'), lease_uuid => md5('$who $i')::uuid);"
    echo "INSERT INTO served (who, got) VALUES ($who, clock_timestamp());"
    echo "DO \$\$ BEGIN WHILE (SELECT count(*) FROM claims.lease_waiters) <
            (SELECT count(*) FROM generate_series(1, 8) o WHERE o <> $who AND (SELECT count(*) FROM served WHERE who = o) < $ROUNDS)
            LOOP PERFORM pg_sleep(0.001); END LOOP; END \$\$;"
    echo "UPDATE served SET freed = clock_timestamp() WHERE who = $who AND freed IS NULL;"
    echo "SELECT claims.rollback_update(1, md5('$who $i')::uuid);"
  done >"$work/loop.$who"
done
# They begin together, when the first lease on the name ends.
sql "SELECT claims.begin_update(2, one('hot'), lease_uuid => md5('hot')::uuid)" >/dev/null
for who in 1 2 3 4 5 6 7 8; do PGOPTIONS='-c claims.lease_wait=60s' psql -Xq -f "$work/loop.$who" >/dev/null 2>"$work/errors.$who" & done
wait_for 8 sql 'SELECT count(*) FROM claims.lease_waiters' >/dev/null
sql "SELECT claims.rollback_update(2, md5('hot')::uuid)" >/dev/null
wait
expect 'nobody failed' "$(cat "$work"/errors.*)" ''
expect 'all were served' "$(sql 'SELECT count(*) FROM served')" $((8 * ROUNDS))
turns="SELECT *, row_number() OVER (PARTITION BY who ORDER BY n) AS turn, got - lag(freed) OVER (ORDER BY n) AS took FROM served"
echo "late turns: $(sql "SELECT count(*) FROM ($turns) t WHERE took >= '100 ms'")"
expect 'nobody is served more than once more often than another' \
  "$(sql "WITH turns AS ($turns) SELECT count(*) FROM turns t, generate_series(1, 8) o
            WHERE (SELECT count(*) FROM served b WHERE b.who = o AND b.n < t.n) < turn - 1 AND took < '100 ms'")" 0
