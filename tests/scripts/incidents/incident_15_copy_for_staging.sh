#!/usr/bin/env bash
# A copy of a cell's database for staging, with the secret in it: without claims, and with a service of its own. Production notices nothing. Commands and roles are
# those of docs/runbook.md.
. "$(dirname "$0")/../cells.bash"
. "$(dirname "$0")/../documented.bash"

start_documented
trap cleanup EXIT
section='A copy for staging'
saves() { state_as app "$1" "INSERT INTO routes (path) VALUES ('$2')"; }
names_at() { as claims_admin "$1" "SELECT string_agg(bucket_value, ' ' ORDER BY bucket_value) FROM claims.records WHERE cell_id = 1"; }
left() { as monitor service 'SELECT count(*) FROM claims.leases'; }
connected() { as monitor service "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'claims cell 1'"; }

# --- the copies ---------------------------------------------------------------------------------------------------------

as app cell1 "INSERT INTO routes (path) VALUES ('alpha'), ('beta')"
expect 'their lease is settled, and forgotten' "$(wait_for 0 as postgres cell1 'SELECT count(*) FROM claims.cells_outstanding_leases')" 0
# When they are made, one transaction is saved and its lease is not settled.
as app cell1 "BEGIN; INSERT INTO routes (path) VALUES ('unsettled'); PREPARE TRANSACTION 'open'"
halt shared
as app cell1 "COMMIT PREPARED 'open'"
for copy in plain staged; do copy_of cell1 "$copy"; done
restart_cluster shared
without_password restart_cluster cell1
expect 'production settles it' "$(wait_for 0 left) $(names_at service)" '0 alpha beta unsettled'
for copy in plain staged; do
  echo "claims.databases = ''" | (cd /tmp && as_server sh -c "cat >>'${CLUSTER_DIR[$copy]}/data/postgresql.conf'")
  without_password start_copy "$copy"
done
before=$(names_at service)
production_is_as_before() { expect "production notices nothing: $1" "$(names_at service)|$(left)" "$before|0"; }
expect 'the copy leads to the service, and has what it takes' "$(follow "$section" Look plain srvoptions | grep -c shared.example) $(follow "$section" Look plain umoptions | grep -c passfile)" '1 1'

# --- without claims ------------------------------------------------------------------------------------------------------

follow "$section" 'Act 1' plain >/dev/null
expect 'it calls nobody any more' "$(saves plain nothing | grep -c 00000) $(state_as app plain "SELECT * FROM claims.reconcile(1, 'claims_service')" | grep -c 00000)" '0 0'
follow "$section" 'Act 2' plain >/dev/null
expect 'and saves without claims' "$(saves plain gamma) $(state_as app plain "DELETE FROM routes WHERE path = 'alpha'")" '00000 00000'
production_is_as_before 'a copy without claims'
expect 'and production claims what the copy has' "$(saves cell1 gamma)" 00000
before="$(names_at service)"
stop_cluster plain

# --- with a service of its own ----------------------------------------------------------------------------------------------

production_password=$CELL_PASSWORD
CELL_PASSWORD=staging$CELL_PASSWORD
certificate staging shared.staging.example
service_of staging staging
as postgres staging "$(steps docs/cell/first-steps.md '1. The shared database' | filled_in 1)" >/dev/null
as postgres staging "$(steps docs/cell/first-steps.md '3. How names are compared')" >/dev/null
(cd /tmp && as_server sh -c "umask 077; mkdir '$SECRETS/staged'; echo 'shared.staging.example:${CLUSTER_PORT[staging]}:names:cell_1:$CELL_PASSWORD' >'$SECRETS/staged/passfile'")
FILL="s|SET host 'shared.staging.example'|SET host 'shared.staging.example', SET port '${CLUSTER_PORT[staging]}'|; s|/etc/postgresql/claims/|$SECRETS/staged/|"
follow "$section" 'Act 1' staged >/dev/null
follow "$section" 'Act 3' staged >/dev/null
follow "$section" 'Act 4' staged adopt_cell >/dev/null
expect 'it claims what it has' "$(follow "$section" 'Act 4' staged claims.verify | cut -d'|' -f 5) $(names_at staging)" '3 alpha beta unsettled'
passes() { follow "$section" 'Act 5' staged reconcile 2>/dev/null | cut -d'|' -f 4,5; }
expect 'what was not settled then is an orphan here' "$(passes) $(passes) $(as app staged 'SELECT count(*) FROM claims.orphans(1)')" '0|1 0|1 1'
follow "$section" 'Act 5' staged >/dev/null 2>&1
expect 'which is forgotten' "$(as app staged 'SELECT count(*) FROM claims.orphans(1)') $(passes)" '0 0|0'
expect 'a save is claimed at the service of staging' "$(saves staged delta) $(names_at staging)" '00000 alpha beta delta unsettled'
production_is_as_before 'a copy with a service of its own'
expect 'production may have the name' "$(saves cell1 delta) $(names_at service)" '00000 alpha beta delta gamma unsettled'
expect 'the copy verifies' "$(as app staged "SELECT missing, different, extra FROM claims.verify(1, 'claims_service', 'RAILS_TABLE_ROUTES', recent => '0')")" '0|0|0'

# Only production's own server is connected there: when it stops, there is no connection.
CELL_PASSWORD=$production_password
expect 'production is the only one that acts as the cell' "$(wait_for t as monitor service "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'claims cell 1'") $(follow "$section" Check | cut -d'|' -f 1 | sort -u)" 't cell_1'
halt cell1
expect 'and when it stops nobody does, although the copy works' "$(saves staged epsilon) $(wait_for 0 connected)" '00000 0'
expect 'check' "$(as monitor staging 'SELECT count(*) FROM claims.check()') $(as monitor service 'SELECT count(*) FROM claims.check()')" '0 0'
