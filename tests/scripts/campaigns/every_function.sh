#!/usr/bin/env bash
# Every function of the extension, found in the catalog, is called as every kind of role, with NULLs and odd arguments, at the service and in a cell:
# a role without a right succeeds only in calls that every_function/allowed.txt lists with a reason; no call is an internal error or waits; no process
# dies. Each call is rolled back. CAMPAIGN_SECONDS: how long random combinations are tried after the systematic ones.
# test: long
. "$(dirname "$0")/../common.bash"

here=$CLAIMS_ROOT/tests/scripts/campaigns/every_function
start_cluster every --fast -c shared_preload_libraries=claims -c claims.change_feed=on -c log_min_messages=log
password=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')

# A role of each kind. The extension's owner is no superuser, as the guide has it.
sql "CREATE ROLE every_owner LOGIN SUPERUSER; CREATE ROLE every_admin LOGIN IN ROLE every_owner;
     CREATE ROLE every_superuser LOGIN SUPERUSER; CREATE ROLE every_nobody LOGIN; CREATE ROLE every_table_owner LOGIN;
     CREATE ROLE every_one LOGIN PASSWORD '$password'; CREATE ROLE every_two LOGIN;
     CREATE ROLE every_reader LOGIN; CREATE ROLE every_monitor LOGIN; CREATE ROLE every_worker LOGIN;
     -- members that inherit nothing
     CREATE ROLE every_noinherit LOGIN NOINHERIT; GRANT every_one, every_owner TO every_noinherit;
     -- a cell's role that owns tables, too
     CREATE ROLE every_member LOGIN IN ROLE every_one, every_table_owner"
for database in service cell; do
  sql "CREATE DATABASE every_$database ENCODING 'UTF8' TEMPLATE template0"
  sql "every_$database" 'SET ROLE every_owner; CREATE EXTENSION claims'
done
sql 'ALTER ROLE every_owner NOSUPERUSER; GRANT pg_read_all_stats TO every_owner'
for database in service cell; do
  psql -XqAt -v ON_ERROR_STOP=1 -v service_port="$PGPORT" -v service_password="$password" -d "every_$database" -f "$here/setup_$database.sql" >/dev/null
done

python3 -B "$here/campaign.py" "$here/allowed.txt" "$CLAIMS_TMP" "${CAMPAIGN_SECONDS:-5}"

# The campaign detects faults: it also finds new functions of the extension in the catalog.
# planted WHAT AUDIENCE BODY
planted() {
  sql every_service "CREATE FUNCTION claims.planted(n bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN $3; END'; ALTER EXTENSION claims ADD FUNCTION claims.planted(bigint);
                     REVOKE EXECUTE ON FUNCTION claims.planted(bigint) FROM PUBLIC; GRANT EXECUTE ON FUNCTION claims.planted(bigint) TO $2"
  EVERY_ONLY=planted EVERY_STATEMENT_TIMEOUT=300ms python3 -B "$here/campaign.py" "$here/allowed.txt" "$CLAIMS_TMP" 0 >"$CLAIMS_TMP/planted" || true
  sql every_service 'ALTER EXTENSION claims DROP FUNCTION claims.planted(bigint); DROP FUNCTION claims.planted(bigint)'
  expect "planted: $1" "$(grep -c "FAILED: $1: planted as .* in service" "$CLAIMS_TMP/planted")" "$4"
}
planted 'it succeeds, and is not in the list' every_reader 'NULL' 1
planted 'an internal error' every_reader 'IF n = 77 THEN RAISE internal_error; END IF' 2
planted 'it waits' every_reader 'IF n < -77 THEN PERFORM pg_sleep(10); END IF' 2
planted 'the connection was lost' every_superuser 'IF n = 3 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF' 1
expect 'no process has died' "$(cluster_log every | grep -acE 'PANIC|TRAP:|terminated by signal' || true)" 0
for database in service cell; do
  expect "every_$database: what is always true is true" "$(sql "every_$database" 'SELECT count(*) FROM claims.check()')" 0
done
