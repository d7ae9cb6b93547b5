#!/usr/bin/env bash
# The worker settles whatever ALTER DATABASE and ALTER ROLE set for the sessions of applications: it sets what it needs for itself.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c claims.databases=postgres -c claims.reconcile_interval=1s -c max_prepared_transactions=2
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id')" >/dev/null
at cell1 "SELECT claims.automatic(1, 'service')" >/dev/null
# as_superuser COMMAND...: a session that the settings of the database do not concern.
as_superuser() { (export PGOPTIONS='-c role=none -c default_transaction_read_only=off -c statement_timeout=0 -c lock_timeout=0'; "$@"); }
worker_pid() { at cell1 "SELECT pid FROM pg_stat_activity WHERE backend_type = 'claims worker'"; }
# save NAME: a save that no session settles, by a session with its own settings.
save_prepared() {
  ( use_cluster cell1; PGOPTIONS='-c role=none -c default_transaction_read_only=off -c statement_timeout=0 -c session_replication_role=origin -c search_path=public -c lock_timeout=0'
    export PGOPTIONS; sql "BEGIN; INSERT INTO routes (name) VALUES ('$1'); PREPARE TRANSACTION '$1'"; sql "COMMIT PREPARED '$1'" )
}
number=0
# works_under STATEMENT: a worker that begins after it settles.
works_under() {
  number=$((number + 1))
  local before
  at cell1 "$1"
  before=$(as_superuser worker_pid)
  as_superuser at cell1 "SELECT pg_terminate_backend($before, 60000)" >/dev/null
  save_prepared "name$number"
  expect "settled under $1" "$(wait_for 1 at shared "SELECT status FROM claims.claims WHERE bucket_value = 'name$number'")" 1
}
expect 'it has a worker' "$(wait_for 1 at cell1 "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'claims worker'")" 1
works_under "ALTER DATABASE postgres SET role = 'app'"
as_superuser at cell1 "ALTER DATABASE postgres RESET role"
works_under "ALTER ROLE postgres SET role = 'app'"
as_superuser at cell1 "ALTER ROLE postgres RESET role"
works_under "ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'"
works_under "ALTER DATABASE postgres SET search_path = 'nowhere'; ALTER DATABASE postgres SET statement_timeout = 1; ALTER DATABASE postgres SET lock_timeout = 1"
as_superuser at cell1 "ALTER DATABASE postgres RESET search_path; ALTER DATABASE postgres RESET statement_timeout"
works_under "ALTER DATABASE postgres SET default_transaction_read_only = on"
as_superuser at cell1 "ALTER DATABASE postgres SET session_replication_role = 'replica'; ALTER DATABASE postgres RESET default_transaction_read_only"
works_under "ALTER DATABASE postgres SET quote_all_identifiers = on"
expect 'check() tells what the sessions of applications lose' "$(as_superuser at cell1 'SELECT problem FROM claims.check()')" 'setting keeps triggers from firing'
expect 'no worker has failed' "$(as_superuser at cell1 'SELECT count(*) FROM claims.passes WHERE sqlstate IS NOT NULL')" 0
