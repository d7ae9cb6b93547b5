#!/usr/bin/env bash
# A save in a cell waits at the service for a name that another lease holds: within claims.service_timeout, and without a failure for the breaker.
. "$(dirname "$0")/../cells.bash"
start_cells -c shared_preload_libraries=claims

for number in 1 2; do
  at "cell$number" "ALTER TABLE routes OWNER TO app; GRANT CREATE ON SCHEMA public TO app"
  at "cell$number" "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id')" >/dev/null
  at "cell$number" "SELECT claims.automatic($number, 'service')" >/dev/null
done
held() { printf '[{"bucket": {"type": "ROUTES", "value": "%s"}, "subject": {"type": "GROUP", "id": 1}, "source": {"type": "RAILS_TABLE_ROUTES", "id": 1}}]' "$1"; }
waiters() { at shared 'SELECT count(*) FROM claims.lease_waiters'; }
# What a waiter at the service holds: a transaction id, a snapshot, locks.
held_by_waiter() { at shared "SELECT (backend_xid IS NULL, backend_xmin IS NULL, (SELECT count(*) FROM pg_locks l WHERE l.pid = a.pid AND locktype <> 'virtualxid')) FROM pg_stat_activity a JOIN claims.lease_waiters w USING (pid)"; }
waiters_at() { at shared "SELECT string_agg(cell_id || ' ' || priority, ', ') FROM claims.lease_waiters"; }

lease=$(as_cell 2 "SELECT claims.begin_update(2, '$(held ada)')")
expect 'by default a save waits for a moment' "$(state_as_app 1 "INSERT INTO routes (name) VALUES ('ada')")" 55P03
waited() { at shared "SELECT coalesce(sum(value), 0) FROM claims.metrics() WHERE name = 'claims_lease_waits_total' AND labels ->> 'cell' = '$1'"; }
expect 'which the service has counted' "$(waited 1)" 1
expect 'a direct call does not' "$(state_as_cell 1 "SELECT claims.begin_update(1, '$(held ada)')") $(waited 1)" '55P03 1'
expect 'nor does a save that does not want to' "$( (export PGOPTIONS='-c claims.lease_wait=0'; state_as_app 1 "INSERT INTO routes (name) VALUES ('ada')") ) $(waited 1)" '55P03 1'
open one cell1
tell one "SET claims.lease_wait = '15s'; SET claims.lease_priority = -3" >/dev/null
send one "INSERT INTO routes (name) VALUES ('ada'); SELECT 'saved'"
expect 'it waits with the priority of its session' "$(wait_for '1 -3' waiters_at)" '1 -3'
expect 'and holds nothing at the service meanwhile' "$(wait_for '(t,t,0)' held_by_waiter)" '(t,t,0)'
as_cell 2 "SELECT claims.rollback_update(2, '$lease')" >/dev/null
expect 'and is saved when the other lease has ended' "$(answer one)" saved
expect 'the claim is its own' "$(at shared "SELECT count(*) FROM claims.claims WHERE bucket_value = 'ada' AND creator_id = 1")" 1

# the time of the service limits the wait, and leaves time for the answer
lease=$(as_cell 2 "SELECT claims.begin_update(2, '$(held bea)')")
tell one "SET claims.service_timeout = '2s'" >/dev/null
# The service ends the wait 10 ms before the time of the save. On a busy machine its answer may need longer.
saves_bea() { tell one "INSERT INTO routes (name) VALUES ('bea')" | grep -oE '55P03|57014'; }
expect 'a wait that is too short for the lease' "$(wait_for 55P03 saves_bea)" 55P03
expect 'the breaker has no failures' "$(at cell1 "SELECT breaker, failures FROM claims.service_state")" 'closed|0'
# begin_pending
at cell1 "SELECT claims.automatic(NULL, NULL)" >/dev/null
tell one "SET claims.service_timeout = '20s'" >/dev/null
send one "BEGIN; INSERT INTO routes (name) VALUES ('bea'); SELECT claims.begin_pending(1, 'service') IS NOT NULL; COMMIT"
expect 'begin_pending waits, too' "$(wait_for '1 -3' waiters_at)" '1 -3'
as_cell 2 "SELECT claims.rollback_update(2, '$lease')" >/dev/null
expect 'and gets the lease' "$(answer one)" t
# a priority that the service does not allow
expect 'a priority that is not allowed' "$(tell one "SET claims.lease_priority = 1; SET claims.lease_wait = 0" >/dev/null; as_cell 2 "SELECT claims.begin_update(2, '$(held cyd)')" >/dev/null; tell one "SET claims.lease_wait = '5s'" >/dev/null
  tell one "BEGIN; INSERT INTO routes (name) VALUES ('cyd'); SELECT claims.begin_pending(1, 'service')" | grep -oE '42501' | head -1)" 42501
