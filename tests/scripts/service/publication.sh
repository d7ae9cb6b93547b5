#!/usr/bin/env bash
# With wal_level = logical and a publication FOR ALL TABLES every call works, and the decoded changes have the names of deleted claims.
. "$(dirname "$0")/../common.bash"

start_cluster logical --fast -c wal_level=logical -c max_replication_slots=4
fresh_database script_publication
sql "CREATE PUBLICATION everything FOR ALL TABLES"
sql "SELECT pg_create_logical_replication_slot('spy', 'test_decoding')" >/dev/null

have 1 stays going
expect 'a destroy' "$(sql "SELECT claims.commit_update(1, claims.begin_update(1, '[]', '[$(bucket going)]'))")" t
expect 'a rollback' "$(sql "SELECT claims.rollback_update(1, claims.begin_update(1, '[$(claim never)]', '[$(bucket stays)]'))")" t
expect 'a fence' "$(sql "SELECT claims.rollback_update(1, '$(lease 1)')" 2>/dev/null)" t
expect 'outcomes' "$(sql "SET claims.outcome_retention = 0; SELECT claims.purge_outcomes() > 0")" t
expect 'verification' "$(sql "SELECT outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '0 s', true)")" corrected
expect 'a change is told' "$(sql "SET claims.change_feed = on; SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim told)]'))")" t
expect 'and purged' "$(sql "SELECT claims.purge_changes('0')")" 1
# In a cell: tracking, fences, capture, automatic mode, requests, expiring claims.
expect 'a lease that is tracked and forgotten' "$(sql "SELECT claims.track_lease('$(lease 2)')" >/dev/null; sql "SELECT claims.forget_leases(ARRAY['$(lease 2)']::uuid[])")" 1
sql "CREATE TABLE routes (id bigint PRIMARY KEY, path text); SELECT claims.claim_attribute('routes', 'path', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES')" >/dev/null
expect 'a captured row' "$(sql "INSERT INTO routes VALUES (1, 'a'); UPDATE routes SET path = 'b'; DELETE FROM routes; SELECT count(*) FROM claims.pending_batch() WHERE create_records <> '[]'")" 0
expect 'a request' "$(sql "SELECT claims.enqueue_request('q', 'e', 'update') > 0; SELECT count(*) FROM claims.take_requests('q', '$(lease 3)'); " | tr '\n' ' ')" 't 1 '
expect 'expiring claims' "$(sql "SELECT claims.add_expiring('k', '{a}'); SELECT count(*) FROM claims.acquire_expiring('k', 'me', '1 s'); SELECT claims.remove_expiring('k', '{a}')" | tr '\n' ' ')" '1 1 1 '
expect 'registering and ending' "$(sqlstate script_publication "SELECT claims.register_cell(2, 'script_claims_two', 'other'); SELECT claims.unclaim_attribute('routes', 'path'); DELETE FROM claims.cells WHERE cell_id = 2")" 00000

sql "SELECT data FROM pg_logical_slot_get_changes('spy', NULL, NULL)" >"$CLAIMS_TMP/decoded"
deleted() { grep -F "table claims.$1: DELETE: " "$CLAIMS_TMP/decoded" | sed 's/.*DELETE: //' | LC_ALL=C sort -u; }
expect 'which names went' "$(deleted claims)" "bucket_type[integer]:1 bucket_value[text]:'going'
bucket_type[integer]:1 bucket_value[text]:'never'
bucket_type[integer]:1 bucket_value[text]:'stays'"
expect 'leases and outcomes too' "$(for table in claim_leases lease_outcomes; do deleted $table | grep -c uuid; done | grep -vc '^0$')" 2
expect 'and changes' "$(deleted change_sets | grep -c 'xid\[xid8\]')" 1
expect 'which were inserted' "$(grep -F 'table claims.change_sets: INSERT: ' "$CLAIMS_TMP/decoded" | grep -c "bucket_values\[text\[\]\]:'{told}'")" 1
expect 'nothing went without a key' "$(grep -cF '(no-tuple-data)' "$CLAIMS_TMP/decoded")" 0
sql "SELECT pg_drop_replication_slot('spy')"
sql postgres 'DROP DATABASE script_publication'
