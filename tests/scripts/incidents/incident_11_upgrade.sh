#!/usr/bin/env bash
# An upgrade that is half done, of the extension and of PostgreSQL: the servers have the new library, the databases of service and cell the old
# tables, and an administrator has already tried pg_upgrade. A lease was saved and not settled before. Nothing is lost, and at the end everything is
# upgraded.
# test: long
OLD=1.0.0
. "$(dirname "$0")/../upgrade/upgrade.bash"
. "$(dirname "$0")/../upgrade/pg_upgrade.bash"
. "$(dirname "$0")/../cells.bash"

place=$(cd /tmp && as_server mktemp -d /tmp/claims-incident_11.XXXXXX)
CELLS_PASSWORD=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
for cluster in shared cell1; do start_cluster $cluster --fast -c log_min_messages=panic -c synchronous_commit=on; done
trap 'for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup; rm -rf "$place"' EXIT
in_names() { ( use_cluster "$1"; sql names "$2" ) }
state_in_names() { ( use_cluster "$1"; export PGUSER=${3:-postgres}; sqlstate names "$2" ) }
message() { ( use_cluster "$1"; psql -XqAt -d names -c "$2" 2>&1 >/dev/null || true ) | tr '\n' ' '; }

# --- the situation ----------------------------------------------------------------------------------------------------

( use_cluster shared; fresh_roles; old_service names
  sql names "ALTER ROLE script_claims_one PASSWORD '$CELLS_PASSWORD'; DELETE FROM claims.claims WHERE source_id = '4'" )
# The cell as its guide had it: the extension's owner is no superuser any more, the service a server of dblink's.
( use_cluster cell1; make_database names; sql names "
    CREATE ROLE claims_owner NOLOGIN SUPERUSER; CREATE ROLE app LOGIN; SET ROLE claims_owner; CREATE EXTENSION claims VERSION '$OLD'; RESET ROLE; ALTER ROLE claims_owner NOSUPERUSER;
    CREATE EXTENSION dblink;
    CREATE SERVER service FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '127.0.0.1', port '${CLUSTER_PORT[shared]}', dbname 'names');
    GRANT USAGE ON FOREIGN SERVER service TO claims_owner;
    CREATE USER MAPPING FOR claims_owner SERVER service OPTIONS (user 'script_claims_one', password '$CELLS_PASSWORD');
    CREATE TABLE routes (id bigint PRIMARY KEY, name text UNIQUE, customer bigint NOT NULL DEFAULT 1); GRANT SELECT, INSERT, UPDATE, DELETE ON routes TO app; GRANT SELECT ON routes TO claims_owner;
    INSERT INTO claims.cells (cell_id, role) VALUES (1, 'app');
    INSERT INTO routes VALUES (1, 'active', 1), (2, 'coming', 2);
    INSERT INTO claims.cells_outstanding_leases (uuid, cell_id) VALUES ('$(lease 1)', 1)" ) >/dev/null
refusal="ERROR:  extension \"claims\" is version $OLD, but its library is version $NEW HINT:  Run ALTER EXTENSION claims UPDATE in this database. "
expect 'saves fail at the service' "$(message shared "SELECT claims.begin_update(1, '[$(claim new 9)]')")" "$refusal"
expect 'and in the cell' "$(message cell1 "SELECT claims.track_lease('$(lease 5)')")" "$refusal"

# --- look -------------------------------------------------------------------------------------------------------------

for cluster in shared cell1; do
  expect "$cluster: of which version the library is, and the extension" "$(in_names $cluster "SELECT default_version, installed_version FROM pg_available_extensions WHERE name = 'claims'")" "$NEW|$OLD"
  expect "$cluster: version() is not there yet" "$(state_in_names $cluster 'SELECT * FROM claims.version()')" 42883
done

# --- act: the service first ---------------------------------------------------------------------------------------------

