#!/usr/bin/env bash
# The background worker of a database that is being restored from a dump: it begins when the dump's epochs are there, and does not make one itself.
. "$(dirname "$0")/../cells.bash"

# Recovery runs once, then in an hour.
start_cells -c shared_preload_libraries=claims -c claims.databases=postgres,copy -c claims.reconcile_interval=1h

in_copy() { ( use_cluster cell1; psql -XqAt -d copy -c "$1" ); }
restore() { ( use_cluster cell1; pg_restore --exit-on-error --dbname=copy "$@" "$CLAIMS_TMP/dump" ); }
looked() { in_copy "SELECT count(*) FROM claims.passes WHERE kind = 'purge'"; }
# A worker that is started anew looks at all cells, then purges, if that is due.
look_again() {
  local before
  before=$(looked)
  in_copy "UPDATE claims.pass_log SET started_at = started_at - interval '1 hour', ended_at = ended_at - interval '1 hour' WHERE kind = 'purge'"
  in_copy "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = 'claims worker' AND datname = 'copy'" >/dev/null
  wait_until eval "[ \"\$(looked)\" -gt $before ]"
}

as_app 1 "SELECT claims.attend(1, 'service')" >/dev/null
expect 'the cell has an epoch' "$(wait_for 1 at cell1 'SELECT count(*) FROM claims.own_epochs')" 1
at cell1 "DELETE FROM claims.attended_cells" # Only the copy acts as the cell from here on.
at cell1 "INSERT INTO claims.attended_cells VALUES (1, 'service', 'elsewhere')"
( use_cluster cell1; pg_dump --format=custom --file="$CLAIMS_TMP/dump" postgres )
at cell1 "DELETE FROM claims.attended_cells"
at cell1 'CREATE DATABASE copy TEMPLATE template0'

restore --section=pre-data
pg_restore --list "$CLAIMS_TMP/dump" >"$CLAIMS_TMP/list"
grep 'TABLE DATA claims attended_cells' "$CLAIMS_TMP/list" >"$CLAIMS_TMP/first"
grep 'TABLE DATA' "$CLAIMS_TMP/list" | grep -v 'claims attended_cells' >"$CLAIMS_TMP/others"
restore --use-list="$CLAIMS_TMP/first"
expect 'its cell is restored' "$(in_copy 'SELECT cell_id FROM claims.attended_cells')" 1
expect 'but not its epoch' "$(in_copy 'SELECT count(*) FROM claims.own_epochs')" 0
look_again
expect 'the worker has looked, and acted for no cell' "$(in_copy "SELECT count(*) FROM claims.passes WHERE kind = 'reconcile'") $(in_copy 'SELECT count(*) FROM claims.own_epochs')" '0 0'
restore --use-list="$CLAIMS_TMP/others"
restore --section=post-data
silent 1
look_again
expect 'then it acts' "$(wait_for t in_copy "SELECT count(*) = 1 FROM claims.passes WHERE kind = 'reconcile' AND cell_id = 1 AND sqlstate IS NULL")" t

# A cell that was attended in this database needs no epoch.
in_copy 'DELETE FROM claims.own_epochs'
at shared 'DELETE FROM claims.cell_epochs'
in_copy "SELECT claims.attend(1, 'service')" >/dev/null
look_again
expect 'attended anew: it makes the first epoch' "$(wait_for 1 in_copy 'SELECT count(*) FROM claims.own_epochs WHERE predecessor IS NULL')" 1
