#!/usr/bin/env bash
# test: alone
# The COMMIT that ends a lease wakes its first waiter at once, by every way; what wakes nobody costs 50 ms; eight waiters on one name are served in turn.
. "$(dirname "$0")/../common.bash"
start_cluster wakeup --fast -c shared_preload_libraries=claims -c max_prepared_transactions=5
fresh_database script_wakeup
work=$CLAIMS_TMP
sql "CREATE FUNCTION one(n text, subject int DEFAULT 1) RETURNS jsonb LANGUAGE sql
       AS \$\$ SELECT jsonb_set(replace('[$(claim N)]', '\"N\"', to_json(n)::text)::jsonb, '{0,subject,id}', to_jsonb(subject)) \$\$"

# ends WAY: how the holder ends lease number i.
ends() {
  case $1 in
    rollback_update) echo "SELECT claims.rollback_update(1, md5('a$2')::uuid);" ;;
    commit_update) echo "SELECT claims.commit_update(1, md5('a$2')::uuid);" ;;
    settle_leases) echo "SELECT claims.settle_leases(1, rollback_leases => ARRAY[md5('a$2')::uuid]);" ;;
    force_rollback) echo "SELECT claims.force_rollback(1, md5('a$2')::uuid, 'test');" ;;
    'COMMIT PREPARED') echo "COMMIT PREPARED 'p';" ;;
    cancel_transfer) echo "SELECT claims.cancel_transfer(md5('a$2')::uuid, 'test');" ;;
    finish_transfer) echo "SELECT claims.finish_transfer(md5('a$2')::uuid);" ;;
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
      ROLLBACK) ;;
      *) sql "SELECT claims.begin_update(1, one('w$i'), lease_uuid => md5('a$i')::uuid)" >/dev/null ;;
    esac
  done
}
# A waiter looks every 50 ms in any case: without a wake-up the median would be near 25 ms, as it is after a ROLLBACK.
ROUNDS=40
for way in rollback_update commit_update settle_leases force_rollback 'COMMIT PREPARED' cancel_transfer finish_transfer ROLLBACK; do
  sql "SET client_min_messages = warning; DROP TABLE IF EXISTS got, ended; CREATE TABLE got (round int, at timestamptz); CREATE TABLE ended (round int, at timestamptz)"
  sql "SELECT claims.rollback_update(creator_id, uuid) FROM claims.claim_leases" >/dev/null
  sql "DELETE FROM claims.lease_outcomes; DELETE FROM claims.claims; DELETE FROM claims.transfer_subjects; DELETE FROM claims.cell_transfers"
  holds "$way"
  {
    # It begins when the holder has all names.
    [ "$way" != ROLLBACK ] || echo "DO \$\$ BEGIN WHILE pg_try_advisory_lock(8) LOOP PERFORM pg_advisory_unlock(8); PERFORM pg_sleep(0.01); END LOOP; END \$\$;"
    for i in $(seq $ROUNDS); do
      echo "SELECT lease_uuid FROM claims.try_begin_update(2, one('w$i'));"
      echo "INSERT INTO got VALUES ($i, clock_timestamp());"
    done
  } >"$work/waiter.sql"
  {
    if [ "$way" = ROLLBACK ]; then
      echo BEGIN\;
      for i in $(seq $ROUNDS -1 1); do echo "SAVEPOINT s$i; SELECT claims.begin_update(1, one('w$i'));"; done
      echo "SELECT pg_advisory_lock(8);"
    fi
    for i in $(seq $ROUNDS); do
      echo "DO \$\$ BEGIN WHILE NOT EXISTS (SELECT FROM claims.lease_waiters) OR (SELECT count(*) FROM got) < $i - 1 LOOP
              PERFORM pg_sleep(0.001); END LOOP; PERFORM pg_sleep(0.003 + 0.05 * random()); END \$\$;"
      [ "$way" != 'COMMIT PREPARED' ] || echo "BEGIN; SELECT claims.rollback_update(1, md5('a$i')::uuid); PREPARE TRANSACTION 'p';"
      ends "$way" "$i"
      printf '%s\n' '\o' "SELECT $i || E'\\t' || clock_timestamp();" '\o /dev/null'
    done
  } >"$work/holder.sql"
  PGOPTIONS='-c claims.lease_wait=60s' psql -Xq -f "$work/waiter.sql" >"$work/log" 2>&1 &
  psql -XqAt -v ON_ERROR_STOP=1 -c '\o /dev/null' -f "$work/holder.sql" >"$work/ended"
  wait
  psql -Xq -v ON_ERROR_STOP=1 -c "\copy ended FROM '$work/ended'"
  median=$(sql "SELECT round(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM got.at - ended.at) * 1000)::numeric, 2) FROM got JOIN ended USING (round)")
  echo "$way: median $median ms"
  limit=12
  [ "$way" != ROLLBACK ] || limit=60
  expect "$way: a waiter has its name within $limit ms" "$(sql "SELECT $median < $limit, (SELECT count(*) FROM got), (SELECT count(*) FROM ended)")" "t|$ROUNDS|$ROUNDS"
done

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
