#!/usr/bin/env bash
# The worker's promise: committed leases are settled within a second beside the verification of many rows, an import and a purge, for three cells in
# one server. WORKER_ROWS is the number of rows and of outcomes, WORKER_PROMISE_MS the longest time until a lease is settled.
# test: timed
. "$(dirname "$0")/../cells.bash"

rows=${WORKER_ROWS:-30000} promise=${WORKER_PROMISE_MS:-5000}
start_cells -c shared_preload_libraries=claims -c max_worker_processes=20 -c max_wal_size=4GB -c claims.outcome_retention=-1
# Cells 1, 3 and 4 have databases of one server.
databases=(postgres three four) cells=(1 3 4)
in_database() { ( use_cluster cell1; export PGUSER=${3:-postgres} PGDATABASE=$1; sql "$2" ) }
for index in 0 1 2; do
  database=${databases[$index]} cell=${cells[$index]}
  if [ "$cell" != 1 ]; then
    at shared "CREATE ROLE cell$cell LOGIN PASSWORD '$CELLS_PASSWORD'; SELECT claims.register_cell($cell, 'cell$cell', 'cell $cell')" >/dev/null
    at cell1 "CREATE DATABASE $database TEMPLATE template0"
    at cell1 "ALTER DATABASE $database SET claims.service_timeout = '20s'"
    in_database "$database" "CREATE EXTENSION claims; SELECT claims.register_cell($cell, 'app');
      CREATE SERVER service FOREIGN DATA WRAPPER claims_service OPTIONS (host '127.0.0.1', port '${CLUSTER_PORT[shared]}', dbname 'postgres', connect_timeout '20');
      CREATE USER MAPPING FOR postgres SERVER service OPTIONS (user 'cell$cell', password '$CELLS_PASSWORD');
      CREATE TABLE routes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE); GRANT SELECT, INSERT, UPDATE, DELETE ON routes TO app" >/dev/null
  else
    in_database postgres "ALTER TABLE routes ADD PRIMARY KEY (id)"
  fi
  in_database "$database" "INSERT INTO routes (name) SELECT 'old-$cell-' || n FROM generate_series(1, $rows) n; ANALYZE routes;
    SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); GRANT SELECT ON routes TO PUBLIC; SELECT claims.attend($cell, 'service')" >/dev/null
done
reload_with() { at "$1" "ALTER SYSTEM SET $2" && at "$1" 'SELECT pg_reload_conf()' >/dev/null; }
reload_with cell1 "claims.databases = 'postgres, three, four'"
for index in 0 1 2; do
  expect "cell ${cells[$index]}: a first pass of recovery" "$(wait_for t in_database "${databases[$index]}" "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'reconcile' AND sqlstate IS NULL")" t
done

number=0 slowest=0
# promises: each cell saves by the protocol up to its COMMIT, and the worker must settle that in time.
promises() {
  local index cell database began took
  for index in 0 1 2; do
    cell=${cells[$index]} database=${databases[$index]} number=$((number + 1))
    begin "$cell" "$number" "beside-$number"
    in_database "$database" "BEGIN; INSERT INTO routes (name) VALUES ('beside-$number'); $(track "$number") COMMIT" app >/dev/null
    began=$(date +%s%3N)
    until [ "$(at shared "SELECT status FROM claims.claims WHERE bucket_value = 'beside-$number'")" = 1 ] || [ $(($(date +%s%3N) - began)) -gt 60000 ]; do sleep 0.02; done
    took=$(($(date +%s%3N) - began))
    [ "$took" -le "$slowest" ] || slowest=$took
  done
}
# beside WHAT IS_AT_WORK...: saves again and again for as long as the command says t, at least once.
beside() {
  local what=$1 rounds=0 before; shift
  slowest=0
  expect "$what: at work" "$(wait_for t "$@")" t
  while before=$("$@"); [ "$before" = t ]; do
    promises
    [ "$("$@")" != t ] || rounds=$((rounds + 1))
    [ "$rounds" -lt 10 ] || break
  done
  echo "$what: $rounds rounds, the slowest after $slowest ms"
  expect "$what: leases were committed while it was at work" "$([ "$rounds" -gt 0 ] && echo yes)" yes
  expect "$what: each was settled in time" "$([ "$slowest" -le "$promise" ] && echo yes || echo "$slowest ms")" yes
}

