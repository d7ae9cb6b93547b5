#!/usr/bin/env bash
# docs/cell/first-steps.md as it stands: its commands make a service and two cells that work, over TLS, with the secret on the cell's disk.
# No role is a superuser without need. At the end the extension is removed by the commands of docs/operations.md.
. "$(dirname "$0")/../documented.bash"

start_documented
trap cleanup EXIT
# On a busy machine the service may answer later than in a quarter of a second, the default.
for where in cell1 cell2; do as postgres "$where" "ALTER ROLE ALL SET claims.service_timeout = '20s'" >/dev/null; done
saves() { state_as app "$1" "INSERT INTO routes (path) VALUES ('$2')"; }
owner() { as claims_admin service "SELECT cell_id FROM claims.get_record('ROUTES', '$1')"; }

# --- it works -----------------------------------------------------------------------------------------------------------

expect 'a save' "$(saves cell1 gitlab-org)" 00000
expect 'claims its name' "$(owner gitlab-org)" 1
expect 'which the other cell cannot have' "$(saves cell2 gitlab-org)" 23505
expect 'but another one' "$(saves cell2 elsewhere) $(owner elsewhere)" '00000 2'
# A session keeps its connection after a save.
( in_place cell1; PGUSER=app psql -Xq <<<"INSERT INTO routes (path) VALUES ('over-tls'); SELECT pg_sleep(60);" >/dev/null 2>&1 ) &
expect 'over TLS' "$(wait_for t as claims_admin service "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename LIKE 'cell%'")" t
as postgres cell1 "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()" >/dev/null
wait $! || true
expect 'the worker attends to the cell' "$(wait_for t as monitor cell1 "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'reconcile' AND sqlstate IS NULL")" t
expect 'and purges at the service' "$(wait_for t as monitor service "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'purge' AND sqlstate IS NULL")" t
for where in service cell1; do
  expect "the owner of the extension is no superuser, and nobody logs in as it ($where)" "$(as postgres "$where" "SELECT rolsuper, rolcanlogin FROM pg_roles r JOIN pg_namespace n ON n.nspowner = r.oid WHERE nspname = 'claims'")" 'f|f'
  expect "the administrator is none either, and may administer ($where)" "$(as claims_admin "$where" "SELECT current_setting('is_superuser'), count(*) FROM claims.list_leases(NULL)")" 'off|0'
  expect "he who watches watches ($where)" "$(as monitor "$where" 'SELECT count(*) > 10 FROM claims.metrics()') $(state_as monitor "$where" 'SELECT claims.list_leases(NULL)')" 't 42501'
done
expect 'the application sees no options of the way to the service' "$(as app cell1 'SELECT umoptions IS NULL FROM pg_user_mappings')" t
expect 'and has no right on it' "$(state_as app cell1 "CREATE USER MAPPING FOR app SERVER claims_service OPTIONS (user 'cell_1', password 'x')")" 42501
expect 'check()' "$(as monitor service 'SELECT count(*) FROM claims.check()') $(as monitor cell1 'SELECT count(*) FROM claims.check()')" '0 0'

# --- without preloading: what a scheduler calls ------------------------------------------------------------------------------

called=$(grep -oE '\$\$SELECT [^$]*\$\$' "$CLAIMS_ROOT/docs/cell/first-steps.md" | sed 's/\$\$//g'; sed -nE 's/^ExecStart=.* -c "(.*)"$/\1/p' "$CLAIMS_ROOT/docs/cell/first-steps.md")
expect 'four commands of schedulers' "$(grep -c . <<<"$called")" 4
while IFS= read -r command; do
  case $command in
    *purge_outcomes*) expect "at the service: $command" "$(state_as claims_admin service "$command")" 00000 ;;
    *) expect "as the application: $command" "$(state_as app cell1 "$command")" 00000 ;;
  esac
done <<<"$called"

# --- an application that calls by itself ----------------------------------------------------------------------------------------

as_cell_1() { ( in_place service; PGHOST=127.0.0.1 PGUSER=cell_1 PGPASSWORD=$CELL_PASSWORD sql "$1" ) }
as app cell1 'SELECT claims.automatic(NULL, NULL)' >/dev/null
as_cell_1 "SELECT claims.begin_update(1, '[$(claim by-hand 9)]', lease_uuid => '$(lease 9)')" >/dev/null
as app cell1 "BEGIN; INSERT INTO routes (id, namespace_id, path) VALUES (9, 9, 'by-hand'); SELECT claims.track_lease('$(lease 9)'); COMMIT" >/dev/null
# The worker may be faster with the last two.
as_cell_1 "SELECT claims.commit_update(1, '$(lease 9)')" >/dev/null
as app cell1 "SELECT claims.forget_leases(ARRAY['$(lease 9)'::uuid])" >/dev/null
expect 'by hand' "$(as_cell_1 "SELECT claims.lease_outcome(1, '$(lease 9)')") $(owner by-hand) $(as app cell1 'SELECT count(*) FROM claims.orphans(1)')" 'committed 1 0'

# --- the end of it: docs/operations.md, Removing the extension ---------------------------------------------------------------------

expect 'in a cell it needs CASCADE' "$(state_as postgres cell1 'DROP EXTENSION claims')" 2BP01
steps docs/operations.md 'Removing the extension' | filled_in 1 >"$CLAIMS_TMP/removing.sql"
expect 'without it, step by step' "$( (in_place cell1; psql -XqAt -v ON_ERROR_STOP=1 -f "$CLAIMS_TMP/removing.sql" 2>&1 | grep -E 'ERROR|cascades' | sed 's/^[^ ]* //') )" 'NOTICE:  drop cascades to user mapping for claims_owner on server claims_service'
expect 'nothing is left' "$(as postgres cell1 "SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = 'claims'), (SELECT count(*) FROM pg_event_trigger), (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal), (SELECT count(*) FROM pg_foreign_server)")" '0|0|0|0'
expect 'and the application goes on' "$(saves cell1 unclaimed)" 00000
expect 'no lease was left behind' "$(as monitor service 'SELECT count(*) FROM claims.leases')" 0
expect 'at the service it needs none' "$(state_as postgres service 'DROP EXTENSION claims')" 00000
