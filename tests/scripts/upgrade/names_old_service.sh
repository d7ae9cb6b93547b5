#!/usr/bin/env bash
# A cell of this version at a service of 1.0.0, which has not all functions that it calls: each call says so, and which side to
# upgrade. Then the service is upgraded; and at last it has tables of another version of Unicode.
OLD=1.0.0
. "$(dirname "$0")/upgrade.bash"

service=script_names_service cell=script_names_cell
make_database $service
fresh_roles
sql $service "CREATE EXTENSION claims VERSION '$OLD'; INSERT INTO claims.cells (cell_id, role) VALUES (1, 'postgres')"
make_database $cell
sql $cell "
  ALTER DATABASE $cell SET claims.service_timeout = '20s';
  CREATE EXTENSION claims; SELECT claims.register_cell(1, 'postgres');
  CREATE SERVER service FOREIGN DATA WRAPPER claims_service OPTIONS (host '$PGHOST', port '${PGPORT:-5432}', dbname '$service');
  CREATE USER MAPPING FOR PUBLIC SERVER service OPTIONS (user 'postgres');
  CREATE TABLE routes (id bigint PRIMARY KEY, path text UNIQUE, n int DEFAULT 1);
  SELECT claims.claim_attribute('routes', 'path', 'ROUTES', 'GROUP', 'n', 'RAILS_TABLE_ROUTES')" >/dev/null

message() { { psql -XqAt -d "$1" -c "$2" 2>&1 >/dev/null || true; } | tr '\n' ' '; }
refusal='ERROR:  claims service has an older version of the extension than this database'
hint="HINT:  Upgrade the extension in the service's database; a service supports older cells, not the other way round."

# refused WHAT CALL
refused() {
  expect "$1" "$(sqlstate $cell "$2")" 0A000
  local text; text=$(message $cell "$2")
  case $text in "$refusal"*'DETAIL:  It answers: '*claims.*"$hint"*) ;; *) echo "FAILED: $1 says: $text" >&2; exit 1 ;; esac
}
refused 'begin_pending' "BEGIN; INSERT INTO routes VALUES (1, 'a'); SELECT claims.begin_pending(1, 'service'); COMMIT"
refused 'recovery' "SELECT * FROM claims.reconcile(1, 'service')"
refused 'verification' "SELECT * FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0')"
sql $cell "SELECT claims.automatic(1, 'service')" >/dev/null
refused 'the end of a transaction' "INSERT INTO routes VALUES (1, 'a')"
expect 'nothing was saved' "$(sql $cell 'SELECT count(*) FROM routes')" 0
expect 'it is no failure of the service' "$(sql $cell "SELECT count(*) FROM claims.service_state WHERE failures > 0 OR breaker <> 'closed'")" 0
# The messages of a service may be in another language.
if [ "$(sql $service "SET lc_messages = 'de_DE.UTF-8'; SELECT 1" 2>/dev/null)" = 1 ]; then
  sql postgres "ALTER DATABASE $service SET lc_messages = 'de_DE.UTF-8'"
  refused 'in another language' "INSERT INTO routes VALUES (1, 'a')"
fi

# --- the service is upgraded ----------------------------------------------------------------------------------------
sql $service 'ALTER EXTENSION claims UPDATE'
sql $cell "INSERT INTO routes VALUES (1, 'A')"
expect 'upgraded, it serves' "$(sql $cell "SELECT orphaned FROM claims.reconcile(1, 'service')" | cut -d'|' -f1) $(sql $service "SELECT bucket_value || status FROM claims.records")" '0 AACTIVE'
expect 'types of 1.0.0 compare bytes' "$(sql $service "SELECT DISTINCT profile || confusables FROM claims.list_types() WHERE kind = 'bucket'")" exactallow
sql $cell "INSERT INTO routes VALUES (2, 'a')"
expect 'as they did' "$(sql $service "SELECT string_agg(bucket_value, ' ' ORDER BY bucket_value COLLATE \"C\") FROM claims.records")" 'A a'

# --- tables of another version of Unicode ---------------------------------------------------------------------------
for database in $cell $service; do sql $database "SELECT claims.add_bucket_type(110, 'HANDLES', 'username')"; done
sql $cell "CREATE TABLE users (id bigint PRIMARY KEY, handle text UNIQUE, n int DEFAULT 1);
  SELECT claims.claim_attribute('users', 'handle', 'HANDLES', 'USER', 'n', 'RAILS_TABLE_USERS');
  INSERT INTO users VALUES (1, 'Ada')" >/dev/null
unicode=$(sql $service 'SELECT unicode FROM claims.version()')
# as_if VERSION: has the version of Unicode that the cell sends arrive at the service as VERSION, and records the real one.
sql $service "ALTER FUNCTION claims.require_naming(text, text[], text[]) RENAME TO require_naming_here; CREATE TABLE said (unicode text)"
as_if() {
  sql $service "CREATE OR REPLACE FUNCTION claims.require_naming(unicode text, bucket_types text[], profiles text[]) RETURNS void LANGUAGE sql
    AS \$\$ INSERT INTO public.said VALUES (unicode); SELECT claims.require_naming_here('$1', bucket_types, profiles) \$\$"
}
# other WHAT CALL SIDE
other() {
  expect "$1" "$(sqlstate $cell "$2")" 0A000
  case $(message $cell "$2") in
    'ERROR:  cell and service have tables of different versions of Unicode DETAIL: '*"$unicode"*"HINT:  Upgrade the extension in the $3's database. "*) ;;
    *) echo "FAILED: $1 says: $(message $cell "$2")" >&2; exit 1 ;;
  esac
}
for pair in 15.1.0:cell 99.0.0:service 18.0:cell; do
  as_if "${pair%:*}"
  other "a begin, ${pair%:*}" "INSERT INTO users VALUES (2, 'Bob')" "${pair#*:}"
  other "verification, ${pair%:*}" "SELECT * FROM claims.verify(1, 'service', 'RAILS_TABLE_USERS', recent => '0', correct => true)" "${pair#*:}"
done
expect 'nothing was saved, claimed or corrected' "$(sql $cell 'SELECT count(*) FROM users') $(sql $service "SELECT string_agg(bucket_value || ' ' || display_value, ', ') FROM claims.records WHERE bucket_type = 'HANDLES'")" '1 ada Ada'
sql $cell "INSERT INTO routes VALUES (3, 'b')"
expect 'bytes are bytes in every version' "$(sql $service "SELECT count(*) FROM claims.records WHERE bucket_value = 'b'")" 1
as_if "$unicode"
sql $cell "INSERT INTO users VALUES (2, 'Bob')"
expect 'the same version again' "$(sql $service "SELECT count(*) FROM claims.records WHERE bucket_value = 'bob'")" 1
expect 'the cell says which version it has' "$(sql $service "SELECT DISTINCT unicode FROM said") $(sql $cell 'SELECT unicode FROM claims.version()')" "$unicode $unicode"

for database in $cell $service; do sql postgres "DROP DATABASE $database WITH (FORCE)"; done