# --- an import of each cell ------------------------------------------------------------------------------------------------------

imports=()
for index in 0 1 2; do
  # As fast as it can, but never in less than some seconds.
  in_database "${databases[$index]}" "CALL claims.import_claims(${cells[$index]}, 'service', 'RAILS_TABLE_ROUTES', rows_per_second => $((rows / 5)))" app >/dev/null 2>&1 & imports+=($!)
done
imports_run() { in_database postgres "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'CALL claims.import_claims%'"; }
beside 'three imports' imports_run
for import in "${imports[@]}"; do wait "$import" || die 'an import failed'; done
expect 'all rows are claimed' "$(at shared "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'old-%' AND status = 1")" $((3 * rows))

# --- verification of all rows -----------------------------------------------------------------------------------------------------

# The service takes some seconds for each answer, so that a small verification is long enough, too.
at shared "ALTER FUNCTION claims.digest_records(bigint, text, text, text) RENAME TO digest_records_here"
at shared "CREATE FUNCTION claims.digest_records(cell_id bigint, source_type text, source_id_gt text DEFAULT NULL, source_id_lte text DEFAULT NULL)
    RETURNS TABLE (records bigint, digest bytea) LANGUAGE plpgsql SECURITY DEFINER AS
    \$\$ BEGIN PERFORM pg_sleep(5); RETURN QUERY SELECT d.records, d.digest FROM claims.digest_records_here(digest_records.cell_id, digest_records.source_type, source_id_gt, source_id_lte) d; END \$\$;
  GRANT EXECUTE ON FUNCTION claims.digest_records(bigint, text, text, text) TO cell1, cell3, cell4"
at shared "ALTER SYSTEM SET claims.verification_slots = 3"; at shared 'SELECT pg_reload_conf()' >/dev/null
verified() { at shared "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name LIKE 'claims cell %' AND state = 'active' AND query LIKE '%digest_records%'"; }
reload_with cell1 "claims.verify_interval = '1s'"
beside 'verification' verified
at shared "DROP FUNCTION claims.digest_records(bigint, text, text, text); ALTER FUNCTION claims.digest_records_here(bigint, text, text, text) RENAME TO digest_records"
for index in 0 1 2; do
  expect "cell ${cells[$index]}: a verification has ended well" "$(wait_for t in_database "${databases[$index]}" "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'verify' AND sqlstate IS NULL")" t
done

reload_with cell1 "claims.verify_interval = 0"

# --- a purge of outcomes --------------------------------------------------------------------------------------------------------------

# The workers of the three cells purge, each in its own database.
for database in "${databases[@]}"; do
  in_database "$database" "INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome, settled_at)
      SELECT gen_random_uuid(), 1, 'committed', now() - interval '100 days' FROM generate_series(1, $rows);
    UPDATE claims.pass_log SET started_at = started_at - interval '1 day', ended_at = ended_at - interval '1 day' WHERE kind = 'purge'"
done
left() { in_database four "SELECT count(*) > 0 FROM (SELECT FROM claims.lease_outcomes LIMIT 1) o"; }
# A slow disk, so that a small purge is long enough, too: it deletes 10,000 rows in one statement.
pause=$([ "$rows" -lt 1000000 ] && echo 1 || echo 0)
for database in "${databases[@]}"; do
  in_database "$database" "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN PERFORM pg_sleep($pause); RETURN NULL; END \$\$;
    CREATE TRIGGER slow AFTER DELETE ON claims.lease_outcomes FOR EACH STATEMENT EXECUTE FUNCTION slow()" 2>/dev/null
done
reload_with cell1 "claims.outcome_retention = '90d'"
at cell1 "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = 'claims worker'" >/dev/null
beside 'a purge' left
for database in "${databases[@]}"; do
  expect "all are purged in $database" "$(wait_for 0 in_database "$database" 'SELECT count(*) FROM claims.lease_outcomes')" 0
done
expect 'check' "$(at shared "SELECT count(*) FROM claims.check() WHERE problem <> 'table is not as the extension has created it'")" 0
