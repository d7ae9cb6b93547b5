#!/usr/bin/env bash
# Sessions of a cell that wait long for names which another cell has leased, transactions that are left open after a call, and kills of both and of
# their connections, for 20 seconds or CAMPAIGN_SECONDS. Ordinary saves of the cell go on beside them: none is refused for want of a turn or a
# place, and none waits long. In the end no turn, place or waiter is left.
. "$(dirname "$0")/../cells.bash"

seconds=${CAMPAIGN_SECONDS:-20}
start_cells -c shared_preload_libraries=claims -c max_connections=100 -c claims.max_service_calls=8
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic(1, 'service');
  GRANT USAGE ON FOREIGN SERVER service TO app; CREATE ROLE hostile LOGIN IN ROLE app" >/dev/null
at shared 'ALTER ROLE cell1 CONNECTION LIMIT 10'
held() { printf '[{"bucket": {"type": "ROUTES", "value": "%s"}, "subject": {"type": "GROUP", "id": 1}, "source": {"type": "RAILS_TABLE_ROUTES", "id": 1}}]' "$1"; }
for number in $(seq 12); do hot[number]=$(as_cell 2 "SELECT claims.begin_update(2, '$(held "hot-$number")')"); done

is_over=$CLAIMS_TMP/is_over
jobs=()
# forever SQL: a session of the cell that sends it again and again, each time it has failed or was killed.
forever() {
  ( leave_sessions; use_cluster cell1; export PGUSER=hostile PGOPTIONS='-c claims.service_timeout=100s -c claims.lease_wait=60s'
    until [ -e "$is_over" ]; do psql -XqAt -c "$1" >/dev/null 2>&1 || sleep 0.2; done ) &
  jobs+=($!)
}
for number in $(seq 12); do forever "INSERT INTO routes (name) VALUES ('hot-$number')"; done
for number in $(seq 10); do
  forever "DO \$\$ BEGIN INSERT INTO routes (name) VALUES ('idle-$number-' || clock_timestamp()); PERFORM claims.begin_pending(1, 'service'); PERFORM pg_sleep(60);
    RAISE 'no'; END \$\$"
done
# Every second one of them dies, and one of their connections.
( leave_sessions; until [ -e "$is_over" ]; do
    sleep 1
    at cell1 "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'hostile' ORDER BY random() LIMIT 1" >/dev/null
    at shared "SELECT pg_terminate_backend(pid) FROM claims.lease_waiters ORDER BY random() LIMIT 1" >/dev/null
  done ) &
jobs+=($!)
waiters() { at shared 'SELECT count(*) > 1 FROM claims.lease_waiters'; }
expect 'they wait' "$(wait_for t waiters)" t

echo "INSERT INTO routes (name) VALUES (:client_id || '-' || clock_timestamp());" >"$CLAIMS_TMP/save.sql"
( use_cluster cell1; cd "$CLAIMS_TMP"; pgbench -n -U app -c 3 -j 1 -R 15 -T "$seconds" -l --log-prefix=saves -f save.sql postgres >"$CLAIMS_TMP/said" 2>&1 ) || true
expect 'no ordinary save is refused' "$(grep -cE 'ERROR|aborted' "$CLAIMS_TMP/said" || true)" 0
# The time of each save is the third column, in microseconds, from the moment at which it was due.
read -r saves slowest < <(cat "$CLAIMS_TMP"/saves.* | awk '{ if ($3 > most) most = $3 } END { print NR, int(most / 1000) }')
say "$saves saves, the slowest in $slowest ms"
expect 'they keep their rate' "$([ "$saves" -ge $((seconds * 5)) ] && echo yes || echo "$saves")" yes
expect 'and none waits for as long as it may' "$([ "$slowest" -lt 15000 ] && echo yes || echo "$slowest")" yes

touch "$is_over"
for number in $(seq 12); do as_cell 2 "SELECT claims.rollback_update(2, '${hot[number]}')" >/dev/null; done
gone() { at cell1 "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'hostile'"; }
wait_for 0 gone >/dev/null
wait "${jobs[@]}" 2>/dev/null || true
left() { at cell1 "SELECT calling, waiting, waiting_for_place, connections FROM claims.service_calls()"; }
expect 'no turn and no place is left' "$(wait_for '0|0|0|0' left)" '0|0|0|0'
expect 'and no waiter' "$(wait_for 0 at shared 'SELECT count(*) FROM claims.lease_waiters')" 0
expect 'check' "$(at shared "SELECT count(*) FROM claims.check() WHERE problem <> 'table is not as the extension has created it'")" 0
