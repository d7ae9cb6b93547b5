#!/usr/bin/env bash
# claims.auto_update: the server is restarted with the new library while clients save and call, and the worker updates the extension. No save and
# no call fails, and no table is written anew: how long they wait does not depend on sizes. Then what stands in the way of the update: a lock, a
# failure, a crash, a standby.
. "$(dirname "$0")/upgrade.bash"
. "$(dirname "$0")/../cells.bash"

CELLS_PASSWORD=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
trap 'touch "$CLAIMS_TMP/stop"; for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup' EXIT
configure() { (cd /tmp && as_server sh -c "cat >> '${CLUSTER_DIR[$1]}/data/postgresql.conf'"); }
version_at() { at "$1" "SELECT extversion FROM pg_extension WHERE extname = 'claims'"; }
settings="shared_preload_libraries = 'claims'
claims.databases = 'postgres, other'
claims.verify_interval = '1s'
claims.auto_update = on"

# --- a service and a cell of release OLD, and its library's successor ---------------------------------------------------

# make_service: with one registered cell and a claim.
make_service() {
  at "$1" "CREATE EXTENSION claims VERSION '$OLD'; CREATE ROLE cell1 LOGIN PASSWORD '$CELLS_PASSWORD'; INSERT INTO claims.cells (cell_id, role) VALUES (1, 'cell1');
    ALTER ROLE cell1 SET claims.service_timeout = '60s'"
  at "$1" "GRANT USAGE ON SCHEMA claims TO cell1; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA claims TO cell1;
    INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status) VALUES (1, 'active', 2, '1', 3, '1', 1, 1)"
}
# make_cell CLUSTER: saves of routes.name claim it in automatic mode.
make_cell() {
  at "$1" "CREATE EXTENSION claims VERSION '$OLD'; CREATE EXTENSION dblink; CREATE ROLE app LOGIN;
    CREATE SERVER service FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '127.0.0.1', port '${CLUSTER_PORT[shared]}', dbname 'postgres');
    CREATE USER MAPPING FOR postgres SERVER service OPTIONS (user 'cell1', password '$CELLS_PASSWORD');
    CREATE TABLE routes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE);
    GRANT SELECT, INSERT, UPDATE, DELETE ON routes TO app;
    INSERT INTO claims.cells (cell_id, role) VALUES (1, 'app');
    INSERT INTO claims.claimed_attributes VALUES ('public.routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id');
    INSERT INTO claims.named_services (server_name, role) VALUES ('service', 'postgres'); INSERT INTO claims.automatic_service VALUES (true, 1, 'service'); INSERT INTO claims.attended_cells VALUES (1, 'service');
    CREATE TRIGGER claims_capture AFTER INSERT OR DELETE OR UPDATE ON routes FOR EACH ROW EXECUTE FUNCTION claims.capture_row();
    CREATE TRIGGER claims_truncate BEFORE TRUNCATE ON routes FOR EACH STATEMENT EXECUTE FUNCTION claims.refuse_truncate();
    CREATE EVENT TRIGGER claims_complete_triggers ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'CREATE SCHEMA', 'ALTER TABLE') EXECUTE FUNCTION claims.complete_triggers(); CREATE EVENT TRIGGER claims_forget_dropped_tables ON sql_drop EXECUTE FUNCTION claims.forget_dropped_tables()"
}
start_cluster shared --fast -c synchronous_commit=on
make_service shared
start_cluster cell1 --fast -c synchronous_commit=on
make_cell cell1
# The cell waits longer for the service than this test is about.
at cell1 "ALTER DATABASE postgres SET claims.service_timeout = '20s'"
state="SELECT claims.begin_update(1, '[$(claim early)]')"
expect 'before, calls and saves fail' "$(state_as_cell 1 "$state") $(state_as_app 1 "INSERT INTO routes (name) VALUES ('early')")" '55000 55000'

# --- clients that call and save while the server is restarted --------------------------------------------------------------

