#!/usr/bin/env bash
# PREPARE TRANSACTION, a restart, and COMMIT PREPARED in another session.
. "$(dirname "$0")/../common.bash"

start_cluster prepared --fast -c synchronous_commit=on -c max_prepared_transactions=10
fresh_database script_prepared
have 1 old other
sql "SELECT claims.begin_update(1, '[$(claim held)]', '[$(bucket other)]', '$(lease 9)')" >/dev/null
psql -XqAt -v ON_ERROR_STOP=1 -c 'BEGIN' -c "SELECT claims.begin_update(1, '[$(claim new)]', '[$(bucket old)]', '$(lease 1)')" -c "PREPARE TRANSACTION 'begin'" >/dev/null
psql -XqAt -v ON_ERROR_STOP=1 -c 'BEGIN' -c "SELECT claims.commit_update(1, '$(lease 9)')" -c "PREPARE TRANSACTION 'commit'" >/dev/null
psql -XqAt -v ON_ERROR_STOP=1 -c 'BEGIN' -c "SELECT claims.rollback_update(2, '$(lease 5)')" -c "PREPARE TRANSACTION 'fence'" >/dev/null

while_prepared() {
  expect "$1: the bucket is in flight" "$(sqlstate "SELECT claims.begin_update(2, '[$(claim new)]')")" 55P03
  expect "$1: and said so" "$(sql "SELECT conflicts->0->>'reason' FROM claims.try_begin_update(2, '[$(claim new)]')")" in_flight
  expect "$1: the claim that goes" "$(sql "SELECT conflicts->0->>'reason' FROM claims.try_begin_update(1, '[]', '[$(bucket old)]')")" in_flight
  expect "$1: the uuid" "$(sqlstate "SELECT claims.rollback_update(1, '$(lease 1)')")" 55P03
  expect "$1: the lease that is being settled" "$(sqlstate "SELECT claims.rollback_update(1, '$(lease 9)')")" 55P03
  expect "$1: busy" "$(sql "SELECT outcome, settled FROM claims.settle_leases(1, ARRAY['$(lease 9)'::uuid])")" 'busy|f'
  expect "$1: the fence" "$(sqlstate "SELECT claims.begin_update(2, '[$(claim y)]', '[]', '$(lease 5)')")" 55P03
  expect "$1: nothing of it is seen" "$(sql "SELECT count(*) FROM claims.get_record('ROUTES', 'new')")" 0
}
while_prepared 'before the restart'
restart_cluster prepared fast
while_prepared 'after a restart'
restart_cluster prepared immediate
while_prepared 'after a crash'

sql "COMMIT PREPARED 'begin'"; sql "COMMIT PREPARED 'commit'"; sql "ROLLBACK PREPARED 'fence'"
expect 'the begin is there' "$(sql "SELECT claims.lease_outcome(1, '$(lease 1)')")" outstanding
expect 'the bucket is leased' "$(sql "SELECT conflicts->0->>'reason' FROM claims.try_begin_update(2, '[$(claim new)]')")" leased
expect 'the commit is there' "$(sql "SELECT claims.commit_update(1, '$(lease 9)')")" f
expect 'the fence is not' "$(sql "SELECT claims.begin_update(2, '[$(claim y)]', '[]', '$(lease 5)')")" "$(lease 5)"
expect 'the lease commits' "$(sql "SELECT claims.commit_update(1, '$(lease 1)')")" t
expect 'state' "$(sql "SELECT string_agg(bucket_value || ' ' || status, ', ' ORDER BY bucket_value) FROM claims.claims")" 'held 1, new 1, y 2'
expect 'check' "$(sql 'SELECT count(*) FROM claims.check()')" 0
