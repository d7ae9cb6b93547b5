#!/usr/bin/env bash
# Only a server that its owner has named is called as a service: a cell's role cannot use another server of an administrator, nor an administrator of
# claims a server of another role.
. "$(dirname "$0")/../common.bash"

for role in script_claims_named script_claims_admin script_claims_app script_claims_loader; do
  sql "DROP ROLE IF EXISTS $role" 2>/dev/null || true
  sql "DO \$\$ BEGIN IF to_regrole('$role') IS NULL THEN CREATE ROLE $role LOGIN; END IF; END \$\$"
done
sql "ALTER ROLE script_claims_loader PASSWORD '$PGPASSWORD'; GRANT script_claims_named TO script_claims_admin"

# A database to which an administrator has made a server for another purpose. It could answer as a service does.
sql 'DROP DATABASE IF EXISTS script_warehouse' 2>/dev/null
sql "CREATE DATABASE script_warehouse ENCODING 'UTF8' TEMPLATE template0"
sql script_warehouse "CREATE EXTENSION claims; SELECT claims.register_cell(9, 'script_claims_loader')" >/dev/null
# Leases that were begun there; a call that decides something leaves an epoch.
called() { sql script_warehouse "SELECT (SELECT count(*) FROM claims.claim_leases) + (SELECT count(*) FROM claims.lease_outcomes) + (SELECT count(*) FROM claims.cell_epochs)"; }
# Those of one save.
called_by() { local before; before=$(called); "$@"; printf ' %s\n' "$(($(called) > before))"; }

# cell OWNER: a cell whose extension belongs to OWNER, with a server of postgres's that leads to that database, and one of its own.
cell() {
  sql postgres 'DROP DATABASE IF EXISTS script_named' 2>/dev/null
  sql postgres "CREATE DATABASE script_named ENCODING 'UTF8' TEMPLATE template0"
  sql postgres "ALTER DATABASE script_named SET claims.service_timeout = '20s'"
  export PGDATABASE=script_named
  sql "ALTER ROLE script_claims_named SUPERUSER; SET ROLE $1; CREATE EXTENSION claims; RESET ROLE; ALTER ROLE script_claims_named NOSUPERUSER"
  sql "
    CREATE EXTENSION postgres_fdw; CREATE EXTENSION dblink;
    SELECT claims.register_cell(9, 'script_claims_app');
    CREATE SERVER warehouse FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '$PGPORT', dbname 'script_warehouse');
    GRANT USAGE ON FOREIGN SERVER warehouse TO script_claims_named;
    CREATE USER MAPPING FOR $1 SERVER warehouse OPTIONS (user 'script_claims_loader', password '$PGPASSWORD');
    GRANT USAGE ON FOREIGN DATA WRAPPER claims_service, postgres_fdw, dblink_fdw TO script_claims_named;
    CREATE TABLE names (id bigint PRIMARY KEY, name text UNIQUE); GRANT ALL ON names TO PUBLIC;
    SELECT claims.claim_attribute('names', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES')" >/dev/null
}
as() { PGUSER=$1 sqlstate "$2"; }
save="BEGIN; INSERT INTO names VALUES (1, 'ada'); SELECT claims.begin_pending(9, 'warehouse'); ROLLBACK"
lease="'00000000-0000-4000-8000-000000000001'"

attack() {
  expect "$1: begin_pending" "$(as script_claims_app "$save")" 42501
  expect "$1: finish" "$(as script_claims_app "SELECT claims.finish(9, 'warehouse', $lease)")" 42501
  expect "$1: reconcile" "$(as script_claims_app "SELECT claims.reconcile(9, 'warehouse')")" 42501
  expect "$1: explain_lease" "$(as script_claims_app "SELECT claims.explain_lease(9, 'warehouse', $lease)")" 42501
  expect "$1: verify" "$(as script_claims_app "SELECT claims.verify(9, 'warehouse', 'RAILS_TABLE_ROUTES')")" 42501
  expect "$1: list_discrepancies" "$(as script_claims_app "SELECT claims.list_discrepancies(9, 'warehouse', 'RAILS_TABLE_ROUTES')")" 42501
  expect "$1: it names the server itself" "$(as script_claims_app "SELECT claims.add_service('warehouse', 'x')")" 42501
  expect "$1: attend" "$(as script_claims_app "SELECT claims.attend(9, 'warehouse')")" 42501
  expect "$1: automatic" "$(as script_claims_app "SELECT claims.automatic(9, 'warehouse')")" 42501
  expect "$1: nothing was called" "$(called)" 0
}
message() { psql -XqAt -c "$1" 2>&1 | sed 's/^ERROR:  //'; }