# client NAME STATEMENT: repeats a statement, in which % is a number, each in a session of its own, until the file `stop` is there. Records how
# each ended that a server has answered. Those that find no server are repeated.
client() {
  local n=0 got
  while [ ! -e "$CLAIMS_TMP/stop" ]; do
    got=$(psql -XqAt -v VERBOSITY=verbose -c "${2//\%/$n}" 2>&1 >/dev/null) || true
    case $got in
      '') echo 00000 ;;
      *'could not connect'* | *'connection to server'* | *'starting up'* | *'server closed the connection'* | *'terminating connection'*) continue ;;
      *) printf '%s\n' "$got" ;;
    esac
    n=$((n + 1))
  done >"$CLAIMS_TMP/client.$1"
}
# files CLUSTER: the tables of the extension and of the application, and the indexes of those that grow, each with the file that it is in.
# rewritten CLUSTER: those that were in another file before, or are gone.
files() {
  at "$1" "SELECT c.relname, pg_relation_filenode(c.oid) FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
            WHERE c.relnamespace IN ('claims'::regnamespace, 'public'::regnamespace) AND c.relkind IN ('r', 'i')
              AND coalesce(i.indrelid::regclass::text, '') <> ALL (ARRAY['claims.attended_cells', 'claims.claimed_attributes', 'claims.own_epochs',
                                                                         'claims.verification_positions'])" | LC_ALL=C sort
}
rewritten() { LC_ALL=C comm -23 "$CLAIMS_TMP/files" <(files "$1") | cut -d'|' -f 1 | tr '\n' ' '; }
# over_restart CLUSTER: the clients begin while the server is down, and end after each has had answers of the updated extension.
over_restart() {
  local name clients=()
  rm -f "$CLAIMS_TMP/stop" "$CLAIMS_TMP"/client.*
  files "$1" >"$CLAIMS_TMP/files"
  halt "$1"
  configure "$1" <<<"$settings"
  for name in "${!CLIENTS[@]}"; do
    ( leave_sessions; use_cluster "$1"; export PGUSER=$2; client "$name" "${CLIENTS[$name]}" ) & clients+=($!)
  done
  resume "$1"
  expect "$1: the worker updates the extension" "$(wait_for "$NEW" version_at "$1")" "$NEW"
  for name in "${!CLIENTS[@]}"; do
    # shellcheck disable=SC2016
    wait_until eval '[ "$(grep -c 00000 "$CLAIMS_TMP/client.$name")" -ge 10 ]'
  done
  touch "$CLAIMS_TMP/stop"
  wait "${clients[@]}"
  expect "$1: no table is written anew, and no index" "$(rewritten "$1")" "${REWRITTEN:-}"
  for name in "${!CLIENTS[@]}"; do
    expect "$1: of $name none failed" "$(grep -v '^00000$' "$CLAIMS_TMP/client.$name" | sort | uniq -c | head -5)" ''
  done
}
declare -A CLIENTS=(
  [begin]="SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim 'b-%')]'))"
  [text]="SELECT claims.commit_update(1, claims.begin_update_text(1, '[$(claim 't-%')]', '[]'))"
  [try]="SELECT claims.commit_update(1, t.lease_uuid) FROM claims.try_begin_update(1, '[$(claim 'y-%')]') t"
  [first]="SELECT claims.commit_update(1, f.lease_uuid) FROM claims.begin_first(1, '[{\"create_records\": [$(claim 'f-%')]}]') f"
  [read]="DO \$\$ BEGIN IF NOT EXISTS (SELECT FROM claims.get_record('ROUTES', 'active')) THEN RAISE 'nothing found'; END IF; END \$\$"
  [reads]="SELECT 1 / count(*) FROM claims.get_records('[{\"type\": \"ROUTES\", \"value\": \"active\"}]')")
