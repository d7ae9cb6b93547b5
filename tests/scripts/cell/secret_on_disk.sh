#!/usr/bin/env bash
# The secret of a cell is a file on the disk of its server, as first steps recommend: a dump does not have it, and a copy of the database elsewhere
# can do nothing at the service. With a password in the user mapping the copy acts as the cell.
. "$(dirname "$0")/../cells.bash"
. "$(dirname "$0")/../documented.bash"

start_documented
trap cleanup EXIT
as app cell1 "INSERT INTO routes (path) VALUES ('alpha')"

# dump: cell 1's database, as its backup has it.
dump() { ( in_place cell1; pg_dumpall --roles-only -f "$CLAIMS_TMP/roles.sql"; pg_dump -Fc -f "$CLAIMS_TMP/app.dump" ) }
# restore NAME: restores the whole database by the commands of docs/operations.md, on a machine without the files of cell 1's disk.
restore() {
  start_cluster "$1" --fast -c shared_preload_libraries=claims -c claims.databases=app -c log_min_messages=panic
  without_password restart_cluster "$1"
  ( use_cluster "$1"; psql -Xq -f "$CLAIMS_TMP/roles.sql" >/dev/null 2>&1; sql "CREATE DATABASE app ENCODING 'UTF8' TEMPLATE template0"
    sql 'ALTER ROLE claims_owner SUPERUSER'; pg_restore --exit-on-error --role=claims_owner -d app "$CLAIMS_TMP/app.dump"; sql 'ALTER ROLE claims_owner NOSUPERUSER' )
}
# Other machines do not see the disk of cell 1's server.
elsewhere() { mv "$SECRETS/cell1" "$SECRETS/not-here"; }
at_home() { mv "$SECRETS/not-here" "$SECRETS/cell1"; }
at_service() { as claims_admin service "SELECT string_agg(bucket_value, ' ' ORDER BY bucket_value), (SELECT count(*) FROM claims.leases) FROM claims.records WHERE cell_id = 1"; }
# Cell 1's server does not run beside it: the worker of the copy is the only one.
sleep_at_home() { halt cell1; }
wake_at_home() { without_password restart_cluster cell1; }

# --- a file with the password -----------------------------------------------------------------------------------------------

dump
expect 'the dump has no password' "$(pg_restore -f - "$CLAIMS_TMP/app.dump" | grep -c "$CELL_PASSWORD")" 0
expect 'but where it is' "$(pg_restore -f - "$CLAIMS_TMP/app.dump" | grep -c "passfile '$SECRETS/cell1/passfile'")" 1
expect 'the directory of the database has none' "$(as_server grep -rlF "$CELL_PASSWORD" "${CLUSTER_DIR[cell1]}/data" | wc -l)" 0
sleep_at_home; elsewhere; restore copy
expect 'the copy has the row' "$(as app copy 'SELECT path FROM routes')" alpha
expect 'it cannot claim' "$(state_as app copy "INSERT INTO routes (path) VALUES ('stolen')")" 08001
expect 'nor give up' "$(state_as app copy 'DELETE FROM routes')" 08001
expect 'nor recover' "$(state_as postgres copy "SELECT * FROM claims.reconcile(1, 'claims_service')")" 08001
expect 'nor be the cell' "$(state_as postgres copy "SELECT claims.adopt_cell(1, 'claims_service', 'test')")" 08001
expect 'what it hears' "$( (in_place copy; psql -XqAt -c 'SET claims.breaker_failures = 0' -c "SELECT * FROM claims.reconcile(1, 'claims_service')" 2>&1 | grep -oE 'no password supplied|is not called at the moment' | sort -u) )" 'no password supplied'
# It began while the database was being restored, and hears of its cell when recovery is due.
expect 'its worker is refused, too' "$(wait_for t as monitor copy "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'reconcile' AND sqlstate = '08001'")" t
expect 'nothing has changed at the service' "$(at_service)" 'alpha|0'
# The copy stops first: with the file its worker could act as the cell.
stop_cluster copy; at_home; wake_at_home

