#!/usr/bin/env bash
# The cost of check(), metrics() and orphans() is linear in the rows, whatever the statistics say: claim_leases is mostly empty when it is analyzed,
# and may have 100,000 rows a moment later. The test measures not time but the rows that all plan nodes return or discard, by auto_explain. A
# quadratic plan has a hundred million here.
. "$(dirname "$0")/../common.bash"

leases=${CHECK_LEASES:-20000}
fresh_database script_check_statistics
loaded=$(sqlstate "LOAD 'auto_explain'")
[ "$loaded" = 00000 ] || skip 'this PostgreSQL has no auto_explain'

# The statistics are this test's own from here on.
sql "DO \$\$ DECLARE of_claims regclass; BEGIN
       FOR of_claims IN SELECT oid FROM pg_class WHERE relnamespace = 'claims'::regnamespace AND relkind = 'r' LOOP
         EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', of_claims);
       END LOOP; END \$\$"
sql "INSERT INTO claims.claim_leases (uuid, creator_id, payload)
       SELECT gen_random_uuid(), 1 + n % 2, jsonb_build_object('destroy_records', '[]'::jsonb, 'create_records', jsonb_build_array(
                jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', 'held ' || n), 'subject', jsonb_build_object('type', 'GROUP', 'id', n),
                                   'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'rails_primary_key_id', n))))
         FROM generate_series(1, $leases) n;
     INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status, lease_uuid)
       SELECT 1, payload #>> '{create_records,0,bucket,value}', 2, payload #>> '{create_records,0,subject,id}', 3,
              payload #>> '{create_records,0,source,rails_primary_key_id}', creator_id, 2, uuid FROM claims.claim_leases"
# Also names of types that refuse look-alikes, reserved ones, outcomes, an open transfer, and in a cell tracked leases, orphans, expiring keys.
alike=100
sql "SELECT claims.add_bucket_type($alike, 'HANDLES', 'exact', 'reject')" >/dev/null
sql "INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
       SELECT $alike, 'user' || n, 4, n::text, 1, n::text, 1, 1 FROM generate_series(1, $leases) n UNION ALL SELECT 1, 'reserved ' || n, 0, '', 0, '', -1, 1 FROM generate_series(1, $leases) n;
     INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value) SELECT gen_random_uuid(), $alike, 'user' || n FROM generate_series(1, $leases) n;
     INSERT INTO claims.reservations (bucket_type, bucket_value, reason, reserved_by) SELECT 1, 'reserved ' || n, 'test', 'test' FROM generate_series(1, $leases) n;
     INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome) SELECT gen_random_uuid(), 1, 'committed' FROM generate_series(1, $leases);
     INSERT INTO claims.expiring_claims (kind, key, expires_at) SELECT 'kind ' || n, 'key', now() FROM generate_series(1, $leases) n;
     INSERT INTO claims.cells_outstanding_leases (uuid, cell_id) SELECT gen_random_uuid(), 1 FROM generate_series(1, $leases);
     INSERT INTO claims.seen_orphans (lease_uuid, cell_id) SELECT uuid, cell_id FROM claims.cells_outstanding_leases"
sql "SELECT * FROM claims.prepare_transfer('$(lease 9)', 1, 2, '[{\"type\": \"USER\", \"ids\": [$(seq -s, 1 500)]}]', 'test')" >/dev/null

# statistics ROWS: every table of claims has so many rows a page, as far as the planner knows: none, or as many as fit.
statistics() {
  sql "SET allow_system_table_mods = on; DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'claims'::regnamespace);
       UPDATE pg_class SET relpages = 100, reltuples = 100 * $1 WHERE relnamespace = 'claims'::regnamespace AND relkind IN ('r', 'i')"
}
# work STATEMENT: prints its answer, and whether its plans handled at most a hundred rows for each lease.
work() {
  psql -XqAt -v ON_ERROR_STOP=1 -c "LOAD 'auto_explain'" -c "SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on; SET auto_explain.log_timing = off;
    SET auto_explain.log_nested_statements = on; SET auto_explain.log_format = json" -c 'SET client_min_messages = log' -c "$1" 2>"$plans" || { tail -5 "$plans"; return; }
  python3 "$(dirname "$0")/plan_work.py" $((100 * leases)) <"$plans"
}
plans=$(mktemp "${TMPDIR:-/tmp}/claims-plans.XXXXXX")
trap 'rm -f "$plans"; cleanup' EXIT

for rows in 0 250; do
  statistics $rows
  expect "check() where the statistics say $rows rows a page" "$(work 'SELECT count(*) FROM claims.check()' | tr '\n' ' ')" '0 linear '
  expect "metrics() where they say $rows" "$(work "SELECT count(*) FROM claims.metrics() WHERE name = 'claims_orphans'" | tr '\n' ' ')" '2 linear '
  expect "orphans() where they say $rows" "$(work 'SELECT count(*) FROM claims.orphans(1)' | tr '\n' ' ')" "$leases linear "
done

# With all rows damaged. check() looks up each damaged claim, so there are fewer of these.
few=$((leases / 20))
sql "DELETE FROM claims.claims WHERE bucket_value IN (SELECT 'held ' || n FROM generate_series(1, $few) n);
     UPDATE claims.claims SET lease_uuid = gen_random_uuid() WHERE bucket_value IN (SELECT 'held ' || n FROM generate_series($few + 1, 2 * $few) n);
     INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome) SELECT uuid, 1, 'committed' FROM claims.claim_leases LIMIT $few;
     DELETE FROM claims.skeletons; DELETE FROM claims.reservations; UPDATE claims.claim_leases SET creator_id = 77;
     UPDATE claims.cell_transfers SET held = 7"
for rows in 0 250; do
  statistics $rows
  expect "check() of much that is wrong, where they say $rows" \
    "$(work "SELECT problem || ': ' || count(*) FROM claims.check() GROUP BY problem ORDER BY problem COLLATE \"C\"")" \
    "claim has no look: $leases
claim is held by no outstanding lease of its cell: $((leases - few))
lease does not hold a claim of its payload: $((2 * few))
lease is outstanding and settled: $few
lease of a cell that is not registered: $leases
name is held by nobody and not reserved: $leases
transfer does not hold the claims that it counts: 1
linear"
done
sql postgres 'DROP DATABASE script_check_statistics'
