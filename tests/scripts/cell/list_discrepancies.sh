#!/usr/bin/env bash
# list_discrepancies transfers only ranges that differ: it asks for digests of 20,000 correct claims, and compares the records near the wrong one.
# Only roles that may act for the cell may call it, and not on a standby.
. "$(dirname "$0")/../cells.bash"

start_cells -c log_min_messages=panic
at cell1 "INSERT INTO routes (name) SELECT 'n' || i FROM generate_series(1, 20000) i;
          SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); GRANT SELECT ON routes TO PUBLIC; ANALYZE routes" >/dev/null
as_app 1 "SELECT corrected FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', correct => true)" >/dev/null
list() { as_app 1 "SELECT concat_ws(' ', discrepancy, bucket_value, source_id, holder_cell_id, outcome) FROM claims.list_discrepancies(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0'${1:+, $1})"; }
expect 'nothing is wrong' "$(list)" ''

at shared "DELETE FROM claims.claims WHERE bucket_value = 'n777'; UPDATE claims.claims SET creator_id = 2 WHERE bucket_value = 'n15000'"
for setting in "log_statement = 'all'" "log_min_messages = 'log'" 'log_parameter_max_length = 0'; do at shared "ALTER SYSTEM SET $setting"; done
at shared 'SELECT pg_reload_conf()' >/dev/null
expect 'the service logs what it is asked' "$(wait_for all at shared 'SHOW log_statement')" all
mark=$(cluster_log shared | wc -l)
expect 'by name' "$(list)" "missing n777 777
missing n15000 15000 2 held_by_other"
calls() { cluster_log shared | tail -n "+$((mark + 1))" | grep -c "$1" || true; }
expect 'two ranges are compared' "$(calls 'claims.verify_records')" 2
expect 'the rest is digests' "$( [ "$(calls 'claims.digest_records')" -le 20 ] && echo yes || calls 'claims.digest_records')" yes
expect 'nobody corrects' "$(at shared "SELECT count(*) FROM claims.claims WHERE bucket_value IN ('n777', 'n15000')")" 1
expect 'page by page' "$(list 'max_results => 1')" 'missing n777 777'
expect 'another role' "$( (use_cluster cell1; sql "CREATE ROLE stranger LOGIN"; PGUSER=stranger sqlstate "SELECT * FROM claims.list_discrepancies(1, 'service', 'RAILS_TABLE_ROUTES')") )" 42501
as_app 1 "SELECT corrected FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0', correct => true)" >/dev/null
expect 'corrected' "$(list)" 'missing n15000 15000 2 held_by_other'
halt shared
expect 'the service is down' "$(state_as_app 1 "SELECT * FROM claims.list_discrepancies(1, 'service', 'RAILS_TABLE_ROUTES')")" 08001

# A standby of the cell, for which its directory is copied while it is stopped.
copy_of cell1 standby
(cd /tmp && as_server touch "${CLUSTER_DIR[standby]}/data/standby.signal")
start_copy standby
expect 'not on a standby' "$( (use_cluster standby; export PGUSER=app; sqlstate "SELECT * FROM claims.list_discrepancies(1, 'service', 'RAILS_TABLE_ROUTES')") )" 25006
expect 'metrics are there' "$( (use_cluster standby; sql "SELECT count(*) > 10 FROM claims.metrics()") )" t