# A new password: in the file, and nowhere else.
CELL_PASSWORD=new$CELL_PASSWORD
as postgres service "ALTER ROLE cell_1 PASSWORD '$CELL_PASSWORD'"
expect 'the old password does not do' "$(state_as app cell1 "INSERT INTO routes (path) VALUES ('beta')")" 08001
(cd /tmp && as_server sh -c "echo 'shared.example:${CLUSTER_PORT[shared]}:names:cell_1:$CELL_PASSWORD' >'$SECRETS/cell1/passfile'")
expect 'the new one is used as soon as it is there' "$(wait_for 00000 state_as app cell1 "INSERT INTO routes (path) VALUES ('beta')")" 00000
chmod 644 "$SECRETS/cell1/passfile"
expect 'libpq does not take a file that everybody may read' "$(state_as app cell1 "INSERT INTO routes (path) VALUES ('gamma')")" 08001
chmod 600 "$SECRETS/cell1/passfile"
expect 'who is no superuser cannot name another file' "$(state_as claims_admin cell1 "ALTER USER MAPPING FOR claims_owner SERVER claims_service OPTIONS (SET passfile '/etc/passwd')")" 42501

# --- a client certificate ---------------------------------------------------------------------------------------------------------

# hba LINE: the first one of the service.
hba() { ( cd /tmp; as_server sed -i "1i $1" "${CLUSTER_DIR[shared]}/data/pg_hba.conf"; use_cluster shared; sql 'SELECT pg_reload_conf()' >/dev/null ) }
expect 'the line of pg_hba.conf is that of the document' "$(grep -c 'hostssl names cell_1 all cert' "$CLAIMS_ROOT/docs/cell/first-steps.md")" 1
hba 'hostssl names cell_1 all cert'
expect 'the password is not asked for any more' "$(wait_for 08001 state_as app cell1 "INSERT INTO routes (path) VALUES ('gamma')")" 08001
(cd /tmp && as_server sh -c "cp -p '$SECRETS'/cell_1.crt '$SECRETS'/cell_1.key '$SECRETS/cell1/'; rm '$SECRETS/cell1/passfile'")
as postgres cell1 "ALTER USER MAPPING FOR claims_owner SERVER claims_service OPTIONS (DROP passfile, ADD sslcert '$SECRETS/cell1/cell_1.crt', ADD sslkey '$SECRETS/cell1/cell_1.key')"
expect 'a certificate is' "$(wait_for 00000 state_as app cell1 "INSERT INTO routes (path) VALUES ('gamma')")" 00000
dump
expect 'the dump has no key' "$(pg_restore -f - "$CLAIMS_TMP/app.dump" | grep -c 'PRIVATE KEY')" 0
sleep_at_home; elsewhere; restore copy2
expect 'nor can a copy do anything' "$(state_as app copy2 "INSERT INTO routes (path) VALUES ('stolen')") $(at_service)" '08001 alpha beta gamma|0'
stop_cluster copy2; at_home; wake_at_home

# --- the contrast: a password in the database ---------------------------------------------------------------------------------------

( cd /tmp; as_server sed -i 1d "${CLUSTER_DIR[shared]}/data/pg_hba.conf"; use_cluster shared; sql 'SELECT pg_reload_conf()' >/dev/null )
as postgres cell1 "ALTER USER MAPPING FOR claims_owner SERVER claims_service OPTIONS (DROP sslcert, DROP sslkey, DROP password_required, ADD password '$CELL_PASSWORD')"
expect 'the cell goes on with it' "$(wait_for 00000 state_as app cell1 "INSERT INTO routes (path) VALUES ('delta')")" 00000
dump
expect 'the dump has it' "$(pg_restore -f - "$CLAIMS_TMP/app.dump" | grep -c "$CELL_PASSWORD")" 1
sleep_at_home; elsewhere; restore copy3
# The original was stopped, and is not waited for longer than 30 seconds.
expect 'the copy takes over' "$(wait_for 00000 state_as app copy3 "SELECT * FROM claims.reconcile(1, 'claims_service')")" 00000
expect 'the copy acts as the cell' "$(state_as app copy3 "INSERT INTO routes (path) VALUES ('stolen')")" 00000
expect 'and has taken a name' "$(at_service)" 'alpha beta delta gamma stolen|0'
