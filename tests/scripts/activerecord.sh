#!/usr/bin/env bash
# An ActiveRecord application that knows nothing of claims, in two cells in automatic mode: examples/activerecord.
. "$(dirname "$0")/common.bash"
. "$(dirname "$0")/cells.bash"

command -v ruby >/dev/null || die "no ruby: run scripts/setup"
start_cells
# Where time is not the question: the machine may be busy.
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

# In a file of its own: a statement's quotes would get lost on the way through the environment.
for n in 1 2; do
  export "CELL_${n}=host=${CLUSTER_DIR[cell$n]} port=${CLUSTER_PORT[cell$n]} database=postgres username=app"
  cat >"$CLAIMS_TMP/recover$n" <<SH
exec "$CLAIMS_BINDIR/psql" -XqAt -v ON_ERROR_STOP=1 -h "${CLUSTER_DIR[cell$n]}" -p ${CLUSTER_PORT[cell$n]} -U app postgres \
  -c "SELECT * FROM claims.reconcile($n, 'claims_service')"
SH
  export "CELL_${n}_RECOVERY=sh $CLAIMS_TMP/recover$n"
done
( cd / && env -u RUBYOPT ruby -W:no-deprecated "$CLAIMS_ROOT/examples/activerecord/two_cells.rb" )

# Twice: the first pass commits, and what is left over would show in the second.
for n in 1 2 1 2; do as_app $n "SELECT * FROM claims.reconcile($n, 'claims_service')" >/dev/null; done
expect 'nothing is left over' "$(at shared 'SELECT count(*) FROM claims.claim_leases') $(at shared 'SELECT count(*) FROM claims.check()')" '0 0'
for n in 1 2; do
  own=$(at "cell$n" "SELECT coalesce(string_agg(v, ' ' ORDER BY v COLLATE \"C\"), '-') FROM
    (SELECT username FROM users UNION ALL SELECT email FROM emails WHERE confirmed UNION ALL SELECT path FROM routes) x (v)")
  expect "cell $n has what it claims, no more, no less" "$own" "$(claimed $n)"
done
