#!/usr/bin/env bash
# An ActiveRecord application that knows nothing of claims, in two cells in automatic mode: examples/activerecord.
. "$(dirname "$0")/common.bash"
. "$(dirname "$0")/cells.bash"

command -v ruby >/dev/null || die "no ruby: run scripts/setup"
start_cells -c shared_preload_libraries=claims -c claims.databases=postgres
# A long service_timeout where time is not tested: the machine may be busy.
for n in 1 2; do at "cell$n" "ALTER DATABASE postgres SET claims.service_timeout = '10s'"; done
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

left() { for n in 1 2; do at "cell$n" 'SELECT count(*) FROM claims.cells_outstanding_leases'; done; at shared 'SELECT count(*) FROM claims.claim_leases'; }
for _ in $(seq 1 100); do [ "$(left | tr '\n' ' ')" != '0 0 0 ' ] || break; sleep 0.1; done
expect 'nothing is left over, though nobody ran recovery' "$(left | tr '\n' ' ')$(at shared 'SELECT count(*) FROM claims.check()')" '0 0 0 0'
for n in 1 2; do
  own=$(at "cell$n" "SELECT coalesce(string_agg(v, ' ' ORDER BY v COLLATE \"C\"), '-') FROM
    (SELECT username FROM users UNION ALL SELECT email FROM emails WHERE confirmed UNION ALL SELECT path FROM routes) x (v)")
  expect "cell $n has what it claims, no more, no less" "$own" "$(claimed $n)"
done