over_restart shared cell1
expect 'each call has its claim' "$(at shared "SELECT count(*) FROM claims.records WHERE bucket_value ~ '^[btyf]-' AND status = 'ACTIVE'")" "$(cat "$CLAIMS_TMP"/client.{begin,text,try,first} | wc -l)"
declare -A CLIENTS=([save1]="INSERT INTO routes (name) VALUES ('one-%')" [save2]="BEGIN; INSERT INTO routes (name) VALUES ('two-%'); UPDATE routes SET name = 'three-%' WHERE name = 'two-%'; COMMIT")
over_restart cell1 app
expect 'each save has its claim' "$(wait_for "$(at cell1 "SELECT string_agg(name, ' ' ORDER BY name COLLATE \"C\") FROM routes")" \
  at shared "SELECT string_agg(bucket_value, ' ' ORDER BY bucket_value) FROM claims.records WHERE bucket_value ~ '^(one|two|three)-' AND status = 'ACTIVE'")" "$(at cell1 "SELECT string_agg(name, ' ' ORDER BY name COLLATE \"C\") FROM routes")"
for cluster in shared cell1; do
  expect "$cluster: check" "$(at $cluster "SELECT c::text FROM claims.check() c")" ""
  expect "$cluster: the pass" "$(at $cluster "SELECT count(*), count(sqlstate) FROM claims.passes WHERE kind = 'update'")" '1|0'
  expect "$cluster: the metric" "$(at $cluster "SELECT value FROM claims.metrics() WHERE name = 'claims_pass_failed' AND labels ->> 'kind' = 'update'")" 0
done

# From the first release, over two scripts. The first one changes the order of the columns of the index on buckets.
last=$OLD OLD=1.0.0 REWRITTEN='claims_bucket '
start_cluster first --fast -c synchronous_commit=on
make_service first
unset 'CLIENTS[save1]' 'CLIENTS[save2]'
CLIENTS[begin]="SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim 'b-%')]'))"
CLIENTS[try]="SELECT claims.commit_update(1, t.lease_uuid) FROM claims.try_begin_update(1, '[$(claim 'y-%')]') t"
CLIENTS[read]="DO \$\$ BEGIN IF NOT EXISTS (SELECT FROM claims.get_record('ROUTES', 'active')) THEN RAISE 'nothing found'; END IF; END \$\$"
CLIENTS[reads]="SELECT 1 / count(*) FROM claims.get_records('[{\"type\": \"ROUTES\", \"value\": \"active\"}]')"
over_restart first cell1
stop_cluster first
OLD=$last REWRITTEN=

# --- what stands in the way ---------------------------------------------------------------------------------------------------

start_cluster late --fast -c synchronous_commit=on
make_service late
configure late <<<"$settings"
late() { at late "$1"; }
late "ALTER ROLE cell1 SET claims.service_timeout = '600s'"
read="SELECT bucket_value FROM claims.get_record('ROUTES', 'active')"
# waiting: how many calls of the cell wait for the update.
waiting() { late "SELECT count(*) FROM pg_stat_activity WHERE usename = 'cell1' AND state = 'active' AND wait_event = 'Extension'"; }
as_late_cell() { ( use_cluster late; export PGUSER=cell1; sqlstate "$1" ); }
# in_the_way: a transaction that survives restarts, and reads the table of claims.
in_the_way() { late "BEGIN; LOCK TABLE claims.claims IN ACCESS SHARE MODE; PREPARE TRANSACTION 'open'"; }

in_the_way
restart_cluster late
open plain late cell1; open repeatable late cell1
send plain "$read"; plain=$SESSION_MARK
send repeatable "SET default_transaction_isolation = 'repeatable read'; $read"; repeatable=$SESSION_MARK
expect 'calls wait for the update, and the update for a transaction' "$(wait_for 2 waiting) $(version_at late)" "2 $OLD"
expect 'a timeout of the statement ends the wait' "$(PGOPTIONS='-c statement_timeout=200ms' as_late_cell "$read")" 57014
expect 'a transaction that is itself in the way of the update does not wait' \
  "$(state_at late "SET claims.service_timeout = '600s'; BEGIN; SELECT count(*) FROM claims.claims; $read")" 55000
