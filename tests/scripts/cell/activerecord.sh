#!/usr/bin/env bash
# An ActiveRecord application that knows nothing of claims, in two cells in automatic mode: examples/activerecord.
. "$(dirname "$0")/../common.bash"
. "$(dirname "$0")/../cells.bash"

command -v ruby >/dev/null || die "no ruby: run scripts/setup"
start_cells -c shared_preload_libraries=claims -c claims.databases=postgres
for n in 1 2; do
  (
    use_cluster "cell$n"
    sql "DROP TABLE routes"
    psql -Xq -v ON_ERROR_STOP=1 -f "$CLAIMS_ROOT/examples/activerecord/schema.sql"
    sql "ALTER SERVER service RENAME TO claims_service"
    psql -XqAt -v ON_ERROR_STOP=1 -v cell="$n" -f "$CLAIMS_ROOT/examples/activerecord/claims.sql" >/dev/null
  )
done

for n in 1 2; do export "CELL_${n}=host=${CLUSTER_DIR[cell$n]} port=${CLUSTER_PORT[cell$n]} database=postgres username=app"; done
( cd / && env -u RUBYOPT ruby -W:no-deprecated "$CLAIMS_ROOT/examples/activerecord/two_cells.rb" )

left() { { for n in 1 2; do at "cell$n" 'SELECT count(*) FROM claims.cells_outstanding_leases'; done; at shared 'SELECT count(*) FROM claims.claim_leases'; } | tr '\n' ' '; }
expect 'nothing is left over, though nobody ran recovery' "$(wait_for '0 0 0 ' left) $(at shared 'SELECT count(*) FROM claims.check()')" '0 0 0  0'
for n in 1 2; do
  own=$(at "cell$n" "SELECT coalesce(string_agg(v, ' ' ORDER BY v COLLATE \"C\"), '-') FROM
    (SELECT username FROM users UNION ALL SELECT email FROM emails WHERE confirmed UNION ALL SELECT path FROM routes) x (v)")
  expect "cell $n has what it claims, no more, no less" "$own" "$(claimed $n)"
done