update="ALTER EXTENSION claims UPDATE"
open report shared postgres
tell report '\c names' >/dev/null; tell report 'BEGIN; SELECT count(*) FROM claims.claims' >/dev/null
expect 'a transaction is in its way' "$(state_in_names shared "SET lock_timeout = '300ms'; $update")" 55P03
expect 'and nothing has changed' "$(in_names shared "SELECT extversion FROM pg_extension WHERE extname = 'claims'")" "$OLD"
tell report ROLLBACK >/dev/null; close report
expect 'again' "$(state_in_names shared "$update")" 00000
in_names shared 'SELECT claims.refresh_grants()' >/dev/null
expect 'the service serves cells that are not upgraded' "$(state_in_names shared "SELECT claims.rollback_update(1, claims.begin_update(1, '[$(claim new 9)]'))" script_claims_one)" 00000
expect 'in the cell calls are still refused' "$(message cell1 "SELECT claims.track_lease('$(lease 5)')")" "$refusal"

# --- the cell: an administrator begins with pg_upgrade ------------------------------------------------------------------------------

# to_new CLUSTER: pg_upgrade to a new data directory of the same major version, which then takes the place of the old one.
to_new() {
  local dir=${CLUSTER_DIR[$1]}
  halt "$1"
  rm -rf "$place/new"
  ( use_cluster "$1"; upgrade_cluster "$CLAIMS_BINDIR" "$dir/data" "$CLAIMS_BINDIR" "$place/new" ) >"$CLAIMS_TMP/pg_upgrade" 2>&1 || return 1
  as_server cp "$dir/data/postgresql.conf" "$dir/data/pg_hba.conf" "$place/new/"
  as_server mv "$dir/data" "$place/old-$1"
  as_server mv "$place/new" "$dir/data"
}
expect 'pg_upgrade of the old extension fails' "$(to_new cell1 && echo done || grep -ohm1 'permission denied to change owner of event trigger' "$CLAIMS_TMP/pg_upgrade")" 'permission denied to change owner of event trigger'
resume cell1
expect 'the old server is as it was' "$(in_names cell1 'SELECT count(*) FROM routes') $(in_names cell1 "SELECT extversion FROM pg_extension WHERE extname = 'claims'")" "2 $OLD"
expect 'so first the extension' "$(state_in_names cell1 "$update")" 00000
in_names cell1 'SELECT claims.refresh_grants()' >/dev/null
expect 'a server of another wrapper is to be named' "$(state_in_names cell1 "SELECT claims.reconcile(1, 'service')") $(state_in_names cell1 "SELECT claims.add_service('service', 'the upgrade')")" '42501 00000'
for cluster in cell1 shared; do
  expect "$cluster: then pg_upgrade" "$(to_new $cluster && echo done || tail -20 "$CLAIMS_TMP/pg_upgrade")" done
  resume $cluster
  in_names $cluster ANALYZE
done

# --- check ------------------------------------------------------------------------------------------------------------------

for cluster in shared cell1; do
  expect "$cluster: the versions are the same" "$(in_names $cluster 'SELECT DISTINCT library = extension, extension, protocol FROM claims.version()')" "t|$NEW|$(in_names shared 'SELECT protocol FROM claims.version()')"
  expect "$cluster: check" "$(in_names $cluster 'SELECT count(*) FROM claims.check()')" 0
done
as_app_in_names() { ( use_cluster cell1; export PGUSER=app; sql names "$1" ) }
expect 'what was saved before is settled now' "$(as_app_in_names "SELECT committed, rolled_back, orphaned FROM claims.reconcile(1, 'service', '0 s')")" '1|0|0'
expect 'its name is there, and the other one is free' "$(in_names shared "SELECT string_agg(bucket_value || ' ' || status, ', ' ORDER BY bucket_value) FROM claims.records WHERE cell_id = 1")" 'active ACTIVE, coming ACTIVE'
in_names cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'customer', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic(1, 'service')" >/dev/null
expect 'verification counts nothing' "$(as_app_in_names "SELECT missing, different, extra, held_by_other FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0')")" '0|0|0|0'
as_app_in_names "INSERT INTO routes VALUES (5, 'new')"
expect 'saves go through' "$(wait_for '1|ACTIVE' in_names shared "SELECT cell_id, status FROM claims.get_record('ROUTES', 'new')")" '1|ACTIVE'
