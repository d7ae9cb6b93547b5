#!/usr/bin/env bash
# test: alone
# The COMMIT that ends a lease wakes its first waiter at once, by every way; eight waiters on one name are served in turn.
. "$(dirname "$0")/../common.bash"
start_cluster wakeup --fast -c shared_preload_libraries=claims -c max_prepared_transactions=5
fresh_database script_wakeup
work=$(mktemp -d)
trap 'rm -rf "$work"; cleanup' EXIT
sql "CREATE FUNCTION one(n text) RETURNS jsonb LANGUAGE sql AS \$\$ SELECT replace('[$(claim N)]', '\"N\"', to_json(n)::text)::jsonb \$\$"

# ends WAY: how the holder ends lease number i.
ends() {
  case $1 in
    rollback_update) echo "SELECT claims.rollback_update(1, md5('a$2')::uuid);" ;;
    commit_update) echo "SELECT claims.commit_update(1, md5('a$2')::uuid);" ;;
    settle_leases) echo "SELECT claims.settle_leases(1, rollback_leases => ARRAY[md5('a$2')::uuid]);" ;;
    force_rollback) echo "SELECT claims.force_rollback(1, md5('a$2')::uuid, 'test');" ;;
    'COMMIT PREPARED') echo "COMMIT PREPARED 'p';" ;;
  esac
}
# A waiter looks every 50 ms in any case: without a wake-up the median would be near 25 ms.
ROUNDS=40
for way in rollback_update commit_update settle_leases force_rollback 'COMMIT PREPARED'; do
  sql "DROP TABLE IF EXISTS rounds; CREATE TABLE rounds (round int, ended timestamptz, got timestamptz)"
  sql "SELECT claims.rollback_update(creator_id, uuid) FROM claims.claim_leases" >/dev/null
  sql "DELETE FROM claims.lease_outcomes; DELETE FROM claims.claims"
  for i in $(seq $ROUNDS); do sql "SELECT claims.begin_update(1, one('w$i'), lease_uuid => md5('a$i')::uuid)" >/dev/null; done
  for i in $(seq $ROUNDS); do
    echo "SELECT lease_uuid FROM claims.try_begin_update(2, one('w$i'));"
    echo "UPDATE rounds SET got = clock_timestamp() WHERE round = $i;"
  done >"$work/waiter.sql"
  for i in $(seq $ROUNDS); do
    echo "DO \$\$ BEGIN WHILE NOT EXISTS (SELECT FROM claims.lease_waiters) OR (SELECT count(*) FROM rounds WHERE got IS NOT NULL) < $i - 1 LOOP
            COMMIT; PERFORM pg_sleep(0.001); END LOOP; PERFORM pg_sleep(0.003 + 0.05 * random()); END \$\$;"
    [ "$way" != 'COMMIT PREPARED' ] || echo "BEGIN; SELECT claims.rollback_update(1, md5('a$i')::uuid); PREPARE TRANSACTION 'p';"
    echo "INSERT INTO rounds VALUES ($i);"
    ends "$way" "$i"
    echo "UPDATE rounds SET ended = clock_timestamp() WHERE round = $i;"
  done >"$work/holder.sql"
  PGOPTIONS='-c claims.lease_wait=60s' psql -Xq -f "$work/waiter.sql" >"$work/log" 2>&1 &
  psql -Xq -v ON_ERROR_STOP=1 -f "$work/holder.sql" >/dev/null
  wait
  median=$(sql "SELECT round(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM got - ended) * 1000)::numeric, 2) FROM rounds WHERE got IS NOT NULL")
  echo "$way: median $median ms"
  expect "$way wakes" "$(sql "SELECT $median < 12, (SELECT count(*) FROM rounds WHERE got IS NOT NULL)")" "t|$ROUNDS"
done

# Eight sessions begin and roll back one name over and over. Who has had it goes to the end.
sql "SELECT claims.rollback_update(creator_id, uuid) FROM claims.claim_leases" >/dev/null
sql "CREATE TABLE served (who int, n bigserial)"
for who in 1 2 3 4 5 6 7 8; do
  for i in $(seq 60); do
    echo "SELECT claims.begin_update(1, one('hot'), lease_uuid => md5('$who $i')::uuid);"
    echo "INSERT INTO served VALUES ($who);"
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
echo "served: $(sql "SELECT count(*) FROM served")"
# A session is not waiting between its rollback and its next begin: there others may get two turns. But nobody is left behind.
expect 'all are served equally often, at any time' \
  "$(sql "SELECT max(spread) <= 3 FROM (SELECT n, max(c) - min(c) AS spread FROM (SELECT s.n, w.who, (SELECT count(*) FROM served b WHERE b.who = w.who AND b.n <= s.n) AS c
            FROM served s, generate_series(1, 8) w(who) WHERE s.n < 400) x GROUP BY n) y")" t