# --- a cell's role ----------------------------------------------------------------------------------------------------

cell postgres
attack "the owner's mapping"
expect 'what is told' "$(PGUSER=script_claims_app message "SELECT claims.attend(9, 'warehouse')")" "permission denied: foreign server is not named as a service of claims
DETAIL:  Server \"warehouse\" is of the foreign-data wrapper postgres_fdw, whose servers exist for other purposes, too.
HINT:  Have the server's owner, as an administrator of claims, or a superuser call claims.add_service(), or make a server of the wrapper claims_service."
expect 'not the superuser either' "$(sqlstate "$save")" 42501

sql "SELECT claims.add_service('warehouse', 'it keeps claims now')"
expect 'once it is named it is called' "$(called_by as script_claims_app "$save" | tr -d '\n')" '00000 1'
expect 'both logs have it' "$(sql "SELECT action, arguments, reason FROM claims.admin_log WHERE action = 'add_service'"; sql 'SELECT server_name, reason, role FROM claims.named_services')" \
  'add_service|{"server_name": "warehouse"}|it keeps claims now
warehouse|it keeps claims now|postgres'

# A session that has a connection loses it with the name.
kept=$(PGUSER=script_claims_app psql -XqAt -v VERBOSITY=sqlstate 2>&1 <<EOS
$save;
\! PGUSER=postgres psql -XqAt -c "SELECT claims.remove_service('warehouse', 'no more')"
$save;
EOS
)
expect 'it is removed' "$(grep -o 'ERROR.*' <<<"$kept")" 'ERROR:  42501'
expect 'a name that was rolled back is none' "$(psql -XqAt -v VERBOSITY=sqlstate 2>&1 <<EOS | grep -o 'ERROR.*'
BEGIN; SELECT claims.add_service('warehouse', 'x'); INSERT INTO names VALUES (1, 'ada'); SELECT claims.begin_pending(9, 'warehouse') \gset
ROLLBACK;
$save;
EOS
)" 'ERROR:  42501'
expect 'what is not named cannot be removed' "$(sqlstate "SELECT claims.remove_service('warehouse', 'x')")" 42704

# --- an administrator of claims who is no superuser --------------------------------------------------------------------

cell script_claims_named
sql script_warehouse 'DELETE FROM claims.claim_leases; DELETE FROM claims.claims; DELETE FROM claims.lease_outcomes; DELETE FROM claims.cell_epochs'
attack 'an owner without superuser'
for call in "add_service('warehouse', 'x')" "attend(9, 'warehouse')" "automatic(9, 'warehouse')"; do
  expect "somebody else's server: $call" "$(as script_claims_admin "SELECT claims.$call")" 42501
done
expect 'what is told' "$(PGUSER=script_claims_admin message "SELECT claims.attend(9, 'warehouse')")" "permission denied: only the owner of a foreign server may name it as a service of claims
DETAIL:  Server \"warehouse\" belongs to role \"postgres\", whose privileges role \"script_claims_admin\" does not have.
HINT:  Have the server's owner, as an administrator of claims, or a superuser call claims.add_service()."
expect 'nothing was called' "$(called)" 0
expect 'nothing was named' "$(sql 'SELECT count(*) FROM claims.named_services')" 0

for wrapper in postgres_fdw dblink_fdw; do
  PGUSER=script_claims_admin sql "
    CREATE SERVER his_own FOREIGN DATA WRAPPER $wrapper OPTIONS (host '127.0.0.1', port '$PGPORT', dbname 'script_warehouse'); GRANT USAGE ON FOREIGN SERVER his_own TO script_claims_named;
    CREATE USER MAPPING FOR script_claims_named SERVER his_own OPTIONS (user 'script_claims_loader', password '$PGPASSWORD')"
  expect "$wrapper: his own server is no service by being made" "$(as script_claims_app "SELECT claims.attend(9, 'his_own')")" 42501
  expect "$wrapper: he names it by using it" "$(as script_claims_admin "SELECT claims.automatic(9, 'his_own')")" 00000
  expect "$wrapper: which is an act" "$(sql "SELECT role, action, arguments, reason IS NULL FROM claims.admin_log ORDER BY id DESC LIMIT 1")" \
    'script_claims_admin|add_service|{"server_name": "his_own"}|t'
  expect "$wrapper: now the cell may, too" "$(as script_claims_app "SELECT claims.attend(9, 'his_own')") $(as script_claims_app "SELECT claims.automatic(9, 'his_own')")" '00000 00000'
  expect "$wrapper: it is in use" "$(PGUSER=script_claims_admin message "SELECT claims.remove_service('his_own', 'x')" | head -2)" "foreign server \"his_own\" is in use as a service
