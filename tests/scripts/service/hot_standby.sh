#!/usr/bin/env bash
# Reads on a physical standby; writes there are refused cleanly. Reads on the primary assign no transaction id.
. "$(dirname "$0")/../common.bash"

start_cluster primary --fast -c synchronous_commit=on -c wal_level=replica -c max_wal_senders=4 -c hot_standby=on
fresh_database script_standby
have 1 active going
have 2 theirs
sql "SELECT claims.begin_update(1, '[$(claim coming)]', '[$(bucket going)]', '$(lease 1)')" >/dev/null
sql "SELECT claims.rollback_update(1, '$(lease 2)')" >/dev/null
sql "SELECT claims.grant_read('script_claims_router')" >/dev/null

make_standby standby 'max_standby_streaming_delay = 60s'
caught_up
expect 'it is a standby' "$(on_standby sql 'SELECT pg_is_in_recovery()')" t
expect 'get_record' "$(on_standby sql "SELECT bucket_value, cell_id, status, cell_name FROM claims.get_record('ROUTES', 'active')")" 'active|1|ACTIVE|one'
expect 'get_record as a router' "$(PGUSER=script_claims_router on_standby sql "SELECT cell_id FROM claims.get_record('ROUTES', 'theirs')")" 2
expect 'get_records' "$(on_standby sql "SELECT string_agg(bucket_value || ' ' || status, ', ') FROM claims.get_records('[{\"type\": 1, \"value\": \"coming\"}, {\"type\": 1, \"value\": \"nothing\"}, {\"type\": 1, \"value\": \"going\"}]')")" 'coming LEASE_CREATING, going LEASE_DESTROYING'
expect 'list_leases' "$(on_standby sql "SELECT lease_uuid FROM claims.list_leases(1)")" "$(lease 1)"
expect 'list_leases of all' "$(on_standby sql "SELECT count(*) FROM claims.list_leases(NULL)")" 1
expect 'list_records' "$(on_standby sql "SELECT count(*) FROM claims.list_records(1)")" 3
expect 'digest_records' "$(on_standby sql "SELECT records FROM claims.digest_records(1, 'RAILS_TABLE_ROUTES')")" 3
expect 'verify_records that corrects nothing' "$(on_standby sql "SELECT count(*) FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]')")" 3
expect 'list_records as a cell' "$(PGUSER=script_claims_two on_standby sql "SELECT count(*) FROM claims.list_records(2)")" 1
expect 'the view' "$(on_standby sql "SELECT count(*) FROM claims.records")" 4
expect 'lease_outcome' "$(on_standby sql "SELECT claims.lease_outcome(1, '$(lease 1)'), claims.lease_outcome(1, '$(lease 2)')")" 'outstanding|rolled_back'
expect 'check' "$(on_standby sql "SELECT count(*) FROM claims.check()")" 0
for call in "claims.begin_update(1, '[$(claim x)]')" "claims.begin_update(1, '[$(claim coming)]', '[$(bucket going)]', '$(lease 1)')" "claims.try_begin_update(1, '[$(claim x)]')" \
    "claims.commit_update(1, '$(lease 1)')" "claims.rollback_update(1, '$(lease 1)')" "claims.rollback_update(1, '$(lease 9)')" \
    "claims.settle_leases(1, ARRAY['$(lease 1)'::uuid])" "claims.settle_leases(1, '{}', ARRAY['$(lease 9)'::uuid])" "claims.register_cell(5, 'script_claims_one')" "claims.add_bucket_type(100, 'X')"; do
  expect "a write is refused: ${call%%(*}" "$(on_standby sqlstate "SELECT * FROM $call")" 25006
  expect "a write in a READ ONLY transaction: ${call%%(*}" "$(psql -XqAt -v VERBOSITY=sqlstate -c 'BEGIN READ ONLY' -c "SELECT * FROM $call" 2>&1 | grep -oE '[0-9A-Z]{5}$' | head -1)" 25006
done
# the standby shows commits of the primary once it has replayed them
sql "SELECT claims.commit_update(1, '$(lease 1)')" >/dev/null
caught_up
expect 'the commit arrives' "$(on_standby sql "SELECT string_agg(bucket_value, ' ' ORDER BY bucket_value) FROM claims.list_records(1)")" 'active coming'
expect 'with its outcome' "$(on_standby sql "SELECT claims.lease_outcome(1, '$(lease 1)')")" committed

# the same session, again and again (cached plans)
expect 'repeated reads in one session' "$(on_standby psql -XqAt -v ON_ERROR_STOP=1 -c "$(for _ in $(seq 1 8); do printf "SELECT cell_id FROM claims.get_record('ROUTES', 'active');"; done)" | sort -u)" 1

# no transaction id on the primary
for read in "claims.get_record('ROUTES', 'active')" "claims.get_records('[{\"type\": 1, \"value\": \"active\"}]')" 'claims.list_leases(1)' 'claims.list_records(1)' "claims.lease_outcome(1, '$(lease 1)')" 'claims.records' 'claims.check()'; do
  expect "no transaction id: ${read%%(*}" "$(psql -XqAt -v ON_ERROR_STOP=1 -c "BEGIN; SELECT count(*) FROM $read; SELECT pg_current_xact_id_if_assigned() IS NULL; COMMIT" | tail -1)" t
done
# promoted, it is a primary like any other
control standby promote
expect 'after promotion' "$(on_standby sql "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim promoted)]', '[$(bucket active)]'))")" t
expect 'after promotion, check' "$(on_standby sql "SELECT count(*) FROM claims.check()")" 0