expect 'others read the table meanwhile' "$(state_at late "SET lock_timeout = '5s'; SELECT count(*) FROM claims.claims")" 00000
late "COMMIT PREPARED 'open'"
SESSION_MARK=$plain
expect 'when that transaction has ended, so has the wait' "$(answer plain)" active
SESSION_MARK=$repeatable
expect 'but a snapshot from before the update is not used' "$(answer repeatable | grep -o 40001)" 40001
expect 'the extension has the version of the library' "$(version_at late)" "$NEW"
close plain; close repeatable

# again: the database is of release OLD again, and no worker has seen it. The next start has one.
workers() { late "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'claims %' AND datname = 'postgres'"; }
again() {
  configure late <<<"claims.databases = ''"
  late 'SELECT pg_reload_conf()' >/dev/null
  wait_for 0 workers >/dev/null
  late 'DROP EXTENSION claims'
  late "DROP OWNED BY cell1; DROP ROLE cell1"
  make_service late
  late "ALTER ROLE cell1 SET claims.service_timeout = '600s'"
  configure late <<<"claims.databases = 'postgres, other'"
}
again
in_the_way
restart_cluster late
crash late
resume late
expect 'a lock that is not to be had is reported' "$(wait_for 55P03 late "SELECT DISTINCT sqlstate FROM claims.passes WHERE kind = 'update'")" 55P03
expect 'from then on calls fail at once' "$(as_late_cell "$read")" 55000
expect 'nothing has changed, over a crash' "$(version_at late)" "$OLD"
late "COMMIT PREPARED 'open'"
expect 'the worker goes on trying' "$(wait_for "$NEW" version_at late)" "$NEW"
expect 'calls work again' "$(wait_for 00000 as_late_cell "$read")" 00000

again
late "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE 'not today' USING ERRCODE = '53400'; END \$\$;
  CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('ALTER EXTENSION') EXECUTE FUNCTION refuse()"
restart_cluster late
expect 'a failure is reported in claims.passes' "$(wait_for '53400|not today' late "SELECT DISTINCT sqlstate, message FROM claims.passes WHERE kind = 'update'")" '53400|not today'
expect 'in the metrics' "$(late "SELECT value FROM claims.metrics() WHERE name = 'claims_pass_failed' AND labels ->> 'kind' = 'update'")" 1
expect 'and in the log' "$(cluster_log late | grep -c 'WARNING:  claims: update failed: not today')" 1
expect 'calls fail at once, and say what to do' "$(as_late_cell "$read") $(late "$read" 2>&1 | grep -c 'HINT:  Run ALTER EXTENSION claims UPDATE')" '55000 1'
late 'DROP EVENT TRIGGER refuse'
expect 'it is tried again' "$(wait_for "$NEW" version_at late)" "$NEW"
expect 'the metric says so' "$(wait_for 0 late "SELECT value FROM claims.metrics() WHERE name = 'claims_pass_failed' AND labels ->> 'kind' = 'update'")" 0

# --- where nobody updates it ----------------------------------------------------------------------------------------------------

late "CREATE DATABASE unattended TEMPLATE template0 ENCODING 'UTF8'"
( use_cluster late; sql unattended "CREATE EXTENSION claims VERSION '$OLD'" )
unattended() { ( use_cluster late; sqlstate unattended "SET claims.service_timeout = '600s'; $read" ); }
expect 'a database without a worker does not wait' "$(unattended)" 55000
again
configure late <<<'claims.auto_update = off'
restart_cluster late
expect 'off: calls do not wait' "$(as_late_cell "$read")" 55000
wait_until eval "cluster_log late | grep -q 'claims worker waits: the extension is of version $OLD'"
expect 'and changes nothing' "$(version_at late)" "$OLD"
# A standby, of which nobody can change anything.
configure late <<<'claims.auto_update = on'
halt late
(cd /tmp && as_server touch "${CLUSTER_DIR[late]}/data/standby.signal")
configure late <<<"primary_conninfo = 'host=/nowhere'"
resume late
expect 'a standby does not wait' "$(as_late_cell "$read") $(version_at late)" "55000 $OLD"
control late promote
expect 'and is updated when it is promoted' "$(wait_for "$NEW" version_at late)" "$NEW"