DETAIL:  It is called by automatic mode, the worker for cell 9."
  expect "$wrapper: it is used no more" "$(as script_claims_app "SELECT claims.automatic(NULL, NULL); SELECT claims.attend(9, NULL)")" 00000
  expect "$wrapper: the cell alone can use it again" "$(as script_claims_app "SELECT claims.attend(9, 'his_own'); SELECT claims.attend(9, NULL)")" 00000
  # A server that gets the name later is another one, whoever makes it.
  PGUSER=script_claims_admin sql 'DROP SERVER his_own CASCADE' 2>/dev/null
  expect "$wrapper: with the server its name goes" "$(sql 'SELECT count(*) FROM claims.named_services')" 0
done

sql "SELECT claims.add_service('warehouse', 'it keeps claims now'); ALTER SERVER warehouse RENAME TO depot"
expect 'a server is named by its name' "$(sqlstate "SELECT claims.attend(9, 'depot')") $(sqlstate "SELECT claims.attend(9, 'warehouse')")" '00000 42704'
expect 'the old name is told' "$(sql 'SELECT problem, detail FROM claims.check()')" 'named service does not exist|There is no foreign server "warehouse".'
sql "SELECT claims.remove_service('warehouse', 'renamed'); ALTER SERVER depot RENAME TO warehouse; SELECT claims.attend(9, NULL); SELECT claims.remove_service('depot', 'renamed back')"
expect 'nothing is told' "$(sql 'SELECT count(*) FROM claims.check()')" 0

# --- servers of the wrapper of this extension --------------------------------------------------------------------------

PGUSER=script_claims_admin sql "CREATE SERVER own FOREIGN DATA WRAPPER claims_service OPTIONS (host '127.0.0.1', port '$PGPORT', dbname 'script_warehouse'); GRANT USAGE ON FOREIGN SERVER own TO script_claims_named"
expect 'they are services by being made' "$(as script_claims_app "SELECT claims.attend(9, 'own')")" 00000
expect 'nothing needs to be said' "$(PGUSER=script_claims_admin message "SELECT claims.add_service('own', 'x')" | head -2)" 'NOTICE:  foreign server "own" is a service of claims already
DETAIL:  Its foreign-data wrapper is claims_service.'
expect 'nothing is noted' "$(sql 'SELECT count(*) FROM claims.named_services')" 0
expect 'there is no name to be removed' "$(sqlstate "SELECT claims.attend(9, NULL); SELECT claims.remove_service('own', 'x')")" 42704

# --- arguments ----------------------------------------------------------------------------------------------------------

for call in "add_service(NULL, 'x')" "add_service('warehouse', NULL)" "add_service('warehouse', ' ')" "remove_service(NULL, 'x')" "remove_service('warehouse', '')"; do
  expect "$call" "$(sqlstate "SELECT claims.$call")" 22023
done
expect 'a server that is not there' "$(sqlstate "SELECT claims.add_service('nothing', 'x')")" 42704
sql 'CREATE FOREIGN DATA WRAPPER other; CREATE SERVER other FOREIGN DATA WRAPPER other'
expect 'one that leads to no PostgreSQL' "$(sqlstate "SELECT claims.add_service('other', 'x')")" 42704

# --- a dump -------------------------------------------------------------------------------------------------------------

cell postgres
sql "SELECT claims.add_service('warehouse', 'it keeps claims now')"
pg_dump -Fc script_named >"$CLAIMS_TMP/named.dump"
sql postgres 'DROP DATABASE IF EXISTS script_named_again' 2>/dev/null
sql postgres "CREATE DATABASE script_named_again ENCODING 'UTF8' TEMPLATE template0"
pg_restore -d script_named_again "$CLAIMS_TMP/named.dump"
sql postgres "ALTER DATABASE script_named_again SET claims.service_timeout = '20s'"
export PGDATABASE=script_named_again
expect 'a dump has the names' "$(sql 'SELECT server_name, reason FROM claims.named_services')" 'warehouse|it keeps claims now'
expect 'the service is called' "$(called_by as script_claims_app "$save" | tr -d '\n')" '00000 1'
sql 'DROP TABLE names; DROP SERVER warehouse CASCADE' 2>/dev/null
expect 'a server that is dropped there is forgotten, too' "$(sql 'SELECT count(*) FROM claims.named_services')" 0
expect 'and nothing of it is left' "$(sql "SELECT count(*) FROM pg_event_trigger")" 0