tell one ROLLBACK >/dev/null
# another session of the same cell has a lease
tell one "RESET claims.lease_priority; SET claims.lease_wait = '15s'" >/dev/null
open two cell1
tell two "BEGIN; INSERT INTO routes (name) VALUES ('dan') RETURNING 0; SELECT claims.begin_pending(1, 'service') IS NOT NULL" >/dev/null
send one "BEGIN; DELETE FROM routes WHERE name = 'none'; INSERT INTO routes (name) VALUES ('eve'); SELECT claims.begin_pending(1, 'service') IS NOT NULL; COMMIT"
expect 'other names are not waited for' "$(answer one)" t
tell two ROLLBACK >/dev/null
expect 'nobody waits' "$(waiters)" 0
# recovery: the session that has the lease is gone, and a begin of another cell waits for it
tell two "BEGIN; INSERT INTO routes (name) VALUES ('fay') RETURNING 0; SELECT claims.begin_pending(1, 'service') IS NOT NULL" >/dev/null
open other shared cell2
send other "SET claims.lease_wait = '60s'; SELECT claims.begin_update(2, '$(held fay)') IS NOT NULL"
expect 'another cell waits' "$(wait_for '2 0' waiters_at)" '2 0'
at cell1 "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'" >/dev/null
has_recovered() { at cell1 "SELECT * FROM claims.reconcile(1, 'service', '0')"; ! grep -q . <<<"$(waiters_at)"; }
wait_until has_recovered
expect 'until recovery has settled it' "$(answer other)" t

# a save that is canceled: its wait ends with the connection, and the other lease is followed by none
lease=$(as_cell 2 "SELECT claims.begin_update(2, '$(held gil)')")
tell one "SET claims.service_timeout = '100s'; SET claims.lease_wait = '60s'" >/dev/null
send one "BEGIN; INSERT INTO routes (name) VALUES ('gil'); SELECT claims.begin_pending(1, 'service') IS NOT NULL"
expect 'a save waits' "$(wait_for 1 waiters)" 1
at cell1 "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'app' AND state = 'active'" >/dev/null
expect 'until it is canceled' "$(answer one | grep -o 57014)" 57014
expect 'and then its wait at the service ends, too' "$(WAIT_LIMIT_SECONDS=30 wait_for 0 waiters)" 0

# saves that wait hold neither turns nor places
at cell1 "SELECT claims.automatic(1, 'service')" >/dev/null
at cell1 'ALTER SYSTEM SET claims.max_service_calls = 1' && at cell1 'SELECT pg_reload_conf()' >/dev/null
wait_for 1 at cell1 'SHOW claims.max_service_calls' >/dev/null
for number in 1 2 3; do
  hot[number]=$(as_cell 2 "SELECT claims.begin_update(2, '$(held "hot-$number")')")
  open "hot$number" cell1
  tell "hot$number" "SET claims.service_timeout = '100s'; SET claims.lease_wait = '60s'" >/dev/null
  send "hot$number" "INSERT INTO routes (name) VALUES ('hot-$number')"
done
expect 'three saves wait for names' "$(wait_for 3 waiters)" 3
processes() { at shared "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM claims.lease_waiters"; }
waiting=$(processes)
at shared 'ALTER ROLE cell1 CONNECTION LIMIT 3'
beside() { ( use_cluster cell1; PGUSER=app PGOPTIONS='-c claims.service_timeout=5s' sqlstate "INSERT INTO routes (name) VALUES ('beside-$1')" ); }
expect 'others save beside them, with one turn and three places' "$(for number in 1 2 3; do beside "$number"; done | tr '\n' ' ')" '00000 00000 00000 '
# Each of them has taken the place of one that waited.
expect 'those that have given their places up go on to wait' "$(wait_for 3 waiters) $(at cell1 "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%hot-_''%' AND state = 'active' AND usename = 'app'")" '3 3'
expect 'at least one over another connection' "$([ "$(processes)" != "$waiting" ] && echo yes)" yes
for number in 1 2 3; do as_cell 2 "SELECT claims.rollback_update(2, '${hot[number]}')" >/dev/null; done
expect 'and all are saved' "$(for number in 1 2 3; do answer "hot$number"; done; wait_for 3 at shared "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'hot-_' AND creator_id = 1 AND status = 1")" 3
at shared 'ALTER ROLE cell1 CONNECTION LIMIT -1'
for number in 1 2 3; do close "hot$number"; done
at cell1 "SELECT claims.automatic(NULL, NULL)" >/dev/null
at cell1 'ALTER SYSTEM RESET claims.max_service_calls' && at cell1 'SELECT pg_reload_conf()' >/dev/null

# a service that does not answer, though the wait is over: only the rest of the time counts for the breaker
wait_here() { [ "$(waiters)" = "$1" ]; }
at cell1 "ALTER DATABASE postgres SET claims.breaker_timeout = '2s'"
open one cell1
# silent WAIT TIMEOUT: the state of the breaker after a save that waited in vain for the service.
silent() {
  local pid
  tell one "SET claims.lease_wait = '$1'; SET claims.service_timeout = '$2'" >/dev/null
  send one "BEGIN; INSERT INTO routes (name) VALUES ('gil'); SELECT claims.begin_pending(1, 'service') IS NOT NULL"
  wait_until wait_here 1
  pid=$(at shared 'SELECT pid FROM claims.lease_waiters')
  stop_asleep "$pid" at shared
  answer one | grep -oE '57014|55P03' || true
  kill -CONT "$pid"
  tell one ROLLBACK >/dev/null
  at cell1 'SELECT breaker, failures FROM claims.service_state'
  wait_until wait_here 0
}
expect 'the silence of a service that may wait for all of the time does not count' "$(silent 60s 3s | tr '\n' ' ')" '57014 closed|0 '
expect 'but that of one that has had time to answer does' "$(silent 8s 12s | tr '\n' ' ')" '57014 closed|1 '
as_cell 2 "SELECT claims.rollback_update(2, '$lease')" >/dev/null
